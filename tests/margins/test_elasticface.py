import math

import pytest
import torch

from arcset.margins.arcface import ArcFace
from arcset.margins.cosface import CosFace
from arcset.margins.elasticface import ElasticFace
from support.margin_checks import ANGLES, batch_of

KINDS = ("arc", "cos")


@pytest.mark.parametrize("kind", KINDS)
def test_against_the_published_formula(kind):
    """Whatever is drawn, it is the margin of that sample."""
    margin = ElasticFace(kind=kind)
    generator = torch.Generator().manual_seed(0)
    cosine = torch.empty(64, dtype=torch.float64).uniform_(-0.6, 0.9, generator=generator)
    drawn = margin.draw(12, 64)
    expected = torch.cos(cosine.acos() + drawn) if kind == "arc" else cosine - drawn
    found = margin(cosine, batch_of(64, step=12))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kind", "other"), [("arc", ArcFace()), ("cos", CosFace())])
def test_without_spread_it_is_arcface_or_cosface(kind, other):
    samples = batch_of(len(ANGLES), step=5)
    expected = other(ANGLES.cos(), samples)
    assert torch.equal(ElasticFace(kind=kind, spread=0.0)(ANGLES.cos(), samples), expected)
    assert torch.equal(ElasticFace(kind=kind, spread=0.3).eval()(ANGLES.cos(), samples), expected)


def test_draws_follow_from_seed_step_and_size_alone():
    margin = ElasticFace(spread=0.1)
    first = margin.draw(7, 32)
    torch.manual_seed(99)
    torch.randn(5)
    assert torch.equal(ElasticFace(spread=0.1).draw(7, 32), first)
    others = [margin.draw(8, 32), ElasticFace(spread=0.1, seed=1).draw(7, 32)]
    others.append(margin.draw(7, 33)[:32])
    for other in others:
        assert (other != first).all()


def test_draws_are_normal():
    drawn = torch.cat([ElasticFace(margin=0.5, spread=0.05).draw(step, 500) for step in range(40)])
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.05 * 4 / math.sqrt(20_000))
    assert drawn.std().item() == pytest.approx(0.05, rel=0.03)
    inside = ((drawn - 0.5).abs() < 0.05).double().mean().item()
    assert inside == pytest.approx(0.6827, abs=0.015)


@pytest.mark.parametrize(("kind", "limit"), [("arc", math.pi), ("cos", 2.0)])
def test_draws_are_clamped(kind, limit):
    drawn = ElasticFace(kind=kind, margin=1.0, spread=9.0).draw(0, 200)
    assert drawn.min().item() == 0.0
    assert drawn.max().item() == limit
    margin = ElasticFace(kind=kind, margin=1.0, spread=9.0)
    assert (margin(ANGLES.cos(), batch_of(len(ANGLES))) <= ANGLES.cos()).all()


def test_plus_gives_the_farthest_sample_the_largest_margin():
    margin = ElasticFace(kind="cos", plus=True, spread=0.1)
    cosine = torch.tensor([0.1, 0.9, -0.5, 0.4], dtype=torch.float64)
    margins = cosine - margin(cosine, batch_of(4, step=2))
    assert margins.argsort(descending=True).tolist() == [2, 0, 3, 1]
    torch.testing.assert_close(margins.sort().values, margin.draw(2, 4).sort().values)
    plain = ElasticFace(kind="cos", plus=False, spread=0.1)
    torch.testing.assert_close(cosine - plain(cosine, batch_of(4, step=2)), margin.draw(2, 4))
