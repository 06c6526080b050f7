"""Embedding into folders: every kind of data and model, going on, refusing, and noticing damage."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pyarrow import parquet

from arcset.data.embedding_files import read_embeddings
from arcset.data.embedding_folders import read_manifest, shard_path
from arcset.data.mapping import ClassMapping
from arcset.data.own import pack
from arcset.errors import DataError, OptionError, RunError
from arcset.recognition import Recognizer
from arcset.recognition.bulk import (
    ImagesModel,
    TrainedModel,
    embed_folder,
    embed_source,
    open_source,
)
from arcset.recognition.bulk.beginning import locked
from arcset.runs import Run
from arcset.training.judge import judge_run
from support.bulk import photo_run, rows_of
from support.random_runs import random_run
from support.recordio import insightface_records, write_records
from support.small_data import vectors


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, pictures, and the same pictures as a table, records, a pack and arrays."""
    place = tmp_path_factory.mktemp("bulk")
    _, photos = photo_run(place)
    files = sorted(photos.glob("*/*.png"))
    rows = [f"{file.relative_to(place)},{file.parent.name}" for file in files]
    (place / "table.csv").write_text("path,label\n" + "\n".join(rows) + "\nlost.png,x\n,y\n")
    good = [file for file in files if file.stat().st_size > 10]
    labels = [int(file.parent.name[-1]) for file in good]
    images = [(label, file.read_bytes()) for label, file in zip(labels, good, strict=True)]
    write_records(place / "train.rec", insightface_records(images))
    pack(photos, place / "pack")
    pixels = np.stack([np.asarray(Image.open(file)) for file in good])
    np.savez(place / "images.npz", images=pixels, labels=[f"person {n}" for n in labels])
    return place


@pytest.fixture(scope="module")
def model(made):
    return TrainedModel(Run.open(made / "run"), "cpu")


def embed(folder, source, model, **options):
    return embed_folder(folder, open_source(str(source)), model, **options)


@pytest.mark.parametrize(
    ("data", "inputs", "skipped"),
    [
        ("photos", 62, 3),
        ("table.csv", 63, 4),
        ("train.rec", 59, 0),
        ("pack", 59, 0),
        ("images.npz", 59, 0),
        ("mnist-sample", 5000, 0),
    ],
)
def test_every_kind_of_data_gives_the_rows_of_the_file_way(
    made, model, tmp_path, data, inputs, skipped
):
    """Those of `arcset embed --out FILE`, which holds all in memory; up to rounding."""
    named = data == "mnist-sample"
    if named:
        run = random_run(tmp_path / "digits", data=data, network="mlp")
        model = TrainedModel(run, "cpu")
    else:
        run, data = Run.open(made / "run"), str(made / data)
    result = embed(tmp_path / "out", data, model, shard_size=7 if not named else None)
    assert (result.samples, result.skipped) == (inputs - skipped, skipped)
    assert result.manifest.shards == result.made == (9 if not named else 20)
    found = read_embeddings(tmp_path / "out")
    judged = judge_run(run, data, part="all", device="cpu").embeddings
    assert found.class_names == judged.class_names
    assert found.trained_on == judged.trained_on
    order, theirs = _by_path(found), _by_path(judged)
    assert found.names[order].tolist() == judged.names[theirs].tolist()
    np.testing.assert_allclose(found.embeddings[order], judged.embeddings[theirs], rtol=1e-4)
    if found.paths is None:
        assert judged.paths is None
    else:
        assert sorted(found.paths) == sorted(judged.paths)
    assert embed(tmp_path / "out", data, model).made == 0


def _by_path(found):
    """An order that both ways share: by path, or as they are."""
    return np.argsort(found.paths, kind="stable") if found.paths else np.arange(len(found))


def test_features(tmp_path):
    run = random_run(tmp_path / "run", data=vectors(tmp_path / "v.npz"), network="mlp")
    model = TrainedModel(run, "cpu")
    assert embed(tmp_path / "out", tmp_path / "v.npz", model, shard_size=50).samples == 96
    judged = judge_run(run, None, part="all", device="cpu").embeddings
    found = read_embeddings(tmp_path / "out")
    np.testing.assert_allclose(found.embeddings, judged.embeddings, rtol=1e-4)
    with pytest.raises(OptionError, match="run takes vectors of 6 values, and mnist-sample holds"):
        embed(tmp_path / "more", "mnist-sample", model)
    vectors(tmp_path / "w.npz", dim=5)
    with pytest.raises(OptionError, match="takes vectors of 6 values, and these are vectors of 5"):
        embed(tmp_path / "more", tmp_path / "w.npz", model)
    assert not (tmp_path / "more").exists()


