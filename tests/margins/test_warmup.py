"""Margins that come in slowly."""

import pytest
import torch

import arcset
from arcset.margins import MARGINS
from support.laws import at_angles


@pytest.mark.parametrize("mode", ["plain", "store", "recompute"])
@pytest.mark.parametrize("name", MARGINS.names())
def test_every_margin_starts_as_normface_and_ends_as_itself(name, mode):
    options = {} if name == "adacos" else {"scale": 8.0}
    torch.manual_seed(0)
    warm = arcset.build_loss(name, 6, 9, mode=mode, warmup=4, **options).double().eval()
    full = arcset.build_loss(name, 6, 9, mode=mode, **options).double().eval()
    bare = arcset.build_loss("normface", 6, 9, mode=mode, scale=warm.scale).double()
    for other in (full, bare):
        other.set_centers(warm.centers)
    x, y = torch.randn(12, 6, dtype=torch.float64), torch.arange(12) % 9
    constant = warm.margin.penalty(warm._batch(x, y).samples)  # a wish about lengths is no margin
    extra = 0 if constant is None else constant.mean()
    torch.testing.assert_close(warm(x, y), bare(x, y) + extra)
    warm.advance(4)
    torch.testing.assert_close(warm(x, y), full(x, y))


@pytest.mark.parametrize(
    ("name", "whole", "half"),
    [
        ("arcface", {"margin": 0.6}, {"margin": 0.3}),
        ("cosface", {"margin": 0.4}, {"margin": 0.2}),
        ("sphereface", {"margin": 2.0}, {"margin": 1.5}),
        ("combined", {"m1": 1.4, "m2": 0.4, "m3": 0.2}, {"m1": 1.2, "m2": 0.2, "m3": 0.1}),
    ],
)
def test_half_way_is_half_the_margin(name, whole, half):
    warm = arcset.build_loss(name, 2, 3, scale=1.0, warmup=10, **whole).double()
    other = arcset.build_loss(name, 2, 3, scale=1.0, **half).double()
    other.set_centers(warm.centers)
    warm.advance(5)
    x = at_angles(torch.linspace(0, 6, 50, dtype=torch.float64))
    y = torch.zeros(50, dtype=torch.int64)
    torch.testing.assert_close(warm.logits(x, y), other.logits(x, y))
