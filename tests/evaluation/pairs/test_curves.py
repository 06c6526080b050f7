"""Rates at their edges, where floating point and ties decide."""

import math

import numpy as np
import pytest

from arcset.evaluation.pairs.curves import area_and_equal_error, tar_at_far

HUNDRED = np.arange(100, dtype=np.float32) / 128


@pytest.mark.parametrize("percent", range(1, 100))
def test_every_percent_of_a_hundred(percent):
    """k of 100 impostors are accepted at FAR k/100, though 0.29 · 100 is not 29 in float64."""
    tar, threshold = tar_at_far(HUNDRED, HUNDRED, percent / 100)
    assert tar == percent / 100
    assert (threshold <= HUNDRED).sum() == percent
    below, _ = tar_at_far(HUNDRED, HUNDRED, math.nextafter(percent / 100, 0.0))
    assert math.isnan(below) if percent == 1 else below == (percent - 1) / 100


def test_ties_are_accepted_or_rejected_together():
    impostor = np.array([0.0, 0.5, 0.5, 0.5], dtype=np.float32)
    genuine = np.array([0.25, 0.5, 0.75], dtype=np.float32)
    assert tar_at_far(genuine, impostor, 0.5) == (1 / 3, 0.625)
    assert tar_at_far(genuine, impostor, 0.75) == (1.0, 0.125)


def test_equal_error_lies_on_the_line_between_two_thresholds():
    genuine = np.array([0.2, 0.6, 0.8], dtype=np.float32)
    impostor = np.array([0.1, 0.3], dtype=np.float32)
    # (FAR, FRR) = (0, 1/3) and, one threshold lower, (1/2, 1/3): equal at 1/3.
    assert area_and_equal_error(genuine, impostor) == pytest.approx((5 / 6, 1 / 3))
