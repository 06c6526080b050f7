"""Validation on identities held out, and what it decides."""

import hashlib
import json

import numpy as np
import pytest
import torch
from torch import nn

from arcset.data import ImageSet, to_tensors
from arcset.data.of_run import selection_of
from arcset.evaluation import retrieval, verification
from arcset.models import embed
from arcset.runs import Run, RunConfig
from arcset.runs.states import load_tensors, save_tensors
from arcset.training import load_model, resume, train
from arcset.training.validation import (
    VALIDATED,
    Validator,
    build_validator,
    validation_epochs,
)
from support.small_data import Remembers, images

CPU = torch.device("cpu")


def pictures(counts: list[int]) -> ImageSet:
    labels = np.repeat(np.arange(len(counts)), counts)
    random = np.random.default_rng(0)
    names = tuple(f"c{number}" for number in range(len(counts)))
    return ImageSet(random.integers(0, 256, (len(labels), 4, 4), np.uint8), labels, names)


def flat() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3))


@pytest.fixture
def config(tmp_path) -> RunConfig:
    return RunConfig(
        data=str(images(tmp_path / "a.npz", classes=16, noise=90)),
        dim=4,
        epochs=6,
        batch=32,
        snapshot=0,
        hold_out={"validation": 0.25, "test": 0.25},
    )


def test_measures_are_those_of_evaluation() -> None:
    data = pictures([40] * 30)  # enough pairs for one false accept in a thousand
    network = flat().train()
    found = Validator(data, CPU).measure(network)
    assert network.training  # as it was
    pixels, labels = to_tensors(data)
    embeddings = embed(network, pixels)
    pairs, search = verification(embeddings, labels), retrieval(embeddings, labels)
    assert found == {
        "map": search.map_at_r,
        "recall": search.recall_at[1],
        "auc": pairs.auc,
        "tar": pairs.tar_at_far[1e-3],
    }
    assert found.keys() == VALIDATED.keys()


def test_what_few_samples_cannot_tell_is_left_out() -> None:
    found = Validator(pictures([3, 3]), CPU).measure(flat())
    assert found.keys() == {"map", "recall", "auc"}  # nine pairs make no rate of 0.1 %


def test_identities_with_a_single_image_are_left_out_and_no_more_than_4000_taken() -> None:
    assert len(Validator(pictures([3, 1, 2, 1]), CPU)) == 5
    assert len(Validator(pictures([1500, 1, 1500, 1500]), CPU)) == 3000  # whole identities
    assert len(Validator(pictures([4100, 2, 7]), CPU)) == 4102  # but two at least
    assert len(Validator(pictures([2000, 2000, 5]), CPU)) == 4000
    assert len(Validator(pictures([3, 1, 1]), CPU)) == 5  # others are needed to differ from


@pytest.mark.parametrize("counts", [[5], [1, 1, 1]])
def test_without_pairs_there_is_no_validation(counts) -> None:
    assert build_validator(pictures(counts), CPU) is None
    assert build_validator(None, CPU) is None
    assert build_validator(pictures([2, 1]), CPU) is not None


@pytest.mark.parametrize(
    ("epochs", "every", "expected"),
    [
        (3, 0, {1, 2, 3}),
        (45, 0, {*range(2, 45, 2), 45}),
        (100, 0, set(range(5, 101, 5))),
        (10, 4, {4, 8, 10}),
        (3, 7, {3}),
    ],
)
def test_epochs_of_validation(epochs: int, every: int, expected: set[int]) -> None:
    config = RunConfig(data="x", epochs=epochs, validate_every=every)
    assert validation_epochs(config) == expected


def spoiled(config: RunConfig, place, epochs: int) -> Run:
    """A run whose weights were replaced by noise after so many epochs, and which hardly moves."""
    with pytest.raises(KeyboardInterrupt):
        train(config, place, device="cpu", watcher=Remembers(stop=2 * epochs + 1))
    checkpoint = place / "checkpoint" / f"step-{2 * epochs:09d}"
    file = checkpoint / "network.safetensors"
    weights = load_tensors(file)
    torch.manual_seed(0)
    noise = {
        name: torch.randn_like(value) if value.ndim > 1 else value
        for name, value in weights.items()
    }
    save_tensors(file, noise)
    # As if it had been written so, and with the rate that the run goes on with.
    state = json.loads((checkpoint / "state.json").read_text())
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    state["files"][file.name] = [file.stat().st_size, digest]
    state["belongs"]["settings"]["learning_rate"] = 1e-9
    (checkpoint / "state.json").write_text(json.dumps(state))
    slow = config.replace(**Run.open(place).config.model_dump()).replace(learning_rate=1e-9)
    slow.save(place / "config.toml")
    return Run.open(place)


def test_the_best_epoch_is_kept_and_patience_ends_the_wait(config, tmp_path) -> None:
    run = spoiled(config.replace(patience=2), tmp_path / "run", 3)
    good = [line["validation"]["map"] for line in run.metrics()]
    before, _ = run.load_model()
    resume(run.path, device="cpu")
    lines = run.metrics()
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5]  # of six: two in vain
    assert max(line["validation"]["map"] for line in lines[3:]) < max(good)
    kept, best = [], -1.0
    for line in lines:
        kept.append(line["validation"]["map"] > best)
        best = max(best, line["validation"]["map"])
    assert [line["kept"] for line in lines] == kept
    assert kept[0]
    assert not any(kept[3:])
    after, _ = run.load_model()
    assert all(torch.equal(before[name], after[name]) for name in before)
    network, _ = load_model(run)
    measured = Validator(selection_of(run).validation, CPU).measure(network)
    assert measured["map"] == max(good)
    again = Remembers()
    resume(run.path, device="cpu", watcher=again)  # finished: nothing moves
    assert again.steps == []
    assert run.metrics() == lines


def test_without_patience_all_epochs_run_and_another_measure_decides(config, tmp_path) -> None:
    run = spoiled(config.replace(best_by="auc", validate_every=2), tmp_path / "run", 4)
    resume(run.path, device="cpu")
    lines = run.metrics()
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert ["validation" in line for line in lines] == [False, True] * 3
    assert ["kept" in line for line in lines] == [False, True] * 3
    assert not lines[5]["kept"]
    network, _ = load_model(run)
    measured = Validator(selection_of(run).validation, CPU).measure(network)
    best = max(line["validation"]["auc"] for line in lines[1::2])
    assert measured["auc"] == best
    state = json.loads((max((run.path / "checkpoint").iterdir()) / "state.json").read_text())[
        "progress"
    ]
    assert (state["best"], state["epoch"]) == (best, 6)


def test_data_that_sets_one_identity_apart_for_validation_is_trained_on(tmp_path) -> None:
    labels = np.repeat(np.arange(6), 5)
    split = np.where(labels == 5, "val", np.where(labels == 4, "test", "train"))
    pixels = np.random.default_rng(0).integers(0, 256, (30, 8, 8), np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels, labels=labels, split=split)
    config = RunConfig(data=str(tmp_path / "a.npz"), dim=4, epochs=1, batch=8)
    run = train(config, tmp_path / "run", device="cpu")
    assert len(run.config.class_names) == 4
    assert "validation" not in run.metrics()[0]
    assert run.load_model()
