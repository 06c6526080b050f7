"""Variants × seeds: what is trained and measured, what is chosen, and going on after a kill."""

import json
import os
import signal

import pytest
import torch
from sklearn.metrics import roc_auc_score

from arcset import OptionError, RunError, TrainingError, evaluation
from arcset.data import Split, load_dataset, select, to_tensors
from arcset.runs import Run
from arcset.runs.assess import evaluation_data
from arcset.runs.model import TrainedRun, embed
from arcset.runs.settings import list_layers
from arcset.training import load_model, train
from arcset.training.compare import compare_variants
from arcset.training.watchers import Watcher
from support.forked import started
from support.small_data import Remembers, images

DIGITS = {
    "data": "mnist-sample",
    "classes": "0-2",
    "network": "mlp",
    "dim": 2,
    "epochs": 1,
    "batch": 128,
    "scale": 8.0,
    "margin": 0.4,
}
LOSSES = ("softmax:bias=false", "arcface", "triplet")
SMALL = {
    "dim": 4,
    "epochs": 3,
    "batch": 16,
    "network": "mlp",
    "scale": 16.0,
    "hold_out": {"validation": 0.3, "test": 0.3},
}
QUICK = {"snapshot": 0, "checkpoint_steps": 1}
GRID = {"margin": [0.1, 0.4]}


def side_by_side(losses, out, **changes):
    layers = list_layers({**DIGITS, "snapshot": 50, **changes})
    return compare_variants(layers, out, losses=losses, seeds=2, device="cpu")


# Losses


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    return side_by_side(LOSSES, tmp_path_factory.mktemp("compare"))


def test_runs_and_summary(outcome):
    assert [(run["loss"], run["seed"]) for run in outcome.runs] == [
        (loss, seed) for loss in LOSSES for seed in (0, 1)
    ]
    arcface = outcome.runs[2]
    assert (arcface["scale"], arcface["margin"], arcface["dim"]) == (8.0, 0.4, 2)
    assert outcome.runs[0]["scale"] is None
    assert outcome.runs[4]["accuracy"] is None
    assert "accuracy" not in outcome.summary["triplet"]
    values = [run["dunn"] for run in outcome.runs if run["loss"] == "arcface"]
    spread = {"mean": sum(values) / 2, "low": min(values), "high": max(values)}
    assert outcome.summary["arcface"]["dunn"] == spread
    saved = json.loads((outcome.out / "comparison.json").read_text())
    assert saved == json.loads(json.dumps(outcome.json(), allow_nan=False))
    softmax = outcome.runs[0]  # measured on raw embeddings
    assert softmax["dunn_trimmed"] != softmax["dunn_trimmed_unit"]
    assert arcface["dunn_trimmed"] == arcface["dunn_trimmed_unit"]
    page = outcome._repr_html_()  # for notebooks
    assert all(f"<th>{loss}</th>" in page for loss in LOSSES)
    assert "7 classes never seen" in page


def test_measures_are_what_they_say(outcome):
    """Recomputed from the saved weights, with scikit-learn for the AUC."""
    entry = outcome.runs[2]
    network, loss = load_model(Run.open(entry["run"]))
    selection = select(load_dataset("mnist-sample"), "0-2")
    pixels, labels = to_tensors(selection.test)
    known = embed(network, pixels)
    named = loss.logits(known).argmax(dim=1)
    assert entry["accuracy"] == pytest.approx((named == labels).double().mean().item())
    unit = torch.nn.functional.normalize(known)
    assert entry["dunn"] == pytest.approx(evaluation.dunn_index(unit, labels, trim=None))
    assert entry["dunn_trimmed"] == pytest.approx(evaluation.dunn_index(unit, labels), rel=1e-4)
    pixels, labels = to_tensors(selection.unseen)
    unit = torch.nn.functional.normalize(embed(network, pixels).double())
    i, j = torch.triu_indices(len(unit), len(unit), 1)
    expected = roc_auc_score(labels[i] == labels[j], (unit[i] * unit[j]).sum(dim=1))
    assert entry["unseen_auc"] == pytest.approx(expected, abs=1e-5)