def test_an_onnx_file_gives_unit_rows(made, tmp_path):
    from arcset.recognition.export import export

    onnx = ImagesModel(Recognizer.load(export(made / "run", tmp_path / "net.onnx").file))
    trained = TrainedModel(Run.open(made / "run"), "cpu")
    assert onnx.digest == trained.digest
    for data in ("photos", "pack", "images.npz"):
        assert embed(tmp_path / data, made / data, onnx, shard_size=16).samples == 59
        found = read_embeddings(tmp_path / data)
        np.testing.assert_allclose(np.linalg.norm(found.embeddings, axis=1), 1, rtol=1e-5)
        memory, _ = embed_source(open_source(str(made / data)), onnx)
        np.testing.assert_allclose(found.embeddings, memory.embeddings, atol=1e-6)
        assert (found.paths, found.class_names) == (memory.paths, memory.class_names)
    with pytest.raises(OptionError, match="holds embeddings of the model"):  # of another length
        embed(tmp_path / "photos", made / "photos", trained)


def test_pictures_of_another_size_are_read_again(made, tmp_path):
    """A pack and arrays as image files would be; a named dataset is what it is."""
    larger = tmp_path / "larger.npz"
    with np.load(made / "images.npz") as held:
        pixels = held["images"].repeat(2, axis=1).repeat(2, axis=2)
        np.savez(larger, images=pixels, labels=held["labels"])
    model = TrainedModel(Run.open(made / "run"), "cpu")
    embed(tmp_path / "a", larger, model)
    embed(tmp_path / "b", made / "images.npz", model)
    one, other = (read_embeddings(tmp_path / name).embeddings for name in "ab")
    np.testing.assert_allclose(one, other, rtol=1e-4)
    with pytest.raises(OptionError, match="takes images of 10×10 grey, and these are images of 28"):
        embed(tmp_path / "c", "mnist-sample", model)


def test_a_mapping_renames_and_removes(made, model, tmp_path):
    mapping = ClassMapping({"person 0": "anna", "person 1": "anna", "person 5": None})
    source = open_source(str(made / "photos"), mapping)
    result = embed_folder(tmp_path / "out", source, model)
    found = read_embeddings(tmp_path / "out")
    assert found.class_names == ("anna", "person 2", "person 3", "person 4")
    assert (result.samples, result.skipped) == (49, 3)


def test_what_was_skipped_is_noted(made, model, tmp_path):
    result = embed(tmp_path / "out", made / "photos", model, shard_size=8)
    notes = sorted((tmp_path / "out/_arcset").glob("skipped-*.json"))
    assert [note.name for note in notes] == [f"skipped-{n:05d}.json" for n in (0, 2, 7)]
    noted = dict(item for note in notes for item in json.loads(note.read_text()))
    assert noted == dict(result.first_skipped)
    assert noted["person 1/empty.png"] == "is empty"
    assert noted["stray.png"].startswith("lies in no sub-folder")
    assert "cannot be read as an image" in noted["person 0/03.png"]
    again = embed(tmp_path / "out", made / "photos", model)
    assert (again.made, again.skipped) == (0, 3)
    assert sorted(again.first_skipped) == sorted(result.first_skipped)
    notes[0].unlink()  # the shard is not complete without it
    assert embed(tmp_path / "out", made / "photos", model).made == 1
    assert notes[0].exists()


def test_nothing_that_can_be_read(model, tmp_path):
    (tmp_path / "bad/a").mkdir(parents=True)
    (tmp_path / "bad/a/1.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"none of the 1 samples .* can be used: a/1.png cannot be"):
        embed(tmp_path / "out", tmp_path / "bad", model)
    with pytest.raises(DataError, match="all 1 inputs were skipped"):
        read_embeddings(tmp_path / "out")


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "other", "swapped"])
def test_a_damaged_shard_is_noticed_and_made_again(made, model, tmp_path, damage):
    folder = tmp_path / "out"
    embed(folder, made / "photos", model, shard_size=8)
    whole = rows_of(read_embeddings(folder))
    path = shard_path(folder, 3)
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-100])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "gone":
        path.unlink()
    elif damage == "other":
        parquet.write_table(parquet.read_table(path).replace_schema_metadata(None), path)
    else:
        path.write_bytes(shard_path(folder, 4).read_bytes())
    with pytest.raises(DataError, match=r"not complete: .*shard-00003.* the same `arcset embed`"):
        read_embeddings(folder)
    assert embed(folder, made / "photos", model).made == 1
    assert path.read_bytes() == content
    assert rows_of(read_embeddings(folder)) == whole


