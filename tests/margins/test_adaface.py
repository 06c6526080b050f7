import math

import pytest
import torch

from arcset.margins import Margin
from arcset.margins.adaface import AdaFace
from arcset.margins.arcface import ArcFace
from arcset.margins.cosface import CosFace
from support.margin_checks import ANGLES, batch_of, check_saved

POOR, MIDDLING, GOOD = 0.0, 20.0, 1000.0  # beside the starting mean of 20, and h = 100


def sharp(**options) -> Margin:
    return AdaFace(h=99.0, **options)


def published(cosine, norms, margin, mean, std, h=0.333):
    """The formula, where neither clamp nor chord acts; μ and σ given."""
    norms = norms.clip(0.001, 100)
    quality = ((norms - mean) / (std + 0.001) * h).clip(-1, 1)
    return torch.cos(cosine.acos() - margin * quality) - (margin + margin * quality)


def test_against_the_published_formula():
    margin = AdaFace(rate=1.0).double()
    generator = torch.Generator().manual_seed(0)
    norms = 12 + 6 * torch.randn(500, generator=generator, dtype=torch.float64)
    cosine = torch.empty(500, dtype=torch.float64).uniform_(-0.9, 0.9, generator=generator)
    samples = batch_of(500, norms=norms)
    margin.observe(cosine, samples)
    clipped = norms.clip(0.001, 100)
    expected = published(cosine, norms, 0.4, clipped.mean(), clipped.std())
    torch.testing.assert_close(margin(cosine, samples), expected, rtol=0, atol=1e-12)
    clamped = AdaFace(rate=1.0, fallback="clamp").double()
    clamped.load_state_dict(margin.state_dict())
    torch.testing.assert_close(clamped(cosine, samples), expected, rtol=0, atol=1e-12)


def test_poor_images_see_arcface_middling_ones_cosface():
    cosine = ANGLES.cos()
    for norm, other in ((POOR, ArcFace(0.4)), (MIDDLING, CosFace(0.4))):
        samples = batch_of(len(cosine), norms=torch.full_like(cosine, norm))
        torch.testing.assert_close(
            sharp()(cosine, samples), other(cosine, samples), rtol=0, atol=1e-12
        )
    samples = batch_of(len(cosine), norms=torch.full_like(cosine, GOOD))
    inside = ANGLES > 0.4
    expected = torch.cos(cosine.acos() - 0.4) - 0.8
    torch.testing.assert_close(
        sharp()(cosine, samples)[inside], expected[inside], rtol=0, atol=1e-12
    )


def test_statistics_follow_the_batches():
    margin = AdaFace(rate=0.25)
    assert (margin.norm_mean.item(), margin.norm_std.item()) == (20.0, 100.0)
    norms = torch.tensor([0.0, 3.0, 500.0])  # 0.001, 3 and 100 when clipped
    margin.observe(torch.zeros(3), batch_of(3, norms=norms))
    mean = 103.001 / 3
    std = math.sqrt(sum((norm - mean) ** 2 for norm in (0.001, 3.0, 100.0)) / 2)
    assert margin.norm_mean.item() == pytest.approx(0.75 * 20 + 0.25 * mean, rel=1e-6)
    assert margin.norm_std.item() == pytest.approx(0.75 * 100 + 0.25 * std, rel=1e-6)
    check_saved(margin, AdaFace(), "norm_mean", "norm_std")


def test_quality_has_no_gradient():
    norms = torch.tensor([15.0, 25.0], requires_grad=True)
    cosine = torch.tensor([0.3, 0.4], requires_grad=True)
    AdaFace(h=1.0)(cosine, batch_of(2, norms=norms)).sum().backward()
    assert norms.grad is None
    assert (cosine.grad > 0).all()


def test_gradients_agree_with_finite_differences_at_given_lengths():
    cosine = torch.tensor([-0.97, -0.2, 0.5, 0.97], dtype=torch.float64, requires_grad=True)
    samples = batch_of(4, norms=torch.tensor([0.1, 19.7, 20.4, 50.0], dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda c: sharp()(c, samples), (cosine,))


def test_the_authors_clamp_has_a_dead_zone_and_ours_has_none():
    samples = batch_of(1, norms=torch.tensor([GOOD], dtype=torch.float64))
    slopes = []
    for fallback in ("default", "clamp"):
        cosine = torch.tensor([math.cos(0.2)], dtype=torch.float64, requires_grad=True)
        sharp(fallback=fallback)(cosine, samples).backward()
        slopes.append(cosine.grad.item())
    assert slopes == [1.0, 0.0]