def test_no_unseen_classes(tmp_path):
    found = side_by_side(["softmax"], tmp_path, classes=None, batch=512)
    assert found.runs[0]["unseen_auc"] is None
    assert found.runs[0]["accuracy"] > 0.1
    assert (found.note, found.verdicts) == ("", [])


def test_what_a_recipe_tuned_for_its_loss_counts_for_none(tmp_path):
    data = str(images(tmp_path / "a.npz", classes=6))
    options = {"data": data, "classes": "c00,c01,c02", "epochs": 1, "network": "mlp", "dim": 4}
    layers = list_layers({**options, "new_classes": "none", "augment": []}, recipe="omniglot")
    found = compare_variants(
        layers,
        tmp_path / "out",
        losses={"first": "arcface", "second": "center:base=arcface:weight=0.5:margin=0.2"},
        seeds=1,
        device="cpu",
    )
    plain = Run.open(tmp_path / "out" / "first-0").config
    alone = train(plain.replace(scale=None, margin=None), tmp_path / "alone", device="cpu").config
    assert (plain.scale, plain.margin) == (alone.scale, alone.margin)
    assert [run["loss"] for run in found.runs] == ["first", "second"]
    config = Run.open(found.runs[1]["run"]).config
    assert (config.loss, config.margin, config.options["weight"]) == ("center", 0.2, 0.5)


@pytest.mark.parametrize(
    ("losses", "more", "message"),
    [
        ((), {}, "losses"),
        (("arcface", "arcface"), {}, "'arcface'"),
        (("arcface",), {"seeds": 0}, "seeds"),
        (("arcface", "sphereface:margin=0.5"), {}, "margin"),
        (("arcface:bais=true",), {}, "'bais'"),
    ],
)
def test_wrong_losses_are_found_before_the_first_run(losses, more, message, tmp_path):
    with pytest.raises(OptionError, match=message):
        compare_variants(list_layers(DIGITS), tmp_path / "out", losses=losses, **more)
    assert not (tmp_path / "out").exists()


def test_runs_that_begin_from_another_keep_to_whom_it_held_out(tmp_path):
    data = str(images(tmp_path / "a.npz", classes=12, each=6))
    first = {"data": data, "dim": 4, "network": "glyph", "epochs": 1, "batch": 16, "snapshot": 0}
    layers = list_layers({**first, "hold_out": {"test": 0.34}})
    old = compare_variants(layers, tmp_path / "old", losses=["normface"], seeds=1, device="cpu")
    run = Run.open(old.runs[0]["run"])

    def onwards(out, **changes):
        layers = list_layers({"data": data, **changes}, start=run)
        return compare_variants(layers, out, losses=["normface", "arcface"], seeds=1, device="cpu")

    for entry in onwards(tmp_path / "out", hold_out={"test": 0.5}).runs:
        split = Split.load(Run.open(entry["run"]).split_file)
        assert not set(split.test) & set(run.config.class_names)
        assert set(split.test) == set(Split.load(run.split_file).test)
    with pytest.raises(OptionError, match=r"held out|hold out"):
        onwards(tmp_path / "no", classes=",".join(run.config.class_names[:2]))
    with pytest.raises(OptionError, match="dim 4"):
        onwards(tmp_path / "no", dim=8)
    assert not (tmp_path / "no").exists()


# Grids


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(images(tmp_path_factory.mktemp("data") / "a.npz", classes=15, noise=140))


@pytest.fixture(scope="module")
def search(data):
    """Train a grid of the small settings."""

    def run(out, grid=GRID, *, seeds=2, watcher=None, force=False, **changes):
        layers = list_layers({"data": data, **SMALL, **changes, **QUICK})
        options = {"seeds": seeds, "watcher": watcher, "force": force, "device": "cpu"}
        return compare_variants(layers, out, grid=grid, **options)

    return run


@pytest.fixture(scope="module")
def searched(search, tmp_path_factory):
    place = tmp_path_factory.mktemp("grid") / "out"
    return place, search(place)


def figures(content):
    """Without what differs between two folders and two days."""
    left_out = ("run", "seconds")
    return [{k: v for k, v in run.items() if k not in left_out} for run in content["runs"]]