def test_a_changed_byte_is_noticed_by_a_check(made, model, tmp_path):
    folder = tmp_path / "out"
    embed(folder, made / "photos", model, shard_size=8)
    path = shard_path(folder, 3)
    content = bytearray(path.read_bytes())
    held = read_embeddings(folder).embeddings[3 * 8 - 2]  # two skipped before
    content[bytes(content).index(held.tobytes())] ^= 1
    path.write_bytes(content)
    assert embed(folder, made / "photos", model).made == 0  # its end is as it should be
    assert embed(folder, made / "photos", model, check=True).made == 1
    assert embed(folder, made / "photos", model, check=True).made == 0


def test_what_killed_processes_left_goes(made, model, tmp_path):
    folder = tmp_path / "out"
    (folder / "_arcset").mkdir(parents=True)
    left = [
        folder / ".shard-00001.parquet.0a1b2c3d.part",
        folder / "_arcset/.inputs.parquet.0.part",
    ]
    left[1].touch()  # killed before there was a manifest
    embed(folder, made / "photos", model, shard_size=8)
    left[0].touch()
    (folder / "shard-00099.parquet").touch()
    embed(folder, made / "photos", model)
    assert not any(path.exists() for path in (*left, folder / "shard-00099.parquet"))


@pytest.mark.parametrize("left", [None, '["somebody else"]'])
def test_what_training_knew_is_said_again(made, model, tmp_path, left):
    """Whoever was killed may have written the manifest, and not yet this."""
    folder = tmp_path / "out"
    embed(folder, made / "photos", model)
    (folder / "_arcset/trained_on.json").unlink()
    if left is not None:
        (folder / "_arcset/trained_on.json").write_text(left)
    assert embed(folder, made / "photos", model).made == 0
    assert read_embeddings(folder).trained_on == model.trained_on


def test_a_folder_whose_list_is_some_seconds_old(made, model, tmp_path, monkeypatch):
    """As NFS shows it: shards of other machines are there, and not in it yet."""
    listed = Path.glob
    monkeypatch.setattr(Path, "glob", lambda place, pattern: list(listed(place, pattern))[:3])
    assert embed(tmp_path / "out", made / "photos", model, shard_size=8).made == 8


def test_shards_that_come_from_elsewhere_are_noticed(made, model, tmp_path):
    folder = tmp_path / "out"

    def meanwhile(done, _):
        shard = shard_path(folder, 99)
        if done > 8 and not shard.exists():
            shard.write_bytes(shard_path(folder, 0).read_bytes())

    with pytest.raises(DataError, match="has 8 of 8 shards and 1 others"):
        embed(folder, made / "photos", model, shard_size=8, progress=meanwhile)
    assert embed(folder, made / "photos", model).made == 0


@pytest.mark.skipif(sys.platform != "linux", reason="names of files as bytes")
def test_names_that_are_no_unicode(made, model, tmp_path):
    place = os.fsdecode(os.fsencode(tmp_path) + b"/ph\xffotos")
    shutil.copytree(made / "photos", place)
    embed(tmp_path / "out", place, model)
    assert read_manifest(tmp_path / "out").source.endswith("ph\\xffotos")
    assert embed(tmp_path / "out", place, model).made == 0


def test_a_pack_whose_lists_are_too_short(made, model, tmp_path):
    shutil.copytree(made / "pack", tmp_path / "pack")
    paths = tmp_path / "pack/paths.parquet"
    parquet.write_table(parquet.read_table(paths).slice(1), paths)
    with pytest.raises(DataError, match=r"is no complete pack: paths.parquet names 58 of its 59"):
        embed(tmp_path / "out", tmp_path / "pack", model)
    assert not (tmp_path / "out").exists()


