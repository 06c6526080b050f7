"""`arcset gallery` from the outside."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from arcset.data.embeddings import EmbeddingSet, write_embeddings
from arcset.recognition import Recognizer
from arcset.recognition.gallery import Gallery
from support.patterns import calibrated_run, pictures


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs, images of some, and a gallery of three that keeps its images."""
    folder = tmp_path_factory.mktemp("made")
    run = calibrated_run(folder / "run", identities=60)
    calibrated_run(folder / "other", seed=1, identities=60)
    shutil.move(folder / "calibrating", folder / "others")
    recognizer = Recognizer.load(run, device="cpu")
    with Gallery.open(folder / "people.db", recognizer, keep_images=True) as gallery:
        for name in ("anna", "ben", "carl"):
            gallery.enroll(name, pictures(folder / "photos", [name], 2))
    return folder


@pytest.fixture
def gallery(arcset_command, tmp_path, made):
    shutil.copytree(made, tmp_path, copy_function=linked, dirs_exist_ok=True)
    return lambda verb, *words: arcset_command("gallery", verb, "people.db", *words)


def linked(source, target):
    """Hundreds of images, which no test writes to, need no copies."""
    return os.link(source, target) if source.endswith(".png") else shutil.copy2(source, target)


def names(tmp_path, file="people.db"):
    with Gallery.open(tmp_path / file, read_only=True) as gallery:
        return [subject.name for subject in gallery.subjects()]


def test_list(gallery):
    done = gallery("list")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["subject", "samples", "added"]
    assert [line.split()[:2] for line in lines[1:4]] == [["anna", "2"], ["ben", "2"], ["carl", "2"]]
    assert lines[-1] == "3 subjects"
    content = json.loads(gallery("list", "--json").out)
    assert [one["name"] for one in content] == ["anna", "ben", "carl"]


def test_list_the_samples_of_one(gallery, made):
    assert gallery("list", "ben").out.splitlines()[1].endswith(" stored")
    content = json.loads(gallery("list", "ben", "--json").out)
    assert content[0]["source"] == str(made / "photos/ben/00.png")
    assert [one["id"] for one in content] == [3, 4]


def test_remove_subjects(gallery, tmp_path):
    done = gallery("remove", "anna", "carl")
    assert done.code == 0
    for word in ("anna", "carl", "people.db"):
        assert word in done.out
    assert names(tmp_path) == ["ben"]
    assert b"anna" not in (tmp_path / "people.db").read_bytes()


def test_remove_samples(gallery, tmp_path):
    done = gallery("remove", "--sample", "1", "--sample", "3", "--sample", "4", "--json")
    assert done.code == 0
    assert json.loads(done.out) == {"removed": {}, "samples": [1, 3, 4], "subjects": 2}
    assert names(tmp_path) == ["anna", "carl"]


def test_rename_and_merge(gallery, tmp_path):
    assert "Anna K." in gallery("rename", "anna", "Anna K.").out
    done = gallery("merge", "ben", "Anna K.")
    assert "Anna K." in done.out
    assert "4 samples" in done.out
    assert set(names(tmp_path)) == {"Anna K.", "carl"}


def test_info(gallery, made, arcset_command):
    content = json.loads(gallery("info", "--json").out)
    assert content["subjects"] == 3
    assert content["samples"] == 6
    assert content["keeps_images"] is True
    assert content["model_path"] == str(made / "run")
    assert content["calibration"]["identities"] == 60
    assert content["calibration"]["own"] is False
    assert content["point"]["gallery"] == 6
    lines = dict(line.split(maxsplit=1) for line in gallery("info").out.splitlines())
    assert lines["subjects"] == "3"
    assert "60 identities" in lines["calibration"]
    gallery("export", "--out", "people.parquet")
    arcset_command("gallery", "import", "copy.db", "people.parquet")
    done = arcset_command("gallery", "info", "copy.db")
    assert done.code == 0
    assert "--model" in done.out  # an export does not say where the model is


def test_export_and_import(gallery, arcset_command, tmp_path):
    done = gallery("export", "--out", "people.parquet")
    assert done.code == 0, done.err
    assert "people.parquet" in done.out
    done = arcset_command("gallery", "import", "copy.db", "people.parquet")
    assert done.code == 0, done.err
    assert "copy.db" in done.out
    assert names(tmp_path, "copy.db") == ["anna", "ben", "carl"]


