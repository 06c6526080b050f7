"""Runs to look at: found, read, sampled evenly, and sent as small JSON and one sheet of images."""

import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from arcset.errors import RunError
from arcset.pictures.view import RunView
from arcset.runs import Run, RunConfig
from arcset.service import views as module
from arcset.service.views import Views
from arcset.training import train


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A comparison's folder: two runs on three known digits, and seven that are never seen."""
    place = tmp_path_factory.mktemp("comparison")
    for loss, dim in (("softmax", 2), ("arcface", 3)):
        config = RunConfig(
            data="mnist-sample",
            classes="0-2",
            loss=loss,
            network="mlp",
            dim=dim,
            epochs=2,
            batch=256,
            snapshot=30,
        )
        train(config, place / loss, device="cpu")
    (place / "comparison.json").write_text("{}")
    return place


def test_a_comparison_means_all_its_runs_and_a_run_itself(runs):
    both = Views.of([runs]).listing()
    assert [entry["id"] for entry in both] == ["arcface", "softmax"]
    assert both[0] == {
        "id": "arcface",
        "title": "arcface",
        "loss": "arcface",
        "dim": 3,
        "epochs": [0, 1, 2],
        "pictured": True,
    }
    assert [entry["dim"] for entry in Views.of([runs / "softmax", runs]).listing()] == [2, 3]


def test_runs_of_one_name_are_told_apart(runs, tmp_path):
    for folder in ("a", "b"):
        shutil.copytree(runs / "softmax", tmp_path / folder / "softmax")
    found = Views.of([tmp_path / "a", tmp_path / "b", runs / "softmax"]).listing()
    assert [entry["id"] for entry in found] == [
        "a-softmax",
        "b-softmax",
        f"{runs.name}-softmax",
    ]


def test_a_folder_without_runs_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        Views.of([tmp_path])
    with pytest.raises(RunError, match="holds no run"):
        Views.of([tmp_path / "none"])
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.toml").write_text("data = 3 = 4")
    with pytest.raises(RunError):
        Views.of([tmp_path])


def test_points_are_those_that_the_run_kept(runs):
    made = Views.of([runs]).get("arcface")
    content, view = json.loads(made.content), RunView(runs / "arcface")
    samples = {part: view.sampled(part) for part in ("train", "test", "unseen")}
    assert content["unit"] is True
    assert content["classes"][:3] == ["0", "1", "2"]
    assert content["known"] == [0, 1, 2]
    assert sorted(content["classes"]) == [str(digit) for digit in range(10)]
    counts = [len(sample.labels) for sample in samples.values()]
    assert content["parts"] == [
        part for part, count in zip(samples, counts, strict=True) for _ in range(count)
    ]
    names = [content["classes"][label] for label in content["labels"]]
    assert names == [
        sample.class_names[label] for sample in samples.values() for label in sample.labels
    ]
    assert [frame["epoch"] for frame in content["frames"]] == [0, 1, 2]
    for shown, frame in zip(content["frames"], view.frames, strict=True):
        points = np.reshape(shown["points"], (-1, 3))
        kept = np.concatenate([frame.parts[part] for part in samples])
        np.testing.assert_allclose(points, kept, atol=5.1e-5)
        centers = np.reshape(shown["centers"], (-1, 3))
        np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1, atol=2e-4)

    size, columns = content["sprite"]["size"], content["sprite"]["columns"]
    sheet = np.asarray(Image.open(io.BytesIO(made.sprite)).convert("L"), np.int16)
    images = np.concatenate([sample.images for sample in samples.values()])
    for place in (0, 17, len(images) - 1):
        left, top = place % columns * size, place // columns * size
        tile = sheet[top : top + size, left : left + size]
        assert np.abs(tile - images[place].astype(np.int16)).max() <= 24  # 16 greys


def test_embeddings_of_any_length_stay_as_they_are(runs):
    content = json.loads(Views.of([runs]).get("softmax").content)
    points = np.reshape(content["frames"][-1]["points"], (-1, 2))
    assert content["unit"] is False
    assert np.linalg.norm(points, axis=1).max() > 1.5


def test_what_cannot_be_pictured_is_listed_and_not_given(runs, tmp_path):
    wide, empty = tmp_path / "wide", tmp_path / "empty"
    for place in (wide, empty):
        place.mkdir()
    text = (runs / "arcface" / "config.toml").read_text()
    (wide / "config.toml").write_text(text.replace("dim = 3", "dim = 128"))
    (empty / "config.toml").write_text(text)
    views = Views.of([tmp_path])
    assert [(entry["id"], entry["pictured"]) for entry in views.listing()] == [
        ("empty", False),
        ("wide", False),
    ]
    assert views.get("wide") is views.get("empty") is views.get("../x") is None


def test_many_points_and_epochs_are_sampled_evenly(runs, monkeypatch):
    monkeypatch.setattr(module, "MOST_POINTS", 40)
    monkeypatch.setattr(module, "MOST_FRAMES", 2)
    content = json.loads(Views.of([runs]).get("arcface").content)
    assert [frame["epoch"] for frame in content["frames"]] == [0, 2]
    assert 30 <= len(content["labels"]) <= 40
    assert set(content["parts"]) == {"train", "test", "unseen"}
    assert len(content["frames"][0]["points"]) == 3 * len(content["labels"])


def test_the_largest_answer_stays_below_two_megabytes():
    numbers = np.random.default_rng(0).normal(size=module.MOST_NUMBERS) * -10
    assert len(json.dumps(module._numbers(numbers), separators=(",", ":"))) < 2_000_000


def test_a_run_is_read_once_until_it_trains_on(runs, tmp_path):
    shutil.copytree(runs / "softmax", tmp_path / "run")
    views = Views.of([tmp_path / "run"])
    first = views.get("run")
    assert views.get("run") is first
    run = Run.open(tmp_path / "run")
    run.save_embeddings(3, run.embeddings(2))
    again = views.get("run")
    assert [frame["epoch"] for frame in json.loads(again.content)["frames"]] == [0, 1, 2, 3]
