"""Values and gradients against pytorch-metric-learning, where θ + m < π and both agree."""

import math

import pytest
import torch
from pytorch_metric_learning import losses as peers

import arcset

DIM, CLASSES, SCALE = 16, 7, 12.0


def acute_batch(loss):
    """Samples within a right angle of their class's center, where no fallback is at work."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(21) % CLASSES
    noise = torch.randn(21, DIM, generator=generator, dtype=torch.float64)
    noise = torch.nn.functional.normalize(noise)
    return (2 * loss.centers[labels] + noise).requires_grad_(), labels


def pair(name, peer, **options):
    torch.manual_seed(0)
    ours = arcset.build_loss(name, DIM, CLASSES, scale=SCALE, **options).double()
    peer = peer.double()
    with torch.no_grad():
        peer.W.copy_(ours.head.weight.T)
    return ours, peer


@pytest.mark.parametrize("margin", [0.1, 0.5])
def test_arcface(margin):
    peer = peers.ArcFaceLoss(CLASSES, DIM, margin=math.degrees(margin), scale=SCALE)
    compare(*pair("arcface", peer, margin=margin))


@pytest.mark.parametrize("margin", [0.1, 0.8])
def test_cosface(margin):
    peer = peers.CosFaceLoss(CLASSES, DIM, margin=margin, scale=SCALE)
    compare(*pair("cosface", peer, margin=margin))


def test_normface():
    peer = peers.NormalizedSoftmaxLoss(CLASSES, DIM, temperature=1 / SCALE)
    compare(*pair("normface", peer))


@pytest.mark.parametrize("margin", [2, 3, 4])
def test_sphereface(margin):
    """The peer multiplies by ‖x‖ instead of a fixed scale: give it embeddings of length s."""
    peer = peers.SphereFaceLoss(CLASSES, DIM, margin=margin, scale=1)
    ours, peer = pair("sphereface", peer, margin=margin)
    embeddings, labels = acute_batch(ours)
    unit = torch.nn.functional.normalize(embeddings.detach())
    torch.testing.assert_close(ours(unit, labels), peer(SCALE * unit, labels))


def compare(ours, peer):
    embeddings, labels = acute_batch(ours)
    other = embeddings.detach().clone().requires_grad_()
    value, expected = ours(embeddings, labels), peer(other, labels)
    torch.testing.assert_close(value, expected)
    value.backward()
    expected.backward()
    torch.testing.assert_close(embeddings.grad, other.grad)
    torch.testing.assert_close(ours.head.weight.grad, peer.W.grad.T)


@pytest.mark.parametrize(
    ("name", "margin", "combined"),
    [
        ("sphereface", {"margin": 1.35}, {"m1": 1.35, "m2": 0.0, "m3": 0.0}),
        ("arcface", {"margin": 0.5}, {"m1": 1.0, "m2": 0.5, "m3": 0.0}),
        ("cosface", {"margin": 0.35}, {"m1": 1.0, "m2": 0.0, "m3": 0.35}),
        ("normface", {}, {"m1": 1.0, "m2": 0.0, "m3": 0.0}),
    ],
)
def test_combined_reduces_to_each(name, margin, combined):
    """Everywhere, on both sides of π."""
    torch.manual_seed(0)
    one = arcset.build_loss(name, DIM, CLASSES, scale=SCALE, **margin).double()
    all_three = arcset.build_loss("combined", DIM, CLASSES, scale=SCALE, **combined).double()
    all_three.set_centers(one.head.weight.detach())
    x = torch.randn(64, DIM, dtype=torch.float64)
    y = torch.arange(64) % CLASSES
    x[0], x[1] = one.centers[y[0]], -one.centers[y[1]]
    torch.testing.assert_close(one.logits(x, y), all_three.logits(x, y))
    torch.testing.assert_close(one(x, y), all_three(x, y))
