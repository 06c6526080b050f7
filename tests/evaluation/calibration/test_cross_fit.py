"""With few identities thresholds are made from all, and tried on a part that took none in them."""

import numpy as np
import pytest

from arcset.evaluation import assess
from evaluation.calibration.simulation import draw_identities


def few(seed, identities=30, each=4):
    points = draw_identities(np.random.default_rng(seed), identities, each, decay=3.0)
    return points.reshape(identities * each, -1), np.repeat(np.arange(identities), each)


def assess_halves(points, labels, border):
    held = labels < border
    validation = points[~held], labels[~held]
    return assess(points[held], labels[held], validation=validation, intervals=False)


def test_few_validation_identities_are_joined_by_those_evaluated():
    found = assess_halves(*few(0), border=15)
    assert found.cross_fitted
    assert found.thresholds.origin == "30 held-out identities"
    assert {item.kind for item in found.realized} == {"FAR", "FPIR"}
    assert found.json()["cross_fitted"] is True
    assert not assess_halves(*few(0, 80), border=20).cross_fitted  # 60 are enough by themselves


def test_what_is_reported_is_of_identities_that_were_left_out():
    """On the identities that made it, the threshold keeps the rate; on others on average, too."""
    seen, same_set = [], []
    for seed in range(12):
        points, labels = few(seed)
        found = assess_halves(points, labels, border=15)
        item = next(one for one in found.realized if (one.kind, one.wanted) == ("FAR", 0.01))
        seen.append(item.seen)
        same_set.append(found.thresholds.for_far(0.01).seen)
    assert max(same_set) <= 0.01 + 1e-9
    assert max(seen) > 0.011
    assert np.mean(seen) == pytest.approx(0.01, rel=0.5)
