"""Runs to look at: found, read, sampled evenly, and sent as small JSON for the page's viewer."""

import shutil
from urllib.parse import quote

import numpy as np
import pytest

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
    trained(place / "more" / "wide ü", "arcface", 64, 30)
    (place / "more" / "empty").mkdir()
    shutil.copy(place / "runs" / "arcface" / "config.toml", place / "more" / "empty")
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
    found = server.get(f"/v1/views/{quote(name)}")
    assert found.status == 200, found
    assert found.headers["content-type"] == "application/json"
    return found.json()


def test_a_folder_means_all_its_runs_and_each_is_named_once(server):
    listed = {entry.pop("id"): entry for entry in server.get("/v1/views").json()["runs"]}
    assert list(listed) == ["arcface", "runs-softmax", "empty", "more-softmax", "wide ü", "long"]
    assert listed["arcface"] == {
        "title": "arcface",
        "loss": "arcface",
        "dim": 3,
        "epochs": [0, 1, 2],
        "pictured": True,
    }
    assert [name for name, entry in listed.items() if not entry["pictured"]] == ["empty"]


@pytest.mark.parametrize(("name", "dim"), [("runs-softmax", 2), ("arcface", 3), ("wide ü", 3)])
def test_a_run_of_any_dimension_is_what_its_viewer_draws(server, runs, name, dim):
    content = view(server, name)
    (run,) = content["runs"]
    assert (run["dim"], run["flat"]) == (dim, name == "wide ü")
    assert content["classes"] == [str(digit) for digit in range(10)]
    assert run["epochs"] == [0, 1, 2]
    assert [part["name"] for part in run["parts"]] == ["train", "test", "unseen"]
    for part in run["parts"]:
        assert len(part["frames"]) == 3
        assert 0 < len(part["classes"]) <= 30
    assert all(sheet["url"].startswith("data:image/png;base64,") for sheet in content["sheets"])


def test_many_points_and_epochs_are_sampled_evenly(server):
    found = server.get("/v1/views/long")
    assert len(found.body) < 2_000_000
    (run,) = found.json()["runs"]
    assert (run["epochs"][0], run["epochs"][-1]) == (0, 70)
    assert set(np.diff(run["epochs"])) == {1, 2}
    assert [len(part["classes"]) for part in run["parts"]] == [500, 300, 500]


@pytest.mark.parametrize("path", ["none", "empty", "..%2Farcface", "arcface/sprite.png"])
def test_what_cannot_be_pictured_is_not_given(server, path):
    assert server.get(f"/v1/views/{path}").code == "not_found"


def test_a_run_that_trains_on_is_read_anew(server, runs):
    assert view(server, "more-softmax")["runs"][0]["epochs"] == [0, 1, 2]
    kept = runs / "more" / "softmax" / "embeddings"
    shutil.copy(kept / "epoch-0002.safetensors", kept / "epoch-0003.safetensors")
    assert view(server, "more-softmax")["runs"][0]["epochs"] == [0, 1, 2, 3]
