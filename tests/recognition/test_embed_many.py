"""Embedding into folders: every kind of data and model, going on, refusing, and noticing damage."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from pyarrow import parquet
from safetensors.numpy import load_file, save_file

from arcset import DataError
from arcset.data import open_source
from arcset.data.sources.pack import pack
from arcset.recognition.embed_many import Embedder, embed_many
from arcset.recognition.export import export
from support.bulk import RefusedError, embed, photo_run, read_embeddings, rows_of
from support.processes import environment
from support.random_runs import random_run
from support.recordio import insightface_records, write_records
from support.small_data import vectors

LONG = pytest.mark.long


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
def embedded(made):
    """The pictures in shards of eight."""
    embed(made / "run", made / "photos", made / "eights", shard_size=8)
    return made / "eights"


@pytest.fixture
def folder(embedded, tmp_path):
    """A copy of these."""
    return shutil.copytree(embedded, tmp_path / "out")


@pytest.fixture
def again(made, folder):
    """The same call once more."""
    return lambda **options: embed(made / "run", made / "photos", folder, **options)


def shard(folder, number):
    return folder / f"shard-{number:05d}.parquet"


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("data", "inputs", "skipped"),
    [
        ("photos", 62, 3),
        ("table.csv", 63, 4),
        ("train.rec", 59, 0),
        ("pack", 59, 0),
        ("images.npz", 59, 0),
        pytest.param("mnist-sample", 5000, 0, marks=LONG),
    ],
)
def test_every_kind_of_data_gives_the_rows_of_the_file_way(made, tmp_path, data, inputs, skipped):
    """Those of `arcset embed --out FILE`, which holds all in memory; up to rounding."""
    run, shards, options = made / "run", 9, {"shard_size": 7}
    if data == "mnist-sample":
        run, shards, options = tmp_path / "digits", 20, {}
        random_run(run, data=data, network="mlp")
    else:
        data = made / data
    result = embed(run, data, tmp_path / "out", **options)
    assert (result.inputs, result.samples) == (inputs, inputs - skipped)
    assert (result.skipped, result.shards, result.made) == (skipped, shards, shards)
    found = read_embeddings(tmp_path / "out")
    embed(run, data, tmp_path / "out.parquet")
    whole = read_embeddings(tmp_path / "out.parquet")
    assert found.class_names == whole.class_names
    assert found.trained_on == whole.trained_on
    order, theirs = _by_path(found), _by_path(whole)
    assert found.names[order].tolist() == whole.names[theirs].tolist()
    np.testing.assert_allclose(found.embeddings[order], whole.embeddings[theirs], rtol=1e-4)
    if found.paths is None:
        assert whole.paths is None
    else:
        assert sorted(found.paths) == sorted(whole.paths)
    assert embed(run, data, tmp_path / "out").made == 0


def _by_path(found):
    """An order that both ways share: by path, or as they are."""
    return np.argsort(found.paths, kind="stable") if found.paths else np.arange(len(found))


def test_features(tmp_path):
    data = vectors(tmp_path / "v.npz")
    run = random_run(tmp_path / "run", data=data, network="mlp").path
    assert embed(run, data, tmp_path / "out", shard_size=50).samples == 96
    embed(run, None, tmp_path / "whole.npz")
    found, whole = (read_embeddings(tmp_path / name) for name in ("out", "whole.npz"))
    np.testing.assert_allclose(found.embeddings, whole.embeddings, rtol=1e-4)
    vectors(tmp_path / "w.npz", dim=5)
    for other, quoted in (("mnist-sample", "6.*mnist-sample"), (tmp_path / "w.npz", "6.*5")):
        with pytest.raises(RefusedError, match=quoted):
            embed(run, other, tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_a_mapping_of_the_run_renames_and_removes(made, tmp_path):
    mapping = tmp_path / "mapping.json"
    mapping.write_text('{"person 0": "anna", "person 1": "anna", "person 5": null}')
    run = random_run(tmp_path / "run", data=made / "images.npz", mapping=str(mapping))
    shutil.copy(mapping, run.mapping_file)
    result = embed(run.path, None, tmp_path / "out")
    found = read_embeddings(tmp_path / "out")
    assert found.class_names == ("anna", "person 2", "person 3", "person 4")
    assert result.samples == 49


def test_what_was_skipped_is_noted(folder, again):
    notes = sorted((folder / "_arcset").glob("skipped-*.json"))
    assert [note.name for note in notes] == [f"skipped-{n:05d}.json" for n in (0, 2, 7)]
    noted = dict(item for note in notes for item in json.loads(note.read_text()))
    assert set(noted) == {"person 0/03.png", "person 1/empty.png", "stray.png"}
    result = again()
    assert (result.made, result.skipped) == (0, 3)
    assert all(path in result.told for path in noted)
    notes[0].unlink()  # the shard is not complete without it
    assert again().made == 1
    assert notes[0].exists()


def test_nothing_that_can_be_read(made, tmp_path):
    (tmp_path / "bad/a").mkdir(parents=True)
    (tmp_path / "bad/a/1.png").write_bytes(b"no image")
    with pytest.raises(RefusedError, match=r"a/1\.png"):
        embed(made / "run", tmp_path / "bad", tmp_path / "out")
    with pytest.raises(DataError, match="out"):
        read_embeddings(tmp_path / "out")


@pytest.mark.parametrize("damage", ["cut", "gone", "other", "swapped"])
def test_a_damaged_shard_is_noticed_and_made_again(folder, again, damage):
    whole = rows_of(read_embeddings(folder))
    path = shard(folder, 3)
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-100])
    elif damage == "gone":
        path.unlink()
    elif damage == "other":
        parquet.write_table(parquet.read_table(path).replace_schema_metadata(None), path)
    else:
        path.write_bytes(shard(folder, 4).read_bytes())
    with pytest.raises(DataError, match="shard-00003"):
        read_embeddings(folder)
    assert again().made == 1
    assert path.read_bytes() == content
    assert rows_of(read_embeddings(folder)) == whole


def test_a_changed_byte_is_noticed_by_a_check(folder, again):
    path = shard(folder, 3)
    content = bytearray(path.read_bytes())
    held = read_embeddings(folder).embeddings[3 * 8 - 2]  # two skipped before
    content[bytes(content).index(held.tobytes())] ^= 1
    path.write_bytes(content)
    assert again().made == 0  # its end is as it should be
    assert again(check=True).made == 1
    assert again(check=True).made == 0


def test_what_killed_processes_left_goes(again, folder):
    before = sorted(folder.rglob("*"))
    (folder / ".shard-00001.parquet.0a1b2c3d.part").touch()
    (folder / "_arcset/.skipped-00003.json.0a1b2c3d.part").touch()
    shard(folder, 99).touch()
    assert again().made == 0
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(sys.platform != "linux", reason="names of files as bytes")
def test_names_that_are_no_unicode(made, tmp_path):
    place = os.fsdecode(os.fsencode(tmp_path) + b"/ph\xffotos")
    shutil.copytree(made / "photos", place)
    assert embed(made / "run", place, tmp_path / "out").samples == 59
    assert embed(made / "run", place, tmp_path / "out").made == 0


def test_other_inputs_models_and_settings_are_refused(made, folder, tmp_path):
    photos, run = shutil.copytree(made / "photos", tmp_path / "photos"), made / "run"
    before = contents(folder)
    image, elsewhere = photos / "person 2/00.png", photos / "person 3/98.png"
    image.rename(elsewhere)
    with pytest.raises(RefusedError, match=r"out.* 62 .*photos"):
        embed(run, photos, folder)
    elsewhere.rename(image)
    assert embed(run, photos, folder).made == 0
    other = random_run(tmp_path / "other", data=made / "images.npz", seed=5).path
    for options, quoted in (
        ({"shard_size": 9}, "out.* 8.* 9"),
        ({"dtype": "float16"}, "out.*float32.*float16"),
        ({"shard_size": 0}, "0"),
        ({"dtype": "int8"}, "int8"),
    ):
        with pytest.raises(RefusedError, match=quoted):
            embed(run, photos, folder, **options)
    with pytest.raises(RefusedError, match=r"out.*run.*other"):
        embed(other, photos, folder)
    (folder / "_arcset/manifest.json").write_text("{}")
    with pytest.raises(RefusedError, match=r"manifest\.json.*--force"):
        embed(run, photos, folder)
    (folder / "_arcset/manifest.json").write_bytes(before[folder / "_arcset/manifest.json"])
    assert contents(folder) == before
    # What is wanted by force, takes its place; fewer shards, and none of the old.
    result = embed(other, photos, folder, shard_size=20, force=True)
    assert (result.made, result.model, len(list(folder.glob("shard-*")))) == (4, "other", 4)
    assert embed(other, photos, folder, force=True).made == 0  # the same is gone on with


def test_folders_of_others_are_left_alone(made, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    for options in ({}, {"force": True}):
        with pytest.raises(RefusedError, match=r"mine.*letter\.txt"):
            embed(made / "run", made / "photos", tmp_path / "mine", **options)
    with pytest.raises(RefusedError, match=r"letter\.txt"):
        embed(made / "run", made / "photos", f"{tmp_path}/mine/letter.txt/")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(RefusedError, match="nothing"):
        embed(made / "run", tmp_path / "nothing", tmp_path / "new/deep")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["letter.txt", "mine", "nothing"]


def test_only_the_shards_of_changed_files_are_made_again(made, folder, tmp_path):
    photos = shutil.copytree(made / "photos", tmp_path / "photos")
    Image.new("L", (10, 10)).save(photos / "person 3/01.png")  # noticed by its size
    result = embed(made / "run", photos, folder)
    assert (result.made, result.samples) == (1, 59)
    embed(made / "run", photos, tmp_path / "anew", shard_size=8)
    assert rows_of(read_embeddings(folder)) == rows_of(read_embeddings(tmp_path / "anew"))


def test_halves(made, tmp_path):
    for name, dtype in (("whole", "float32"), ("half", "float16")):
        embed(made / "run", made / "photos", tmp_path / name, dtype=dtype)
    whole, half = (read_embeddings(tmp_path / name) for name in ("whole", "half"))
    assert half.embeddings.dtype == np.float32
    np.testing.assert_array_equal(half.embeddings, whole.embeddings.astype(np.float16))
    table = parquet.read_table(tmp_path / "half")  # as any other tool reads it
    assert table.column_names == ["path", "label", "embedding"]
    assert table["path"].to_pylist() == list(half.paths)
    assert str(table.schema.field("embedding").type) == "fixed_size_list<element: halffloat>[8]"


def _layer(name):
    return int(name.partition(".")[0])


def test_numbers_too_large_for_halves(made, tmp_path):
    run = shutil.copytree(made / "run", tmp_path / "run")
    weights = load_file(run / "model.safetensors")
    last = weights[max((name for name in weights if name.endswith("weight")), key=_layer)]
    last *= 1e7
    save_file(weights, run / "model.safetensors")
    with pytest.raises(RefusedError, match="65,504"):
        embed(run, made / "photos", tmp_path / "out", dtype="float16")
    assert not list((tmp_path / "out").glob("*shard*"))


def test_an_export_has_the_digest_of_its_run_and_gives_embeddings_of_length_1(
    made, folder, tmp_path
):
    onnx = export(made / "run", tmp_path / "run.onnx").file
    embed(onnx, made / "pack", tmp_path / "rows")
    rows = read_embeddings(tmp_path / "rows").embeddings
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    with pytest.raises(RefusedError, match=f"{folder}.*length 1"):
        embed(onnx, made / "photos", folder)


@pytest.mark.parametrize("processes", [1, 3])
def test_progress_is_that_of_the_own_share(made, tmp_path, processes):
    source, embedder = open_source(made / "photos"), Embedder(made / "run", device="cpu")
    told = []
    result = embed_many(
        tmp_path / "out",
        source,
        embedder,
        shard_size=8,
        rank=processes - 1,
        processes=processes,
        progress=lambda done, total: told.append((done, total)),
    )
    share = {1: 62, 3: 8 + 8}[processes]  # shards 2 and 5 of 8
    assert told[-1] == (share, share)
    assert told == sorted(told)
    assert (result.samples is None) == (processes > 1)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory in kilobytes, as Linux tells")
def test_ten_times_the_samples_take_no_more_memory(tmp_path):
    """A hundred bytes for each would show."""
    peaks = {}
    for count in (50_000, 500_000):
        command = [sys.executable, "-m", "support.bulk_memory", str(tmp_path), str(count)]
        done = subprocess.run(
            command, env=environment(), stdout=subprocess.PIPE, text=True, check=True
        )
        peaks[count] = int(done.stdout)
    assert peaks[500_000] < peaks[50_000] + 30, peaks
