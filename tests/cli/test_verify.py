"""`arcset verify` from the outside."""

import json

import numpy as np
from PIL import Image

from support.onnx_graphs import linear
from support.random_runs import random_run, with_thresholds


def test_same_is_0_and_different_is_1(arcset_command, tmp_path):
    run = random_run(tmp_path / "run")
    with_thresholds(run)
    pictures = np.load(run.config.data)["images"]
    Image.fromarray(pictures[0]).save(tmp_path / "a.png")
    Image.fromarray(255 - pictures[0]).save(tmp_path / "b.png")
    done = arcset_command("verify", "run", "a.png", "a.png")
    assert done.code == 0, done.err
    assert done.out.startswith("same: cosine 1.0000")
    assert "FAR 0.001" in done.out
    done = arcset_command("verify", "run", "a.png", "b.png", "--far", "0.01", "--json")
    assert done.code == 1
    content = json.loads(done.out)
    assert not content["same"]
    assert content["far"] == 0.01
    assert content["second"] == "b.png"
    assert arcset_command("export", "run", "--out", "run.onnx").code == 0
    done = arcset_command("verify", "run.onnx", "a.png", "b.png", "--far", "0.01", "--json")
    assert done.code == 1
    assert abs(json.loads(done.out)["cosine"] - content["cosine"]) < 1e-5
    done = arcset_command("verify", "run.onnx", "a.png", "b.png", "--threshold", "-1")
    assert done.code == 0


def test_a_network_from_elsewhere(arcset_command, tmp_path):
    linear(tmp_path / "net.onnx")
    colours = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)
    Image.fromarray(colours).save(tmp_path / "a.png")
    words = ["--preset", "unit", "--threshold", "0.5"]
    assert arcset_command("verify", "net.onnx", "a.png", "a.png", *words).code == 0
