"""Rates at their edges, where floating point and ties decide, and the curve through them."""

import math

import numpy as np
import pytest

from arcset.evaluation import verification
from evaluation.pairs.references import at_cosines, random_case

HUNDRED = np.arange(100) / 128


def judged(genuine, impostor, fars=(0.5,)):
    """Verification of pairs with these cosines."""
    rows, pairs = at_cosines([*genuine, *impostor])
    same = np.arange(len(pairs)) < len(genuine)
    return verification(rows, pairs=pairs, same=same, fars=fars)


def test_every_percent_of_a_hundred():
    """k of 100 impostors are accepted at FAR k/100, though 0.29 · 100 is not 29 in float64."""
    fars = [percent / 100 for percent in range(1, 100)]
    below = [math.nextafter(far, 0.0) for far in fars]
    found = judged(HUNDRED, HUNDRED, (*fars, *below))
    for percent, (far, less) in enumerate(zip(fars, below, strict=True), 1):
        assert found.tar_at_far[far] == far
        assert (found.threshold_at_far[far] <= HUNDRED).sum() == percent
        if percent > 1:
            assert found.tar_at_far[less] == (percent - 1) / 100
    assert math.isnan(found.tar_at_far[below[0]])


def test_ties_are_accepted_or_rejected_together():
    found = judged([0.25, 0.5, 0.75], [0.0, 0.5, 0.5, 0.5], (0.5, 0.75))
    assert found.tar_at_far == {0.5: 1 / 3, 0.75: 1.0}
    assert found.threshold_at_far == pytest.approx({0.5: 0.625, 0.75: 0.125}, abs=1e-6)


def test_a_curve_has_few_points_close_together_on_a_logarithmic_axis():
    found = verification(*random_case(count=1200, dim=32, classes=40, noise=1.5), [1e-3])
    curve = found.curve
    assert found.impostor > 500_000
    assert len(curve.far) <= 500
    assert (curve.far[0], curve.tar[0], curve.far[-1], curve.tar[-1]) == (0, 0, 1, 1)
    for rising in (curve.far, curve.tar, -curve.threshold):
        assert (np.diff(rising) >= 0).all()
    inside = curve.far[curve.far >= 2e-5]
    assert np.diff(np.log10(inside)).max() < 1 / 20
    assert np.diff(curve.tar).max() < 0.02
    assert np.abs(curve.far - 1e-3).min() < 1e-5
