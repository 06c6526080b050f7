"""Nearest and farthest pairs against all differences, computed one by one."""

from unittest import mock

import numpy as np
import pytest

from arcset.evaluation.geometry import pairwise
from arcset.evaluation.geometry.pairwise import farthest_within, nearest_between


def reference(rows, numbers):
    """The same two distances from the differences of all pairs."""
    distances = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    same = numbers[:, None] == numbers
    return distances[~same].min(), distances[same].max()


@pytest.mark.parametrize("spread", [1.0, 1e-6, 1e-9])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
@pytest.mark.parametrize("block", [pairwise.BLOCK, 64])
def test_near_coincidences_far_from_the_origin(offset, spread, block):
    """Several clumps, far apart compared with their width: the product form alone fails here."""
    rng = np.random.default_rng(1)
    clumps = rng.standard_normal((3, 24))[rng.integers(0, 3, 500)]
    rows = offset + clumps + spread * rng.standard_normal((500, 24))
    numbers = np.sort(rng.integers(0, 5, 500))
    nearest, farthest = reference(rows, numbers)
    with mock.patch.object(pairwise, "BLOCK", block):
        assert nearest_between(rows, numbers) == pytest.approx(nearest, rel=1e-12)
        assert farthest_within(rows, numbers) == pytest.approx(farthest, rel=1e-12)


def test_one_outlier():
    rng = np.random.default_rng(2)
    rows, numbers = rng.standard_normal((300, 16)), np.arange(300) // 75
    rows[100] = 1e9
    nearest, farthest = reference(rows, numbers)
    assert nearest_between(rows, numbers) == pytest.approx(nearest, rel=1e-12)
    assert farthest_within(rows, numbers) == pytest.approx(farthest, rel=1e-12)


@pytest.mark.parametrize("crowded", [1, 10**9], ids=["one-by-one", "whole-block"])
def test_pairs_that_the_bound_cannot_rule_out(crowded):
    """Both ways of computing open pairs again give the same."""
    rng = np.random.default_rng(3)
    rows = np.tile(rng.standard_normal((2, 8)), (40, 1)) + 1e-9 * rng.random((80, 8))
    numbers = np.repeat([0, 1], 40)
    nearest, farthest = reference(rows, numbers)
    with mock.patch.object(pairwise, "CROWDED", crowded):
        assert nearest_between(rows, numbers) == pytest.approx(nearest, rel=1e-12)
        assert farthest_within(rows, numbers) == pytest.approx(farthest, rel=1e-12)


def test_repeated_rows_do_not_slow_the_search_down():
    """Ties by the million: each group at two points of an axis, 50 times each."""
    numbers = np.repeat(np.arange(64), 100)
    rows = np.eye(64)[numbers] * np.where(np.arange(6400) % 2, 1.0, 1.125)[:, None]
    with mock.patch.object(pairwise, "_squared", wraps=pairwise._squared) as squared:
        assert nearest_between(rows, numbers) == np.sqrt(2.0)
        assert farthest_within(rows, numbers) == 0.125
    assert sum(len(call.args[0]) for call in squared.call_args_list) < 20_000


def test_without_pairs():
    rows = np.random.default_rng(4).standard_normal((5, 3))
    assert nearest_between(rows, np.zeros(5, dtype=np.intp)) == np.inf
    assert str(farthest_within(rows, np.arange(5))) == "0.0"
