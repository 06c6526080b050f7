"""`arcset explain` on real, tiny runs: every number is the loss's own, every mistake one line."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from arcset import training
from arcset.reports.explain import (
    explain,
    image_of_file,
    image_of_sample,
)
from arcset.reports.view import RunView
from arcset.runs import RunConfig
from arcset.runs.model import embed

RUNS = {
    "arcface": {"loss": "arcface", "scale": 8.0, "margin": 0.5},
    "biased": {"loss": "cosface", "scale": 8.0, "margin": 0.3, "dim": 4, "options": {"bias": True}},
    "normface": {"loss": "normface", "scale": 8.0},
    "softmax": {"loss": "softmax"},
    "intra": {"loss": "intra", "scale": 8.0, "margin": 0.4, "options": {"base": "arcface"}},
    "triplet": {"loss": "triplet"},
}
CLASSIFIERS = [name for name in RUNS if name != "triplet"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    common = {"data": "mnist-sample", "classes": "0-2", "dim": 2, "epochs": 1, "batch": 64}
    common |= {"optimizer": "adamw", "learning_rate": 0.002, "snapshot": 0, "network": "mlp"}
    for name, settings in RUNS.items():
        training.train(RunConfig(**{**common, **settings}), folder / name, device="cpu")
    return {name: folder / name for name in RUNS}


@pytest.fixture(scope="module")
def views(runs):
    return {name: RunView(path) for name, path in runs.items()}


# The arithmetic.


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_number_is_the_losss_own(views, name):
    view = views[name]
    found = explain(view, image_of_sample(view, 7))
    x = embed(view.network, torch.tensor(view.selection.test.images[7].copy())[None, None])
    label = torch.tensor([int(view.selection.test.labels[7])])
    loss = view.loss
    with torch.no_grad():
        logits, seen = loss.logits(x), loss.logits(x, label)
    assert list(found.embedding) == x[0].tolist()
    assert [step.logit for step in found.steps] == logits[0].tolist()
    assert [step.probability for step in found.steps] == logits.softmax(1)[0].tolist()
    assert found.cross_entropy == F.cross_entropy(seen, label).item()
    assert (found.margin is None) == (name in ("softmax", "normface"))
    if found.margin is not None:
        assert [step.margined_logit for step in found.steps] == seen[0].tolist()
        assert [step.margined_probability for step in found.steps] == seen.softmax(1)[0].tolist()
    weight = loss.trained_centers().detach().double().numpy()
    for step, row in zip(found.steps, weight, strict=True):
        vector = x[0].double().numpy()
        assert step.dot == pytest.approx(vector @ row, abs=1e-4)
        assert step.center_norm == pytest.approx(np.linalg.norm(row), rel=1e-6)
        assert step.cosine == pytest.approx(step.dot / (found.norm * step.center_norm), abs=1e-5)
        assert np.cos(np.radians(step.angle)) == pytest.approx(step.cosine, abs=1e-5)


def test_triplet_compares_with_test_samples_and_leaves_itself_out(views):
    view = views["triplet"]
    found = explain(view, image_of_sample(view, 5))
    unit, labels = view.test.embeddings.astype(np.float64), view.test.labels
    cosines = unit @ unit[5]
    assert found.steps == ()
    for number, near in enumerate(found.neighbours):
        members = [i for i in np.flatnonzero(labels == number) if i != 5]
        assert near.mean_cosine == pytest.approx(cosines[members].mean(), abs=1e-5)
        assert near.nearest != 5
        assert near.nearest_cosine == pytest.approx(cosines[members].max(), abs=1e-5)


# The command.


def test_a_table_with_sentences(arcset_command, runs):
    outcome = arcset_command("explain", runs["arcface"], 4)
    for word in ("test sample 4", "← target", "probability with", "the margin moves", "−log p"):
        assert word in outcome.out


def test_unseen_has_no_target_but_nearest_centers(arcset_command, runs):
    outcome = arcset_command("explain", runs["arcface"], 4, "--unseen")
    for word in ("never trained on", "there is no target", "nearest centers", "wrong"):
        assert word in outcome.out
    assert "← target" not in outcome.out
    assert outcome.out == arcset_command("explain", runs["arcface"], 4, "--part", "unseen").out


def test_an_image_file_gives_what_the_sample_gives(arcset_command, runs, views, tmp_path):
    images = views["arcface"].selection.test
    Image.fromarray(images.images[9]).save(tmp_path / "nine.png")
    target = images.class_names[images.labels[9]]
    words = ("explain", runs["arcface"], "nine.png", "--json")
    from_file = json.loads(arcset_command(*words, "--target", target).out)
    sample = json.loads(arcset_command("explain", runs["arcface"], 9, "--json").out)
    assert from_file["classes"] == sample["classes"]
    assert from_file["subject"]["notes"] == []
    without = json.loads(arcset_command(*words).out)
    assert without["margin"] is None
    assert "--target" in without["subject"]["notes"][0]


def test_what_is_done_to_an_image_is_said(views, tmp_path):
    digit = views["arcface"].selection.test.images[9]
    Image.fromarray(255 - digit).resize((60, 40)).save(tmp_path / "paper.png")
    notes = " ".join(image_of_file(views["arcface"], tmp_path / "paper.png").notes)
    assert "resized from 60×40 to 28×28, padded" in notes
    assert "its border is bright" in notes
    Image.fromarray(digit.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    deep = image_of_file(views["arcface"], tmp_path / "deep.png", "1")
    np.testing.assert_array_equal(deep.pixels, digit)
    assert "8 bits" in deep.notes[0]
    Image.fromarray(np.full((28, 28, 3), (200, 0, 0), np.uint8)).save(tmp_path / "red.png")
    assert (
        "colours were turned to grey"
        in image_of_file(views["arcface"], tmp_path / "red.png", "1").notes
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("9999",), "9999"),
        (("3", "--part", "attic"), "'attic'"),
        (("3", "--unseen", "--part", "train"), "--unseen"),
        (("3", "--target", "1"), "--target"),
        (("3", "--picture", "three.jpg"), ".png"),
        (("missing.png",), "missing.png"),
        (("text.png",), "text.png"),
        (("torn.png",), "torn.png"),
        (("wide.tif",), "wide.tif"),
        (("good.png", "--target", "7"), "'7'"),
        (("good.png", "--unseen"), "good.png"),
    ],
)
def test_a_mistake_is_one_line(arcset_command, runs, tmp_path, words, said):
    (tmp_path / "text.png").write_text("no image")
    good = Image.fromarray(np.random.default_rng(0).integers(0, 255, (28, 28), dtype=np.uint8))
    good.save(tmp_path / "good.png")
    (tmp_path / "torn.png").write_bytes((tmp_path / "good.png").read_bytes()[:300])
    Image.fromarray(np.full((28, 28), 1e6, np.float32)).save(tmp_path / "wide.tif")
    outcome = arcset_command("explain", runs["arcface"], *words)
    assert outcome.code == 2
    assert said in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert not outcome.out
