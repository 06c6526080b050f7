"""FAR thresholds and covariances of pairs, against loops over pairs of pairs."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arcset.evaluation import threshold_for_far
from arcset.evaluation.calibration.far import pair_spread
from arcset.evaluation.pairs import ImpostorPairs


def impostor_cosines(points, labels):
    units = points / np.linalg.norm(points, axis=1, keepdims=True)
    return {
        (i, j): float(np.float32(round(float(units[i] @ units[j]), 12)))
        for i, j in combinations(range(len(units)), 2)
        if labels[i] != labels[j]
    }


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=12, max_size=20),
    st.sampled_from([0.05, 0.1, 0.29, 0.5, 0.9]),
)
def test_the_threshold_is_the_lowest_that_keeps_the_rate(rows, far):
    points = np.array(rows, dtype=float)
    assume(points.any(axis=1).all())
    labels = np.arange(len(points)) // 2
    cosines = np.array(list(impostor_cosines(points, labels).values()))
    found = threshold_for_far(points, labels, far)
    if found.rough:
        return
    assert found.seen == np.mean(cosines >= found.threshold) <= far
    below = cosines[cosines < found.threshold]
    if len(below):
        assert np.mean(cosines >= below.max()) > far


def test_covariances_are_means_over_pairs_of_pairs():
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 3, 4, 4])
    points = np.random.default_rng(0).normal(size=(10, 2))
    pairs = ImpostorPairs.of(points, labels)
    cosines = impostor_cosines(points, labels)
    spread = pair_spread(pairs, 14)
    accepted = {key: value >= pairs.threshold(14) for key, value in cosines.items()}
    rate = np.mean(list(accepted.values()))
    products = {name: [] for name in ("identity", "sample", "identities", "sample_identity")}
    for first in accepted:
        for second in accepted:
            samples = len(set(first) & set(second))
            shared = len({labels[i] for i in first} & {labels[i] for i in second})
            kind = {(1, 0): "identity", (1, 1): "sample", (2, 0): "identities"}
            kind |= {(2, 1): "sample_identity"}
            if (shared, samples) in kind:
                products[kind[shared, samples]].append(accepted[first] * accepted[second])
    total = len(accepted) * rate * (1 - rate)
    for name, found in products.items():
        covariance = max(np.mean(found) - rate**2, 0)
        assert getattr(spread, name) == pytest.approx(covariance, abs=1e-12)
        total += len(found) * covariance
    assert spread.rate == rate
    assert spread.validation == pytest.approx(total / len(accepted) ** 2, abs=1e-12)


def test_few_kept_pairs_give_the_same_threshold():
    points, labels = np.random.default_rng(5).normal(size=(400, 16)), np.arange(400) // 2
    everything = ImpostorPairs.of(points, labels)
    few = ImpostorPairs.of(points, labels, most=5000)
    kept = len(few.cosines)
    assert 2000 < kept < 6000 < everything.count == few.count
    np.testing.assert_array_equal(few.cosines, everything.cosines[:kept])
    assert few.threshold(1000) == everything.threshold(1000)
    assert few.threshold(kept) == few.floor <= few.cosines[-1]
    assert everything.threshold(everything.count) == -1.0
