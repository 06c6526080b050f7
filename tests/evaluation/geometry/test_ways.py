"""How distances are computed today: in blocks, by bounds that rule pairs out, in two precisions.

All of this goes with the blocks and bounds; what the measures come to is held by the other tests
here and by the recorded measures of tests/contract.
"""

import importlib
from unittest import mock

import numpy as np
import pytest
from hypothesis import given

from arcset.evaluation import no_threshold
from arcset.evaluation.geometry import groups
from arcset.evaluation.geometry.dunn import farthest_within, nearest_between
from evaluation.geometry import test_dunn, test_no_threshold

pytestmark = pytest.mark.long

pairwise = importlib.import_module("arcset.evaluation.geometry.dunn")
distance_rows = importlib.import_module("arcset.evaluation.geometry.no_threshold")


def extremes(rows, numbers):
    """The same two distances from the differences of all pairs."""
    distances = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    same = numbers[:, None] == numbers
    return distances[~same].min(), distances[same].max()


@pytest.mark.parametrize("spread", [1.0, 1e-6, 1e-9])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
@pytest.mark.parametrize("block", [pairwise.BLOCK_ROWS, 64])
def test_near_coincidences_far_from_the_origin(offset, spread, block):
    """Several clumps, far apart compared with their width: the product form alone fails here."""
    rng = np.random.default_rng(1)
    clumps = rng.standard_normal((3, 24))[rng.integers(0, 3, 500)]
    rows = offset + clumps + spread * rng.standard_normal((500, 24))
    numbers = np.sort(rng.integers(0, 5, 500))
    nearest, farthest = extremes(rows, numbers)
    with mock.patch.object(pairwise, "BLOCK_ROWS", block):
        assert nearest_between(rows, numbers) == pytest.approx(nearest, rel=1e-12)
        assert farthest_within(rows, numbers) == pytest.approx(farthest, rel=1e-12)


def test_one_outlier():
    rng = np.random.default_rng(2)
    rows, numbers = rng.standard_normal((300, 16)), np.arange(300) // 75
    rows[100] = 1e9
    nearest, farthest = extremes(rows, numbers)
    assert nearest_between(rows, numbers) == pytest.approx(nearest, rel=1e-12)
    assert farthest_within(rows, numbers) == pytest.approx(farthest, rel=1e-12)


@pytest.mark.parametrize("crowded", [1, 10**9], ids=["one-by-one", "whole-block"])
def test_pairs_that_the_bound_cannot_rule_out(crowded):
    """Both ways of computing open pairs again give the same."""
    rng = np.random.default_rng(3)
    rows = np.tile(rng.standard_normal((2, 8)), (40, 1)) + 1e-9 * rng.random((80, 8))
    numbers = np.repeat([0, 1], 40)
    nearest, farthest = extremes(rows, numbers)
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


@pytest.mark.parametrize(("between", "within"), test_dunn.VARIANTS)
def test_small_blocks_of_classes(between, within):
    small = (
        mock.patch.object(pairwise, "BLOCK_ROWS", 3),
        mock.patch.object(pairwise, "CHUNK", 2),
        mock.patch.object(groups, "BLOCK", 3),
    )
    with small[0], small[1], small[2]:
        test_dunn.test_euclidean_equals_rational_arithmetic(between, within)
        test_dunn.test_angular_metrics_equal_the_definition(between, within)


@pytest.mark.parametrize("block", [1, 7])
@given(data=test_no_threshold.labelled_rows("euclidean"))
def test_blocks_of_triples_do_not_matter(block, data):
    rows, labels = data
    with mock.patch.object(distance_rows, "BLOCK_DISTANCES", block):
        found = no_threshold(np.array(rows), labels)
    share, triples_share, _ = test_no_threshold.reference(rows, labels, "euclidean")
    assert (found.share, found.triples_share) == (share, triples_share)