def test_embeddings_of_any_tool(arcset_command, tmp_path):
    """A gallery without a model: embeddings in, a calibration from others, and answers."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(60, 16))

    def points(rows):
        return means[rows] + 0.1 * rng.normal(size=(len(rows), 16))

    few, others = np.arange(5), np.repeat(np.arange(5, 60), 4)
    words = [f"bird {row}" for row in few]
    write_embeddings(tmp_path / "birds.npz", EmbeddingSet.of(points(few), words))
    write_embeddings(tmp_path / "others.parquet", EmbeddingSet.of(points(others), others.tolist()))
    write_embeddings(tmp_path / "seen.npz", EmbeddingSet.of(points([3, 40]), ["?", "?"]))
    done = arcset_command("gallery", "import", "birds.db", "birds.npz")
    assert done.code == 0, done.err
    assert names(tmp_path, "birds.db") == words
    done = arcset_command("identify", "birds.db", "seen.npz")
    assert done.code == 1
    assert "undecided (bird 3)" in done.out
    assert "birds.db" in done.err
    done = arcset_command("gallery", "calibrate", "birds.db", "others.parquet")
    assert done.code == 0, done.err
    done = arcset_command("identify", "birds.db", "seen.npz", "--format", "jsonl")
    assert done.code == 0, done.err
    found = [json.loads(line)["subject"] for line in done.out.splitlines()]
    assert found == ["bird 3", None]


def test_migrate(gallery, arcset_command, tmp_path):
    done = gallery("migrate", "--model", "other", "--device", "cpu")
    assert done.code == 0, done.err
    assert "other" in done.out
    assert "6 samples" in done.out
    words = ["identify", "people.db", "photos/anna/01.png", "--fpir", "0.1", "--device", "cpu"]
    done = arcset_command(*words)  # and the new model is remembered
    assert done.code == 0, done.err
    assert ": anna" in done.out
    done = arcset_command(*words, "--model", "run")
    assert done.code == 2
    assert re.search(r"people\.db.*'other'", done.err)


def test_calibrate_from_others(gallery, arcset_command, tmp_path):
    (tmp_path / "run" / "threshold.json").unlink()
    done = gallery("calibrate", "others", "--model", "run", "--device", "cpu")
    assert done.code == 0, done.err
    assert "60 identities, 180 samples" in done.out
    assert "FPIR" in done.out
    done = arcset_command("identify", "people.db", "photos/ben", "--fpir", "0.1", "--device", "cpu")
    assert done.code == 0, done.err
    content = json.loads(gallery("info", "--json").out)
    assert content["calibration"]["own"] is True
    assert gallery("calibrate", "--remove").code == 0
    assert json.loads(gallery("info", "--json").out)["calibration"] is None


def test_calibrate_from_those_enrolled(gallery, arcset_command, tmp_path):
    shutil.copytree(tmp_path / "others/calibrating 7", tmp_path / "twin/calibrating 7 again")
    for path in (tmp_path / "twin").rglob("*.png"):
        path.write_bytes(path.read_bytes() + b"\0")  # another file that shows the same
    words = ["enroll", "people.db", "others", "twin", "--model", "run", "--device", "cpu"]
    assert arcset_command(*words).code == 0
    done = gallery("calibrate")
    assert done.code == 0, done.err
    assert "64 identities, 189 samples" in done.out
    assert re.search(r"calibrating 7 and calibrating 7 again.* 1\.0000", done.err)  # are they one?
    assert "0.01" in done.err  # is out of reach
    done = arcset_command("identify", "people.db", "photos/ben", "--fpir", "0.3", "--device", "cpu")
    assert done.code == 0, done.err


def test_few_subjects_calibrate_roughly_and_one_not_at_all(gallery, arcset_command, tmp_path):
    done = gallery("calibrate")
    assert done.code == 0, done.err
    assert "3 identities, 6 samples" in done.out
    assert json.loads(gallery("info", "--json").out)["calibration"]["own"] is True
    assert arcset_command("identify", "people.db", "photos/ben", "--device", "cpu").code == 0
    gallery("remove", "anna", "ben")
    done = gallery("calibrate")
    assert done.code == 2
    assert "people.db" in done.err
    assert json.loads(gallery("info", "--json").out)["calibration"]["identities"] == 3


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["remove"], "--sample"),
        (["remove", "anna", "nobody"], "'nobody'"),
        (["remove", "--sample", "99"], "99"),
        (["rename", "anna", "ben"], "'ben'"),
        (["list", "nobody"], "'nobody'"),
        (["export", "--out", "people.csv"], "people.csv"),
        (["import", "nosuch.parquet"], "nosuch.parquet"),
        (["import", "points.npz"], "points.npz"),
        (["migrate", "--model", "nosuch"], "nosuch"),
        (["calibrate", "others", "--remove"], "--remove"),
        (["calibrate", "points.npz"], "points.npz"),
    ],
)
def test_wrong_use_is_one_line_exit_2_and_changes_nothing(gallery, tmp_path, words, quoted):
    write_embeddings(tmp_path / "points.npz", EmbeddingSet.of(np.eye(3), ["a", "b", "c"]))
    before, files = names(tmp_path), sorted(tmp_path.iterdir())
    done = gallery(*words)
    assert done.code == 2
    assert quoted in done.err
    assert done.err.count("\n") == 1
    assert names(tmp_path) == before
    assert sorted(tmp_path.iterdir()) == files


def test_a_failed_import_leaves_no_gallery(arcset_command, tmp_path):
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and then nothing")
    rows = np.random.default_rng(0).normal(size=(5000, 2))
    rows[4999] = 0
    write_embeddings(tmp_path / "zero.npz", EmbeddingSet.of(rows, range(5000)))
    before = sorted(tmp_path.iterdir())
    for name, quoted in (("cut.parquet", "cut.parquet"), ("zero.npz", "row 4999")):
        done = arcset_command("gallery", "import", "new.db", name)
        assert done.code == 2
        assert quoted in done.err
        assert sorted(tmp_path.iterdir()) == before
