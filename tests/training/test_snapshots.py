"""Angles during training, against the plainest way of computing them."""

import math

import pytest
import torch
from torch import Tensor

from arcset.losses import build_loss
from arcset.training.monitor import measure_angles


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


def test_only_the_first_64_are_looked_at() -> None:
    loss = build_loss("arcface", 6, 9)
    embeddings, labels = batch(200, 9, 6)
    found = measure_angles(loss, embeddings, labels, torch.Generator())
    assert found == measure_angles(loss, embeddings[:64], labels[:64], torch.Generator())
    assert found != measure_angles(loss, embeddings[64:], labels[64:], torch.Generator())


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


def test_on_its_own_center_and_off_the_others() -> None:
    loss = build_loss("normface", 3, 3)
    loss.set_centers(torch.eye(3))
    found = measure_angles(loss, 2 * torch.eye(3), torch.arange(3), torch.Generator())
    assert found == pytest.approx((0.0, 90.0), abs=0.05)
    loss = build_loss("normface", 2, 2)
    loss.set_centers(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    found = measure_angles(loss, torch.tensor([[3.0, 0.0]]), torch.tensor([0]), torch.Generator())
    assert found == pytest.approx((0.0, 180.0), abs=0.05)


@pytest.mark.parametrize(("name", "options"), [("triplet", {}), ("arcface", {"subcenters": 2})])
def test_nothing_is_said_without_one_center_per_class(name: str, options) -> None:
    loss = build_loss(name, 6, 9, **options)
    assert measure_angles(loss, *batch(8, 9, 6), torch.Generator()) is None
