"""Identification at every threshold: its curve, and how sure it is."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from arcset.evaluation import identification, paired
from evaluation.search.searches import (
    FPIRS,
    check_drawn_again,
    outcomes,
    random_search,
    rates,
    reference_rank,
    searches,
    supported,
)

# The curve.


@given(searches(least_mated=1, least_unmated=1))
def test_every_point_of_the_curve_is_exact(data):
    found = identification(*data, fpirs=FPIRS)
    mated, unmated = outcomes(*data)
    curve = found.curve
    for threshold, fpir, fnir in zip(curve.threshold, curve.fpir, curve.fnir, strict=True):
        false, reached = rates(mated, unmated, threshold)
        assert (fpir, fnir) == pytest.approx((false, 1 - reached), abs=1e-12)
    assert (curve.fpir[0], curve.fnir[0]) == (0.0, 1.0)
    assert curve.fpir[-1] == 1.0 or curve.fnir[-1] == pytest.approx(1 - reference_rank(mated, 1))
    for fpir in FPIRS:
        if supported(unmated, fpir):
            assert 1 - curve.fnir[curve.fpir <= fpir].min() == pytest.approx(
                found.dir_at_fpir[fpir]
            )


# Intervals.


@given(searches())
@settings(max_examples=10)
def test_replicates_equal_probes_drawn_again(data):
    check_drawn_again(data)


def test_intervals_hold_the_value_and_pair():
    data = random_search(6, people=60, probes=600, dim=8)
    first = identification(*data, intervals=True, draws=300)
    for name, value in first.measures().items():
        low, high = first.interval(name)
        assert math.isnan(value) or low <= value <= high
    noisy = (data[0], data[1], data[2] + 3 * np.random.default_rng(0).normal(size=data[2].shape))
    second = identification(*noisy, data[3], intervals=True, draws=300)
    difference = paired(first, second, "rank", 1)
    assert difference.gain > 0
    assert difference.shown
    same = paired(first, identification(*data, intervals=True, draws=300), "dir_at_fpir[0.1]")
    assert same.interval == (0.0, 0.0)
    assert identification(*data).replicates is None
