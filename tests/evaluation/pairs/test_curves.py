"""Rates at their edges, where floating point and ties decide; scores kept and scores counted."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.evaluation.pairs.curves import (
    area,
    equal_error,
    operating_points,
    rejected_at,
    roc,
)
from arcset.evaluation.pairs.ranked import Ranked

HUNDRED = np.arange(100, dtype=np.float32) / 128


def kept(scores):
    return Ranked.sort(np.array(scores, dtype=np.float32))


def counted(scores):
    return Ranked.counted(*np.unique(np.array(scores, dtype=np.float32), return_counts=True))


def tar_at_far(genuine, impostor, far):
    impostor = kept(impostor)
    points = operating_points(kept(genuine), impostor, rejected_at(impostor, [far]))
    return points.tar[0], points.threshold[0]


@pytest.mark.parametrize("percent", range(1, 100))
def test_every_percent_of_a_hundred(percent):
    """k of 100 impostors are accepted at FAR k/100, though 0.29 · 100 is not 29 in float64."""
    tar, threshold = tar_at_far(HUNDRED, HUNDRED, percent / 100)
    assert tar == percent / 100
    assert (threshold <= HUNDRED).sum() == percent
    below, _ = tar_at_far(HUNDRED, HUNDRED, math.nextafter(percent / 100, 0.0))
    assert math.isnan(below) if percent == 1 else below == (percent - 1) / 100


def test_ties_are_accepted_or_rejected_together():
    impostor, genuine = [0.0, 0.5, 0.5, 0.5], [0.25, 0.5, 0.75]
    assert tar_at_far(genuine, impostor, 0.5) == (1 / 3, 0.625)
    assert tar_at_far(genuine, impostor, 0.75) == (1.0, 0.125)


def test_equal_error_lies_on_the_line_between_two_thresholds():
    genuine, impostor = kept([0.2, 0.6, 0.8]), kept([0.1, 0.3])
    # (FAR, FRR) = (0, 1/3) and, one threshold lower, (1/2, 1/3): equal at 1/3.
    assert area(genuine, impostor)[0] == pytest.approx(5 / 6)
    equal = equal_error(genuine, impostor)
    assert equal.rate == pytest.approx(1 / 3)
    # |FAR − FRR| is 1/3 at the higher threshold and 1/6 at the lower.
    assert equal.threshold == pytest.approx(0.25)


coarse = st.lists(st.integers(-8, 8).map(lambda n: n / 8), min_size=1, max_size=30)


@given(coarse, coarse)
def test_counted_scores_are_as_good_as_kept_ones(genuine, impostor):
    several = counted(genuine), counted(impostor)
    single = kept(genuine), kept(impostor)
    assert area(*several) == pytest.approx(area(*single), abs=1e-12)
    assert equal_error(*several) == pytest.approx(equal_error(*single), abs=1e-12)
    rejected = rejected_at(single[1], [0.05, 0.3, 0.5, 1.0])
    np.testing.assert_array_equal(rejected_at(several[1], [0.05, 0.3, 0.5, 1.0]), rejected)
    curves = roc(*several, rejected), roc(*single, rejected)
    for first, second in zip(*(vars(curve).values() for curve in curves), strict=True):
        np.testing.assert_array_equal(first, second)


fine = st.lists(st.integers(-64, 64).map(lambda n: n / 64), min_size=1, max_size=30)


@given(fine, fine)
def test_rounding_moves_auc_and_eer_no_further_than_their_bounds(genuine, impostor):
    exact = kept(genuine), kept(impostor)
    rounded = tuple(counted(np.round(np.multiply(s, 8)) / 8) for s in (genuine, impostor))
    auc, bound = area(*rounded)
    assert abs(auc - area(*exact)[0]) <= bound + 1e-12
    equal = equal_error(*rounded)
    assert abs(equal.rate - equal_error(*exact).rate) <= equal.error + 1e-12


def test_the_bounds_are_reached():
    """Two scores that rounding makes tie: AUC was 1 or 0, and is said to be ½ ± ½."""
    assert area(counted([0.5]), counted([0.5])) == (0.5, 0.5)
    equal = equal_error(counted([0.5]), counted([0.5]))
    assert (equal.rate, equal.error) == (0.5, 0.5)


def test_a_curve_has_few_points_close_together_on_a_logarithmic_axis():
    rng = np.random.default_rng(0)
    genuine = kept(np.clip(rng.normal(0.4, 0.15, 20_000), -1, 1))
    impostor = kept(np.clip(rng.normal(0.0, 0.1, 1_000_000), -1, 1))
    curve = roc(genuine, impostor, rejected_at(impostor, [1e-3]))
    assert len(curve.far) <= 500
    assert (curve.far[0], curve.tar[0], curve.far[-1], curve.tar[-1]) == (0, 0, 1, 1)
    for rising in (curve.far, curve.tar, -curve.threshold):
        assert (np.diff(rising) >= 0).all()
    inside = curve.far[curve.far >= 2e-5]
    assert np.diff(np.log10(inside)).max() < 1 / 20
    assert np.diff(curve.tar).max() < 0.02
    assert 1e-3 in curve.far


def test_a_curve_of_two_pairs():
    curve = roc(kept([0.5]), kept([0.25]), np.array([], dtype=np.float32))
    assert curve.far.tolist() == [0, 0, 1]
    assert curve.tar.tolist() == [0, 1, 1]
    assert curve.threshold.tolist() == [np.nextafter(np.float32(0.5), np.float32(1)), 0.375, -1]
