"""`arcset export` from the outside."""

import json

import numpy as np
import pytest
from PIL import Image

from arcset.recognition import Recognizer
from support.onnx_graphs import linear
from support.random_runs import random_run, with_thresholds


def test_a_run_becomes_a_file_that_verifies(arcset_command, tmp_path):
    run = random_run(tmp_path / "runs" / "mine")
    with_thresholds(run)
    done = arcset_command("export", "runs/mine", "--out", "mine.onnx")
    assert done.code == 0, done.err
    assert "least cosine 1.0" in done.out
    assert "with thresholds" in done.out
    assert Recognizer.load(tmp_path / "mine.onnx").digest == Recognizer.load(run.path).digest
    done = arcset_command("export", "runs/mine", "--out", "mine.onnx", "--json")
    content = json.loads(done.out)
    assert content["flips"] == 0
    assert content["min_cosine"] > 0.99999


def test_a_network_from_elsewhere(arcset_command, tmp_path):
    linear(tmp_path / "net.onnx", ("N", 3, "H", "W"))
    with_thresholds(random_run(tmp_path / "run", dim=4))
    words = ["--mean", "1,2,3", "--std", "4", "--size", "6,5", "--channels", "BGR"]
    more = ["--fit", "crop", "--layout", "NCHW", "--output", "y"]
    kept = ["--thresholds", "run/threshold.json", "--out", "ready.onnx"]
    done = arcset_command("export", "net.onnx", *words, *more, *kept)
    assert done.code == 0, done.err
    ready = Recognizer.load(tmp_path / "ready.onnx")
    assert ready.thresholds is not None
    pixels = ready.model.pixels
    assert (pixels.mean, pixels.std, pixels.channels) == ((1, 2, 3), (4,), "BGR")
    assert ready.embed(np.zeros((6, 5, 3), np.uint8)).shape == (1, 4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["export", "nowhere", "--out", "x.onnx"], "nowhere holds no run"),
        (["export", "nowhere.onnx", "--out", "x.onnx"], "nowhere.onnx cannot be read"),
        (["export", "runs/mine", "--out", "x.pt"], "x.pt is no name for an ONNX file"),
        (["export", "runs/mine", "--out", "x.onnx", "--preset", "unit"], "--preset is for"),
        (["export", "runs/mine", "--out", "x.onnx", "--images", "none"], "'none'"),
        (["export", "net.onnx", "--out", "x.onnx"], "`arcset export net.onnx --preset NAME"),
        (["export", "net.onnx", "--out", "x.onnx", "--mean", "a"], "--mean 'a': write"),
        (["export", "net.onnx", "--out", "x.onnx", "--size", "1,2,3"], "--size '1,2,3': write"),
        (["export", "net.onnx", "--out", "x.onnx", "--images", "runs"], "--images is for runs"),
        (["verify", "nowhere", "a.png", "b.png"], "nowhere does not exist"),
        (["verify", "runs/mine", "a.png", "b.png", "--threshold", "0.5"], "a.png cannot be read"),
        (["verify", "runs/mine", "c.png", "c.png"], "mine has no thresholds"),
        (["verify", "runs/mine", "c.png", "runs", "--threshold", "0.5"], "runs is no file"),
        (["verify", "net.onnx", "c.png", "c.png"], "or a preset"),
        (["verify", "runs/mine", "c.png", "c.png", "--preset", "unit"], "runs/mine is no file"),
    ],
)
def test_wrong_use(arcset_command, tmp_path, words, message):
    random_run(tmp_path / "runs" / "mine")
    linear(tmp_path / "net.onnx")
    Image.new("L", (10, 10)).save(tmp_path / "c.png")
    before = sorted(tmp_path.rglob("*"))
    done = arcset_command(*words)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
