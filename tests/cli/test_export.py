"""`arcset export` from the outside."""

import shutil

import numpy as np
import pytest
from PIL import Image

from arcset import Recognizer
from support.onnx_graphs import linear
from support.random_runs import random_run, with_thresholds


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return random_run(tmp_path_factory.mktemp("run") / "mine").path


def test_a_run_becomes_a_file_that_verifies(arcset_command, tmp_path):
    run = random_run(tmp_path / "runs" / "mine")
    with_thresholds(run)
    done = arcset_command("export", "runs/mine", "--out", "mine.onnx")
    assert done.code == 0, done.err
    assert "mine.onnx" in done.out
    assert Recognizer.load(tmp_path / "mine.onnx").digest == Recognizer.load(run.path).digest


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
    said = {"mean": (1, 2, 3), "std": 4, "size": (6, 5), "channels": "BGR", "fit": "crop"}
    by_hand = Recognizer.from_onnx(tmp_path / "net.onnx", **said)
    picture = np.random.default_rng(0).integers(0, 256, (9, 8, 3), np.uint8)
    np.testing.assert_allclose(ready.embed(picture), by_hand.embed(picture), atol=1e-6)
    assert ready.digest == by_hand.digest


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["export", "nowhere", "--out", "x.onnx"], "nowhere"),
        (["export", "runs/mine", "--out", "x.pt"], "x.pt"),
        (["export", "runs/mine", "--out", "x.onnx", "--preset", "unit"], "--preset"),
        (["export", "runs/mine", "--out", "x.onnx", "--images", "none"], "'none'"),
        (["export", "net.onnx", "--out", "x.onnx"], "`arcset export net.onnx --preset NAME"),
        (["export", "net.onnx", "--out", "x.onnx", "--mean", "a"], "--mean 'a'"),
        (["export", "net.onnx", "--out", "x.onnx", "--images", "runs"], "--images"),
        (["verify", "runs/mine", "a.png", "b.png", "--threshold", "0.5"], "a.png"),
        (["verify", "runs/mine", "c.png", "c.png", "--far", "0.1"], "mine"),
        (["verify", "net.onnx", "c.png", "c.png"], "preset"),
        (["verify", "runs/mine", "c.png", "c.png", "--preset", "unit"], "runs/mine"),
    ],
)
def test_wrong_use(arcset_command, run, tmp_path, words, quoted):
    shutil.copytree(run, tmp_path / "runs" / "mine")
    linear(tmp_path / "net.onnx")
    Image.new("L", (10, 10)).save(tmp_path / "c.png")
    before = sorted(tmp_path.rglob("*"))
    done = arcset_command(*words)
    assert done.code == 2
    assert quoted in done.err
    assert done.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
