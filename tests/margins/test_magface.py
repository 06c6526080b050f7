import math

import pytest
import torch

from arcset.margins import Sample
from arcset.margins.arcface import ArcFace
from arcset.margins.base import Law
from arcset.margins.magface import MagFace
from support.margin_checks import (
    ANGLES,
    batch_of,
    check_falls,
    check_finite_at_the_ends,
    check_loss,
    check_rebuilt_loss,
    check_refused,
    check_settings_rebuild,
    check_shift_is_reference,
)

LENGTHS = torch.tensor([0.0, 3.0, 10.0, 42.0, 110.0, 500.0], dtype=torch.float64)


def test_shift_is_reference():
    for length in LENGTHS:
        check_shift_is_reference(MagFace(), norms=length.expand(len(ANGLES)))
        check_shift_is_reference(
            MagFace(l_a=1, u_a=50, l_m=0.0, u_m=2.0), norms=length.expand(len(ANGLES))
        )


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


@pytest.mark.parametrize(
    ("length", "margin"),
    [(0.0, 0.45), (10.0, 0.45), (60.0, 0.625), (110.0, 0.8), (1e6, 0.8)],
)
def test_the_margin_at_a_length_is_an_arcface(length, margin):
    norms = torch.full_like(ANGLES, length)
    samples = batch_of(len(ANGLES), norms=norms)
    expected = ArcFace(margin)(ANGLES.cos(), samples)
    torch.testing.assert_close(MagFace()(ANGLES.cos(), samples), expected, rtol=0, atol=1e-12)


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


def test_gradients_agree_with_finite_differences():
    cosine = torch.tensor([-0.95, -0.2, 0.7], dtype=torch.float64, requires_grad=True)
    norms = torch.tensor([12.0, 50.0, 90.0], dtype=torch.float64, requires_grad=True)

    def value(c, n):
        samples = batch_of(3, norms=n)
        return MagFace()(c, samples) + MagFace().penalty(samples)

    assert torch.autograd.gradcheck(value, (cosine, norms))


@pytest.mark.parametrize("length", [0.0, 50.0, 1000.0])
def test_it_falls_everywhere(length):
    check_falls(MagFace(), norms=torch.tensor(length, dtype=torch.float64))


def test_ends():
    check_finite_at_the_ends(MagFace())


def test_neutral_does_nothing():
    margin = MagFace(**MagFace.neutral)
    samples = batch_of(len(ANGLES), norms=torch.full_like(ANGLES, 50.0))
    torch.testing.assert_close(margin(ANGLES.cos(), samples), ANGLES.cos(), rtol=0, atol=0)
    assert not margin.penalty(samples).any()


def test_laws_settings_and_fit():
    assert Law.SCALE_FREE not in MagFace().laws
    assert {Law.MONOTONE, Law.CONTINUOUS, Law.NEUTRAL, Law.TARGET_ONLY} <= MagFace().laws
    check_settings_rebuild(MagFace(l_a=1, u_a=2, l_m=0.1, u_m=0.2, penalty_weight=3))
    assert MagFace.default_options(math.pi / 2) == {"l_m": 0.45, "u_m": 0.8}
    assert MagFace.default_options(0.1) == pytest.approx({"l_m": 0.045, "u_m": 0.08})


@pytest.mark.parametrize(
    "options",
    [
        {"l_a": 0.0},
        {"l_a": 110.0},
        {"l_m": 0.9},
        {"u_m": math.pi},
        {"penalty_weight": -1.0},
    ],
)
def test_refused(options):
    check_refused(MagFace, options)


def test_loss():
    check_loss("magface")
    check_loss("magface", l_a=30, u_a=60, l_m=0.1, u_m=1.5, penalty_weight=3.0)
    check_rebuilt_loss("magface", penalty_weight=1.0)