def test_a_grid_is_ranked_on_the_validation_identities(searched):
    place, outcome = searched
    names = [(run["name"], run["seed"]) for run in outcome.runs]
    assert names == [(f"margin={margin}", seed) for margin in (0.1, 0.4) for seed in (0, 1)]
    for run in outcome.runs:
        found = TrainedRun.load(run["run"], device="cpu")
        assert found.path == place / f"{run['name']}-{run['seed']}"
        assert (found.config.margin, found.config.seed) == (run["values"]["margin"], run["seed"])
        images = evaluation_data(found, part="validation").embeddings
        expected = evaluation.retrieval(images.embeddings, images.labels).map_at_r
        assert run["validation_map"] == pytest.approx(expected)
    means = {label: found["validation_map"]["mean"] for label, found in outcome.summary.items()}
    assert list(means.values()) == sorted(means.values(), reverse=True)
    assert outcome.json()["chosen_by"] == "validation map"
    assert outcome.best["name"] == max(means, key=means.get)
    assert outcome.best["score"] == max(means.values())
    assert "MAP@R on 4 validation identities" in outcome.note


def test_the_unseen_identities_are_for_the_best_alone(searched):
    place, outcome = searched
    for run in outcome.runs:
        assert ("unseen_auc" in run) == (run["name"] == outcome.best["name"])
    mean = outcome.summary[outcome.best["name"]]["unseen_auc"]["mean"]
    assert any(f"AUC {mean:.4f}" in sentence for sentence in outcome.sentences())
    saved = json.loads((place / "comparison.json").read_text())
    assert saved["runs"] == outcome.json()["runs"]
    assert (saved["grid"], saved["best"]) == (GRID, outcome.best)


def test_again_nothing_is_trained_and_further_variants_are(search, searched):
    place, outcome = searched
    watcher = Remembers()
    assert figures(search(place, watcher=watcher).json()) == figures(outcome.json())
    assert watcher.steps == []
    more = search(place, {"margin": [0.2, 0.4]}, seeds=1, watcher=watcher)
    assert len(watcher.steps) == watcher.total  # of one run
    assert [run["name"] for run in more.runs] == ["margin=0.2", "margin=0.4"]
    assert figures(more.json())[1]["validation_map"] == outcome.runs[2]["validation_map"]
    with pytest.raises(RunError, match=r"dim 4.* 3"):
        search(place, dim=3)
    weights = place / "margin=0.2-0" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    search(place, {"margin": [0.2, 0.4]}, seeds=1, dim=3, epochs=1, force=True)
    assert weights.stat().st_mtime_ns != before


def test_stopped_in_a_run_it_goes_on_in_its_step(search, searched, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "out", watcher=Remembers(stop=4))
    watcher = Remembers()
    again = search(tmp_path / "out", watcher=watcher)
    assert len(watcher.steps) == 4 * watcher.total - 3  # the fourth step was not kept yet
    assert figures(again.json())[2:] == figures(searched[1].json())[2:]
    with pytest.raises(KeyboardInterrupt):  # in the new run: the figures of the others stay
        search(tmp_path / "out", {"margin": [0.1, 0.2, 0.4]}, watcher=Remembers(stop=4))
    saved = json.loads((tmp_path / "out" / "comparison.json").read_text())
    now, before = (
        [(run["name"], run["seed"], run["validation_map"]) for run in content["runs"]]
        for content in (saved, again.json())
    )
    assert now == before


