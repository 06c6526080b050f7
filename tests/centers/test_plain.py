"""The reference by itself: dtypes, autocast, bias, sub-centers."""

import copy
import gc
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import arcset
from arcset.centers import Centers, plain_logits
from arcset.centers.init import center_spacing, initial_directions
from arcset.centers.storage import Recycler
from arcset.centers.update import round_stochastic


@pytest.fixture
def centers():
    torch.manual_seed(0)
    return Centers(6, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_in_any_dtype_are_at_least_float32(centers, dtype):
    x = torch.randn(3, 6)
    narrow = plain_logits(centers, x.to(dtype), 8.0)
    assert narrow.dtype == torch.promote_types(dtype, torch.float32)
    exact = plain_logits(centers.double(), x.to(dtype).double(), 8.0)
    torch.testing.assert_close(narrow.double(), exact, rtol=1e-5, atol=1e-5)


def test_a_class_is_as_near_as_its_nearest_subcenter():
    centers = Centers(6, 4, subcenters=3)
    x = torch.nn.functional.normalize(torch.randn(5, 6))
    every = x @ torch.nn.functional.normalize(centers.weight).T  # (5, 12)
    expected = torch.stack([every[:, 3 * j : 3 * j + 3].amax(dim=1) for j in range(4)], dim=1)
    torch.testing.assert_close(plain_logits(centers, x, 1.0), expected)


@pytest.mark.parametrize("mode", ["plain", "store", "recompute"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("arcface", {}),
        ("arcface", {"subcenters": 2}),
        ("arcface", {"sample": 0.5}),
        ("intra", {}),
        ("inter", {}),
    ],
)
def test_float64_embeddings_on_float32_centers_are_computed_in_float64(mode, name, options):
    torch.manual_seed(0)
    loss = arcset.build_loss(name, 6, 9, mode=mode, **options)
    wide = copy.deepcopy(loss).double()
    x, y = torch.randn(7, 6, dtype=torch.float64), torch.randint(9, (7,))
    found = []
    for one in (loss, wide):
        torch.manual_seed(1)  # for the classes that are drawn
        inputs = x.clone().requires_grad_()
        value = one(inputs, y)
        value.backward()
        found.append((value, inputs.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(loss.logits(x), wide.logits(x), rtol=1e-12, atol=1e-12)


def nearest_angles(rows):
    cosines = (rows @ rows.T).fill_diagonal_(-1).clamp(-1, 1)
    return cosines.amax(dim=1).arccos()


@pytest.mark.parametrize("classes", [2, 5, 10, 300])
def test_a_circle_is_shared_evenly(classes):
    torch.manual_seed(0)
    nearest = nearest_angles(initial_directions(classes, 2).double())
    assert nearest.tolist() == pytest.approx([2 * math.pi / classes] * classes, rel=1e-3)


@pytest.mark.parametrize(("classes", "dim"), [(4, 3), (20, 8), (100, 3)])
def test_few_dimensions_are_spread_better_than_by_chance(classes, dim):
    torch.manual_seed(0)
    spread = nearest_angles(initial_directions(classes, dim)).min()
    chance = max(
        nearest_angles(torch.nn.functional.normalize(torch.randn(classes, dim))).min()
        for _ in range(20)
    )
    assert spread > chance
    assert spread > 0.65 * center_spacing(classes, dim)


# Recycled buffers: never seen twice, and not hoarded.


CPU = torch.device("cpu")
MEGA = (512, 1024)  # 2 MB of float32


def test_memory_returns_only_when_the_last_view_is_gone():
    recycler = Recycler()
    whole = recycler.empty(MEGA, torch.float32, CPU)
    address = whole.data_ptr()
    row = whole[3].detach()
    array = whole.numpy()
    del whole
    others = [recycler.empty(MEGA, torch.float32, CPU)]
    assert others[0].data_ptr() != address
    del row
    others.append(recycler.empty(MEGA, torch.float32, CPU))
    assert others[1].data_ptr() != address
    del array
    gc.collect()
    assert recycler.empty(MEGA, torch.float32, CPU).data_ptr() == address


# Rounding at random, and centers in bfloat16 that learn by it.


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
