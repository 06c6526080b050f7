"""`arcset calibrate` from the outside."""

import json
import shutil

import numpy as np
import pytest

from arcset import Recognizer
from arcset.data.embeddings import EmbeddingSet, write_embeddings
from support.onnx_graphs import adopt, external, linear
from support.patterns import pictures
from support.random_runs import random_run

NAMES = [f"subject {number}" for number in range(8)]


@pytest.fixture
def calibrate(arcset_command, tmp_path):
    """Runs the verb beside a run, a network from elsewhere and photos of eight, three of each."""
    random_run(tmp_path / "run", dim=32)
    linear(tmp_path / "net.onnx", ("N", 3, 10, 10), values=300, dim=32)
    pictures(tmp_path / "people", NAMES, 3)
    return lambda *words: arcset_command("calibrate", *words)


def answer(arcset_command, model, *others):
    """What verify says of two photos of one."""
    photos = ["people/subject 0/00.png", "people/subject 0/01.png"]
    return json.loads(arcset_command("verify", model, *photos, "--json").out)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_gets_thresholds_from_eight_people(calibrate, arcset_command, tmp_path):
    assert not answer(arcset_command, "run")["decided"]
    done = calibrate("run", "people")
    assert done.code == 0, done.err
    assert "8 identities, 24 samples" in done.out
    assert "run/threshold.json" in done.err
    assert "arcset verify run" in done.err
    assert answer(arcset_command, "run")["same"]
    shutil.rmtree(tmp_path / "people" / NAMES[7])
    content = json.loads(calibrate("run", "people", "--json").out)  # in place of the first
    assert content["made_from"]["identities"] == 7
    assert Recognizer.load("run").thresholds.made_from["identities"] == 7


def test_an_onnx_file_is_written_anew_and_is_the_same_model(calibrate, arcset_command, tmp_path):
    """A gallery takes the new file for the old one, whose name, pixels and faces it keeps."""
    adopt(tmp_path / "net.onnx", tmp_path / "plain.onnx", preset="arcface", name="of mine")
    words = ["people", "--model", "plain.onnx", "--faces", "none"]
    assert arcset_command("enroll", "people.db", *words).code == 0
    before = {path: path.read_bytes() for path in tmp_path.glob("*.onnx")}
    for model, more in (("plain.onnx", ()), ("net.onnx", ("--preset", "arcface"))):
        out = f"from-{model}"
        done = calibrate(model, "people", "--faces", "none", *more, "--out", out)
        assert done.code == 0, done.err
        old, new = Recognizer.load("plain.onnx"), Recognizer.load(out)
        assert new.digest == old.digest
        assert new.model.takes_faces
        assert new.thresholds.made_from["data"] == "people"
        np.testing.assert_array_equal(new.embed("people"), old.embed("people"))
        done = arcset_command("identify", "people.db", "people", "--model", out)
        assert done.code == 0, done.err
    assert Recognizer.load("from-plain.onnx").name == "of mine"
    assert {path: path.read_bytes() for path in before} == before


def test_tables_named_datasets_and_embeddings_calibrate_too(calibrate, arcset_command, tmp_path):
    rows = [f"{path},{path.parent.name}" for path in sorted(tmp_path.glob("people/*/*.png"))]
    (tmp_path / "people.csv").write_text("\n".join(["path,label", *rows]) + "\n")
    assert arcset_command("embed", "run", "people", "--out", "people.parquet").code == 0
    found = []
    for data in ("people", "people.csv", "people.parquet"):
        done = calibrate("run", data, "--json")
        assert done.code == 0, done.err
        found.append(json.loads(done.out)["made_from"])
    assert {one["samples"] for one in found} == {24}
    done = calibrate("run", "mnist-sample", "--json")
    assert json.loads(done.out)["made_from"]["identities"] == 10


def test_whom_the_run_was_trained_on_is_left_out_and_said(calibrate, tmp_path):
    run = Recognizer.load("run")
    known = [f"{name}" for name in run.trained_on[:2]]
    pictures(tmp_path / "people", known, 3)
    done = calibrate("run", "people", "--json")
    content = json.loads(done.out)
    assert content["made_from"]["identities"] == 8
    assert repr(known[0]) in done.err
    assert "2 of 10" in content["notes"][0]
    pictures(tmp_path / "all", known, 3)
    done = calibrate("run", "all")
    assert done.code == 2
    assert repr(known[0]) in done.err
    with pytest.warns(UserWarning, match="2 of 10"):
        made = run.calibrate("people")
    assert made is run.thresholds
    assert made.made_from["identities"] == 8


def test_images_that_cannot_be_read_are_named(calibrate, tmp_path):
    (tmp_path / "people" / NAMES[0] / "cut.png").write_bytes(b"no image")
    done = calibrate("run", "people", "--json")
    assert done.code == 0
    assert "cut.png" in done.err
    assert [path.rpartition("/")[2] for path in json.loads(done.out)["skipped"]] == ["cut.png"]


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["net.onnx", "people", "--preset", "unit"], "--out"),
        (["net.onnx", "people", "--preset", "unit", "--out", "net.onnx"], "net.onnx"),
        (["net.onnx", "people", "--preset", "unit", "--out", "new.json"], "new.json"),
        (["net.onnx", "people", "--out", "new.onnx"], "net.onnx"),
        (["apart.onnx", "people", "--preset", "unit", "--out", "new.onnx"], "apart.onnx"),
        (["run", "people", "--out", "new.onnx"], "--out"),
        (["run", "people", "--preset", "unit"], "--preset"),
        (["run", "nobody"], "nobody"),
        (["nothing", "people"], "nothing"),
        (["run", "people/subject 0"], "subject 0"),  # no impostor pair
        (["run", "singles"], "singles"),  # no genuine pair
        (["run", "points.npz"], "points.npz"),
    ],
)
def test_wrong_use_is_one_line_exit_2_and_changes_nothing(calibrate, tmp_path, words, quoted):
    shutil.copytree(tmp_path / "people", tmp_path / "singles")
    for path in (*tmp_path.glob("singles/*/01.png"), *tmp_path.glob("singles/*/02.png")):
        path.unlink()
    shutil.copy(tmp_path / "net.onnx", tmp_path / "apart.onnx")
    external(tmp_path / "apart.onnx")
    write_embeddings(tmp_path / "points.npz", EmbeddingSet.of(np.eye(3), ["a", "b", "b"]))
    before = contents(tmp_path)
    done = calibrate(*words)
    assert done.code == 2
    assert quoted in done.err
    assert done.err.count("\n") == 1
    assert contents(tmp_path) == before