class Kills(Watcher):
    """A watcher that kills its process in a step, counted over all runs."""

    def __init__(self, step):
        self.left = step

    def stepped(self, now):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def search_until(step, data, out):
    layers = list_layers({"data": data, **SMALL, **QUICK})
    compare_variants(layers, out, grid=GRID, seeds=2, device="cpu", watcher=Kills(step))


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals as on POSIX")
def test_killed_and_started_again(search, data, tmp_path):
    """A real process, and SIGKILL in the middle of its second run."""
    watcher = Remembers()
    whole, out = search(tmp_path / "whole", watcher=watcher).json(), tmp_path / "out"
    words = (search_until, watcher.total + 3, data, out)
    process = started(*words, place=tmp_path, written=tmp_path / "output.txt")
    process.join(timeout=120)
    assert process.exitcode == -signal.SIGKILL
    saved = json.loads((out / "comparison.json").read_text())
    assert [run["name"] for run in saved["runs"]] == ["margin=0.1"]
    assert len(Run.open(out / "margin=0.1-1").metrics()) < SMALL["epochs"]
    assert not (out / "margin=0.4-0").exists()
    first = (out / "margin=0.1-0" / "model.safetensors").stat().st_mtime_ns
    again = search(out).json()
    assert (out / "margin=0.1-0" / "model.safetensors").stat().st_mtime_ns == first
    assert figures(again) == figures(whole)
    for run, other in zip(again["runs"], whole["runs"], strict=True):
        both = (Run.open(entry["run"]).load_model() for entry in (run, other))
        for one, two in zip(*both, strict=True):
            assert all(torch.equal(one[name], two[name]) for name in {**one, **two})


def test_another_measure_decides(search, tmp_path):
    outcome = search(tmp_path / "out", seeds=1, best_by="auc", epochs=1)
    assert outcome.json()["chosen_by"] == "validation auc"
    assert outcome.best["score"] == max(run["validation_auc"] for run in outcome.runs)


def test_a_run_that_breaks_is_left_out(search, tmp_path):
    rates = {"learning_rate": [1e30, 0.1]}
    outcome = search(tmp_path / "out", rates, seeds=1, epochs=1)
    assert "failed" in outcome.runs[0]
    assert outcome.best["name"] == "learning_rate=0.1"
    assert list(outcome.summary) == ["learning_rate=0.1"]
    with pytest.raises(TrainingError, match="epoch 1"):
        search(tmp_path / "no", {"learning_rate": [1e30, 1e29]}, seeds=1, epochs=1)


@pytest.mark.parametrize(
    ("grid", "changes", "message"),
    [
        ({"margin": [0.1]}, {}, "varies"),
        ({"margin": [0.1, 9.0]}, {}, r"9\.0"),
        ({"network": ["mlp", "big"]}, {}, "'big'"),
        ({"margn": [0.1, 0.2]}, {}, "'margin'"),
        ({"epochs": [1, 0]}, {}, "epochs=0"),
        ({"seed": [0, 1]}, {}, "seed"),
        (GRID, {"per_class": 3}, "per_class=3"),
        (GRID, {"freeze": 1}, "freeze=1"),
        (GRID, {"hold_out": {"test": 0.3}}, "validation"),
    ],
)
def test_wrong_grids_are_found_before_anything_is_written(search, grid, changes, message, tmp_path):
    with pytest.raises(OptionError, match=message):
        search(tmp_path / "out", grid, **changes)
    assert not (tmp_path / "out").exists()


def test_a_run_that_was_shorter_is_found_before_the_first_run(search, tmp_path):
    """Trained for longer now, it is not what the others are."""
    search(tmp_path, {"margin": [0.1, 0.4]}, seeds=1, epochs=1)
    with pytest.raises(RunError, match=r"margin=0\.1-0 .*epochs"):
        search(tmp_path, {"margin": [0.2, 0.1]}, seeds=1, epochs=3)
    assert not (tmp_path / "margin=0.2-0").exists()
    search(tmp_path, {"margin": [0.2, 0.1]}, seeds=1, epochs=1, checkpoint_steps=7)


def test_what_a_loss_does_not_have_is_left_out_and_equal_runs_are_one(search, tmp_path):
    grid = {"loss": ["softmax", "arcface"], "margin": [0.2, 0.3], "fallback": ["easy"]}
    watcher = Remembers()
    outcome = search(tmp_path / "out", grid, seeds=1, watcher=watcher, epochs=1)
    labels = ["loss=softmax", "loss=arcface,margin=0.2", "loss=arcface,margin=0.3"]
    assert [variant.label for variant in outcome.variants] == labels
    assert outcome.variants[-1].config.options == {"fallback": "easy"}
    for option in ("margin", "fallback", "scale"):
        assert sum(option in note for note in watcher.notes) == 1
    assert [cell for row in outcome.rows() for cell in row if cell == "–"] == ["–"]