def test_other_inputs_models_and_settings_are_refused(made, model, tmp_path):
    folder, photos = tmp_path / "out", tmp_path / "photos"
    shutil.copytree(made / "photos", photos)
    embed(folder, photos, model, shard_size=8)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    changed = [
        lambda: (photos / "person 2/99.png").write_bytes(b"one more"),
        lambda: (photos / "person 2/99.png").unlink(),  # as it was
        lambda: (photos / "person 2/00.png").rename(photos / "person 3/98.png"),
        lambda: (photos / "person 3/98.png").write_bytes(b"other content"),
    ]
    for place, change in enumerate(changed):
        change()
        if place == 1:
            assert embed(folder, photos, model).made == 0
            continue
        with pytest.raises(OptionError, match=r"was begun with 62 inputs .* are not the same"):
            embed(folder, photos, model)
    shutil.rmtree(photos)
    shutil.copytree(made / "photos", photos)
    other = TrainedModel(random_run(tmp_path / "other", data=made / "images.npz", seed=5), "cpu")
    with pytest.raises(OptionError, match=r"holds embeddings of the model run .* is other"):
        embed(folder, photos, other)
    with pytest.raises(OptionError, match="has shards of 8, not of 9"):
        embed(folder, photos, model, shard_size=9)
    with pytest.raises(OptionError, match="holds float32, not float16"):
        embed(folder, photos, model, dtype="float16")
    for options in ({"shard_size": 0}, {"dtype": "int8"}):
        with pytest.raises(OptionError):
            embed(folder, photos, model, **options)
    (folder / "_arcset/manifest.json").write_text("{}")
    with pytest.raises(DataError, match=r"is damaged.*--force"):
        embed(folder, photos, model)
    (folder / "_arcset/manifest.json").write_bytes(before[folder / "_arcset/manifest.json"])
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    # What is wanted by force, takes its place; fewer shards, and none of the old.
    result = embed(folder, photos, other, shard_size=20, force=True)
    assert (result.made, len(list(folder.glob("shard-*")))) == (4, 4)
    assert read_manifest(folder).model == "other"
    assert embed(folder, photos, other, force=True).made == 0  # the same is gone on with


def test_folders_of_others_are_left_alone(made, model, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    for force in (False, True):
        with pytest.raises(OptionError, match=r"holds other things, as letter\.txt"):
            embed(tmp_path / "mine", made / "photos", model, force=force)
    with pytest.raises(OptionError, match="is a file"):
        embed(tmp_path / "mine/letter.txt", made / "photos", model)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        embed(tmp_path / "new/deep", tmp_path / "nothing", model)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["letter.txt", "mine", "nothing"]


def test_two_at_once_are_refused(made, model, tmp_path, monkeypatch):
    monkeypatch.setattr("arcset.recognition.bulk.beginning._WAIT", 0.2)
    embed(tmp_path / "out", made / "photos", model)
    with (
        locked(tmp_path / "out"),
        pytest.raises(RunError, match="another process is writing to"),
    ):
        embed(tmp_path / "out", made / "photos", model)
    assert embed(tmp_path / "out", made / "photos", model).made == 0


def test_halves(made, model, tmp_path):
    embed(tmp_path / "whole", made / "photos", model)
    embed(tmp_path / "half", made / "photos", model, dtype="float16")
    whole, half = (read_embeddings(tmp_path / name) for name in ("whole", "half"))
    assert half.embeddings.dtype == np.float32
    np.testing.assert_array_equal(half.embeddings, whole.embeddings.astype(np.float16))
    assert str(parquet.read_schema(shard_path(tmp_path / "half", 0)).field("embedding").type) == (
        "fixed_size_list<element: halffloat>[8]"
    )


def test_numbers_too_large_for_halves(made, tmp_path):
    class Large(TrainedModel):
        def embed(self, samples):
            return super().embed(samples) * np.float32(1e7)

    model = Large(Run.open(made / "run"), "cpu")
    with pytest.raises(DataError, match="beyond ±65,504"):
        embed(tmp_path / "out", made / "photos", model, dtype="float16")
    assert not list((tmp_path / "out").glob("*shard*"))


def test_shards_are_plain_parquet(made, model, tmp_path):
    """For tools that know nothing of arcset: a folder of files with the same columns."""
    embed(tmp_path / "out", made / "photos", model, shard_size=8)
    table = parquet.read_table(tmp_path / "out")
    assert table.column_names == ["path", "label", "embedding"]
    assert table["path"].to_pylist() == list(read_embeddings(tmp_path / "out").paths)


def test_a_chief_tells_how_far_all_are(made, model, tmp_path):
    told = []
    embed(
        tmp_path / "out",
        made / "photos",
        model,
        shard_size=8,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1] == (62, 62)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
