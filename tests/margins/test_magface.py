import math

import pytest
import torch

from arcset.margins import Sample
from arcset.margins.magface import MagFace
from support.margin_checks import batch_of

LENGTHS = torch.tensor([0.0, 3.0, 10.0, 42.0, 110.0, 500.0], dtype=torch.float64)


def test_against_the_published_formula():
    generator = torch.Generator().manual_seed(0)
    norms = torch.empty(200, dtype=torch.float64).uniform_(1, 150, generator=generator)
    cosine = torch.empty(200, dtype=torch.float64).uniform_(-0.6, 0.99, generator=generator)
    length = norms.clamp(10, 110)
    margin = (0.8 - 0.45) / (110 - 10) * (length - 10) + 0.45
    samples = batch_of(200, norms=norms)
    torch.testing.assert_close(
        MagFace()(cosine, samples), torch.cos(cosine.acos() + margin), rtol=0, atol=1e-12
    )
    penalty = 35 * (1 / 110**2 * length + 1 / length)
    torch.testing.assert_close(MagFace().penalty(samples), penalty)


def test_penalty_is_its_reference_and_smallest_at_the_upper_length():
    margin = MagFace(penalty_weight=2.5)
    penalty = margin.penalty(batch_of(len(LENGTHS), norms=LENGTHS))
    for value, length in zip(penalty.tolist(), LENGTHS.tolist(), strict=True):
        assert value == pytest.approx(margin.penalty_reference(Sample(norm=length)), abs=1e-14)
    norms = torch.linspace(10, 110, 101, dtype=torch.float64)
    assert (margin.penalty(batch_of(101, norms=norms)).diff() < 0).all()
    assert margin.penalty_reference(Sample(norm=110.0)) == pytest.approx(2.5 * 2 / 110)


def test_the_gradient_reaches_the_length():
    norms = torch.tensor([0.0, 5.0, 50.0, 200.0], dtype=torch.float64, requires_grad=True)
    cosine = torch.full((4,), 0.3, dtype=torch.float64)
    samples = batch_of(4, norms=norms)
    MagFace()(cosine, samples).sum().backward()
    angle, slope = math.acos(0.3), 0.35 / 100
    inside = -math.sin(angle + 0.45 + 40 * slope) * slope
    torch.testing.assert_close(
        norms.grad, torch.tensor([0.0, 0.0, inside, 0.0], dtype=torch.float64)
    )
    norms.grad = None
    MagFace().penalty(samples).sum().backward()
    inside = 35 * (-1 / 50**2 + 1 / 110**2)
    torch.testing.assert_close(
        norms.grad, torch.tensor([0.0, 0.0, inside, 0.0], dtype=torch.float64)
    )
