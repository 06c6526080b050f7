"""Validation on identities held out, and what it decides."""

import functools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from arcset.data import ImageSet, to_tensors
from arcset.evaluation import retrieval, verification
from arcset.evaluation.measures import validated
from arcset.losses import build_loss
from arcset.networks import NETWORKS
from arcset.runs import Run, RunConfig
from arcset.runs.data import selection_of
from arcset.runs.model import embed
from arcset.training import load_model, resume, train
from arcset.training.monitor import (
    Validator,
    build_validator,
    measure_angles,
    validates_after,
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
    assert found.keys() == validated().keys()


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
        (45, 0, {*range(2, 45, 2), 45}),
        (100, 0, set(range(5, 101, 5))),
        (10, 4, {4, 8, 10}),
    ],
)
def test_epochs_of_validation(epochs: int, every: int, expected: set[int]) -> None:
    config = RunConfig(data="x", epochs=epochs, validate_every=every)
    assert {epoch for epoch in range(1, epochs + 1) if validates_after(config, epoch)} == expected


class Forgetful(nn.Module):
    """Embeds images with less and less noise until it was trained for so many steps; then noise."""

    def __init__(self, shape, dim, good):
        super().__init__()
        self.layer, self.good = nn.Linear(math.prod(shape), dim), good
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, images):
        self.steps += self.training
        embeddings = nn.functional.normalize(self.layer(images.flatten(1)))
        if self.training:
            return embeddings
        noise = torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(0))
        left = 1 - self.steps / self.good
        return embeddings + left * noise if left >= 0 else noise


@pytest.fixture
def forgetful():
    """A network that forgets all after three epochs."""
    NETWORKS.add("forgetful", functools.partial(Forgetful, good=6))
    yield
    NETWORKS.remove("forgetful")


def measured_again(run: Run):
    """What retrieval says of the weights that were kept."""
    pixels, labels = to_tensors(selection_of(run).validation)
    return retrieval(embed(load_model(run)[0], pixels), labels).map_at_r


@pytest.mark.usefixtures("forgetful")
def test_the_best_epoch_is_kept_and_patience_ends_the_wait(config, tmp_path) -> None:
    run = train(config.replace(network="forgetful", patience=2), tmp_path / "run", device="cpu")
    lines = run.metrics()
    found = [line["validation"]["map"] for line in lines]
    best = max(found)
    assert found.index(best) == 2
    assert len(found) == 5  # of six: two in vain
    kept = [value > max(found[:place], default=-1.0) for place, value in enumerate(found)]
    assert [line["kept"] for line in lines] == kept
    assert measured_again(run) == best
    again = Remembers()
    resume(run.path, device="cpu", watcher=again)  # finished: nothing moves
    assert again.steps == []
    assert run.metrics() == lines


# Angles during training, against the plainest way of computing them.


def plain(embeddings: Tensor, labels: Tensor, centers: Tensor) -> tuple[float, float]:
    own, other = [], []
    centers = centers.detach().double()
    for row, label in zip(embeddings.double(), labels.tolist(), strict=True):
        cosines = [float(row @ center / (row.norm() * center.norm())) for center in centers]
        own.append(math.degrees(math.acos(cosines.pop(label))))
        other.append(math.degrees(math.acos(max(cosines))))
    return sum(own) / len(own), sum(other) / len(other)


def batch(count: int, classes: int, dim: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(classes, (count,), generator=generator)
    return 5 * torch.randn(count, dim, generator=generator), labels


@pytest.mark.parametrize("name", ["arcface", "softmax", "center"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_angles_are_those_of_the_formula(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    loss = build_loss(name, 6, 9)
    embeddings, labels = batch(40, 9, 6)
    embeddings = embeddings.to(dtype)
    found = measure_angles(loss, embeddings, labels, torch.Generator())
    assert found == pytest.approx(plain(embeddings, labels, loss.trained_centers()), rel=1e-5)


def test_many_classes_are_drawn_from_but_the_own_one_always_counts() -> None:
    torch.manual_seed(0)
    classes = 5000
    loss = build_loss("normface", 8, classes)
    embeddings, labels = batch(3, classes, 8)
    own, other = plain(embeddings, labels, loss.trained_centers())
    found = [
        measure_angles(loss, embeddings, labels, torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    ]
    assert found[0] == found[1] != found[2]
    assert found[0][0] == pytest.approx(own, rel=1e-5)
    assert other <= found[0][1] < other + 15  # the nearest of some is not nearer than that of all


@pytest.mark.parametrize(("name", "options"), [("triplet", {}), ("arcface", {"subcenters": 2})])
def test_nothing_is_said_without_one_center_per_class(name: str, options) -> None:
    loss = build_loss(name, 6, 9, **options)
    assert measure_angles(loss, *batch(8, 9, 6), torch.Generator()) is None
