"""Rounding at random, and centers in bfloat16 that learn by it."""

import torch
from hypothesis import given
from hypothesis import strategies as st

import arcset
from arcset.centers.update import round_stochastic

EVERY = torch.arange(65536, dtype=torch.int32)


@given(st.floats(-(2.0**127), 2.0**127, width=32))
def test_the_mean_over_all_noise_is_the_value(value):
    found = round_stochastic(torch.full((65536,), value), EVERY).double()
    assert found.isfinite().all()
    assert len(found.unique()) <= 2  # one of the two neighbours
    tiny = torch.finfo(torch.bfloat16).tiny
    torch.testing.assert_close(
        found.mean(), torch.tensor(value, dtype=torch.float64), rtol=1e-7, atol=tiny * 1e-2
    )


def test_what_fits_stays_and_what_is_too_large_is_the_largest():
    limit = torch.finfo(torch.bfloat16).max
    fits = torch.tensor([0.0, -0.0, 1.0, -2.5, limit, -limit])
    for noise in (0, 1, 40_000, 65535):
        same = torch.full(fits.shape, noise, dtype=torch.int32)
        assert round_stochastic(fits, same).float().equal(fits)
        assert round_stochastic(torch.full((6,), 3.4e38), same).float().eq(limit).all()


def test_small_steps_are_not_lost():
    """Two hundred steps of a 10,000th each: to the nearest, nothing would move."""
    torch.manual_seed(0)
    loss = arcset.build_loss("arcface", 4, 200, storage="bfloat16")
    loss.fuse_update("sgd", lr=0.1, momentum=0.0, weight_decay=1e-3)
    before = loss.head.weight.detach().float().clone()
    nowhere, label = torch.zeros(1, 4, requires_grad=True), torch.tensor([0])
    for _ in range(200):  # weight decay alone: an embedding without a direction has no gradient
        loss(nowhere, label).backward()
    ratio = (loss.head.weight.float().abs().sum() / before.abs().sum()).item()
    assert abs(ratio - (1 - 1e-4) ** 200) < 2e-3


def test_it_learns_as_well_as_float32():
    def learned(**options):
        torch.manual_seed(0)
        classes, dim = 50, 16
        planted = torch.nn.functional.normalize(torch.randn(classes, dim), dim=1)
        y = torch.arange(classes).repeat(8)
        x = planted[y] + 0.05 * torch.randn(len(y), dim)
        loss = arcset.build_loss("arcface", dim, classes, **options)
        for _ in range(100):
            some = torch.randint(len(y), (64,))
            loss(x[some], y[some]).backward()
        return float((loss.centers * planted).sum(dim=1).mean())

    wide = learned(update="sgd")
    assert learned(storage="bfloat16", update="sgd", sample=0.3) > wide - 0.01
    assert learned(storage="bfloat16", update="adagrad") > learned(update="adagrad") - 0.01
