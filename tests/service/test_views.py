"""Runs to look at: found, read, sampled evenly, and sent as small JSON and one sheet of images."""

import io
import shutil

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from arcset.data import load_dataset
from support.servers import forked, typed


def trained(place, loss, dim, snapshot):
    typed(
        *("train", "mnist-sample", "--classes", "0-2", "--loss", loss, "--network", "mlp"),
        *("--dim", dim, "--epochs", 2, "--batch", 256, "--set", f"snapshot={snapshot}"),
        *("--device", "cpu", "--no-report", "--out", place),
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """FOLDER/runs with two runs on three known digits and seven unseen, and others beside it."""
    place = tmp_path_factory.mktemp("views")
    trained(place / "runs" / "softmax", "softmax", 2, 30)
    trained(place / "runs" / "arcface", "arcface", 3, 30)
    trained(place / "long", "arcface", 3, 1200)
    kept = place / "long" / "embeddings"
    for epoch in range(3, 71):
        shutil.copy(kept / "epoch-0002.safetensors", kept / f"epoch-{epoch:04d}.safetensors")
    shutil.copytree(place / "runs" / "softmax", place / "more" / "softmax")
    text = (place / "runs" / "arcface" / "config.toml").read_text()
    for name, dim in (("wide", 128), ("empty", 3)):
        (place / "more" / name).mkdir()
        (place / "more" / name / "config.toml").write_text(text.replace("dim = 3", f"dim = {dim}"))
    return place


@pytest.fixture(scope="module")
def server(own_gallery, model, runs):
    words = [
        word
        for name in ("runs", "runs/arcface", "more", "long")
        for word in ("--runs", runs / name)
    ]
    running = forked(own_gallery, "--model", model, "--no-log", *words).wait()
    yield running
    assert running.stop() == 0


def view(server, name):
    found = server.get(f"/v1/views/{name}")
    assert found.status == 200, found
    assert found.headers["content-type"] == "application/json"
    return found.json()


def rows(numbers, dim):
    return np.reshape(numbers, (-1, dim))


def test_a_folder_means_all_its_runs_and_each_is_named_once(server):
    listed = {entry.pop("id"): entry for entry in server.get("/v1/views").json()["runs"]}
    assert list(listed) == ["arcface", "runs-softmax", "empty", "more-softmax", "wide", "long"]
    assert listed["arcface"] == {
        "title": "arcface",
        "loss": "arcface",
        "dim": 3,
        "epochs": [0, 1, 2],
        "pictured": True,
    }
    assert [name for name, entry in listed.items() if not entry["pictured"]] == ["empty", "wide"]


def test_points_are_those_that_the_run_kept(server, runs):
    content, kept = view(server, "arcface"), runs / "runs" / "arcface" / "embeddings"
    assert content["unit"] is True
    assert content["known"] == [0, 1, 2]
    assert content["classes"][:3] == ["0", "1", "2"]
    assert sorted(content["classes"]) == [str(digit) for digit in range(10)]
    assert [frame["epoch"] for frame in content["frames"]] == [0, 1, 2]
    for frame in content["frames"]:
        file = load_file(kept / f"epoch-{frame['epoch']:04d}.safetensors")
        parts = [part for part in ("train", "test", "unseen") for _ in file[part]]
        assert content["parts"] == parts
        there = np.concatenate([file[part] for part in ("train", "test", "unseen")])
        there /= np.linalg.norm(there, axis=1, keepdims=True)
        np.testing.assert_allclose(rows(frame["points"], 3), there, atol=6e-5)
        lengths = np.linalg.norm(rows(frame["centers"], 3), axis=1)
        np.testing.assert_allclose(lengths, 1, atol=2e-4)


def test_every_point_has_its_image_on_the_sheet(server):
    content = view(server, "arcface")
    sent = server.get("/v1/views/arcface/sprite.png")
    assert sent.headers["content-type"] == "image/png"
    sheet = np.asarray(Image.open(io.BytesIO(sent.body)).convert("L"), np.int16)
    size, columns = content["sprite"]["size"], content["sprite"]["columns"]
    data = load_dataset("mnist-sample")
    for place in (0, 17, len(content["labels"]) - 1):
        images = data.train if content["parts"][place] == "train" else data.test
        name = content["classes"][content["labels"][place]]
        own = images.images[images.labels == images.class_names.index(name)].astype(np.int16)
        left, top = place % columns * size, place // columns * size
        tile = sheet[top : top + size, left : left + size]
        assert np.abs(own - tile).max(axis=(1, 2)).min() <= 24  # 16 greys


def test_embeddings_of_any_length_stay_as_they_are(server):
    content = view(server, "runs-softmax")
    assert content["unit"] is False
    assert np.linalg.norm(rows(content["frames"][-1]["points"], 2), axis=1).max() > 1.5


def test_many_points_and_epochs_are_sampled_evenly(server):
    content = view(server, "long")
    assert len(server.get("/v1/views/long").body) < 2_000_000
    epochs = [frame["epoch"] for frame in content["frames"]]
    assert (epochs[0], epochs[-1]) == (0, 70)
    assert set(np.diff(epochs)) == {1, 2}
    kept = {"train": 1200, "test": 300, "unseen": 700}
    shares = {part: content["parts"].count(part) / count for part, count in kept.items()}
    assert 0.1 < min(shares.values()) <= max(shares.values()) < 1.1 * min(shares.values())
    assert len(content["frames"][0]["points"]) == 3 * len(content["labels"])


@pytest.mark.parametrize("path", ["none", "wide", "empty", "..%2Fwide", "wide/sprite.png"])
def test_what_cannot_be_pictured_is_not_given(server, path):
    assert server.get(f"/v1/views/{path}").code == "not_found"


def test_a_run_that_trains_on_is_read_anew(server, runs):
    assert len(view(server, "more-softmax")["frames"]) == 3
    kept = runs / "more" / "softmax" / "embeddings"
    shutil.copy(kept / "epoch-0002.safetensors", kept / "epoch-0003.safetensors")
    assert [frame["epoch"] for frame in view(server, "more-softmax")["frames"]] == [0, 1, 2, 3]
