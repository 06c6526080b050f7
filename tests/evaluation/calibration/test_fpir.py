"""FPIR against enumeration of every gallery, and the thresholds made from it."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arcset.evaluation import threshold_for_fpir
from arcset.evaluation.calibration.fpir import BetaBinomial, OpenSet
from arcset.evaluation.pairs import ImpostorPairs

LABELS = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4, 4])


def random_points(seed, count=10, dim=3):
    return np.random.default_rng(seed).normal(size=(count, dim))


def cosine_table(points):
    units = points / np.linalg.norm(points, axis=1, keepdims=True)
    return np.array([[float(np.float32(round(float(a @ b), 12))) for b in units] for a in units])


def reference_fpir(points, labels, threshold, gallery, samples):
    """Every probe, every gallery of other identities, every choice of samples: who is accepted?"""
    cosines = cosine_table(points)
    rates = []
    for probe in range(len(points)):
        others = [
            np.flatnonzero(labels == label)
            for label in np.unique(labels)
            if label != labels[probe] and (labels == label).sum() >= samples
        ]
        of_galleries = []
        for chosen in combinations(others, gallery):
            choices = product(*(combinations(rows, samples) for rows in chosen))
            best = [max(cosines[probe, j] for row in rows for j in row) for rows in choices]
            of_galleries.append(np.mean(np.array(best) >= threshold))
        rates.append(np.mean(of_galleries))
    return float(np.mean(rates))


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("gallery", [1, 2, 3])
def test_the_rate_is_the_mean_over_all_galleries(gallery, samples):
    for seed in range(4):
        points = random_points(seed)
        pairs = ImpostorPairs.of(points, LABELS)
        for accepted in (0, 1, 3, 8, 15, 30, pairs.count):
            threshold = pairs.threshold(accepted)
            wanted = reference_fpir(points, LABELS, threshold, gallery, samples)
            assert OpenSet(pairs, accepted, samples).rate(gallery) == pytest.approx(
                wanted, abs=1e-12
            )


def test_both_is_the_chance_that_two_probes_meet_the_same_gallery():
    """With every gallery enumerated; `both` uses all pairs of probes in identities of up to 3."""
    labels = np.repeat(np.arange(8), 2)
    points = random_points(3, 16, 2)
    pairs = ImpostorPairs.of(points, labels)
    cosines = cosine_table(points)
    threshold = pairs.threshold(pairs.whole_ties(12))
    found = []
    for a in range(8):
        others = [b for b in range(8) if b != a]
        for chosen in combinations(others, 2):
            for rows in product(*((2 * b, 2 * b + 1) for b in chosen)):
                hits = cosines[2 * a : 2 * a + 2, list(rows)] >= threshold
                found += [hits.any(axis=1).all()]
    assert OpenSet(pairs, pairs.whole_ties(12)).spread(2).both == pytest.approx(
        np.mean(found), abs=5e-3
    )


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=12, max_size=16))
def test_the_threshold_is_the_lowest_and_splits_no_ties(rows):
    points = np.array(rows, dtype=float)
    assume(points.any(axis=1).all())
    labels = np.arange(len(points)) // 2
    cosines = cosine_table(points)
    found = threshold_for_fpir(points, labels, 0.5, 2)
    if found.rough:
        return
    assert found.seen <= 0.5
    apart = labels[:, None] != labels
    assert found.seen == pytest.approx(
        reference_fpir(points, labels, found.threshold, 2, 1), abs=1e-12
    )
    below = cosines[apart & (cosines < found.threshold)]
    if len(below):  # one tie more would be too many
        assert reference_fpir(points, labels, below.max(), 2, 1) > 0.5 - 1e-12


def test_extrapolation_passes_through_what_was_measured():
    model = BetaBinomial.through(0.002, 0.2, 299)
    assert model.rate(1) == pytest.approx(0.002)
    assert model.rate(299) == pytest.approx(0.2)
    assert model.rate(1500) < 1 - (1 - 0.2) ** (1500 / 299)  # some probes are never accepted
    assert model.slope(300) == pytest.approx(model.rate(300) - model.rate(299), rel=1e-6)
    assert BetaBinomial(0.01, math.inf).rate(2) == pytest.approx(1 - 0.99**2)
    assert BetaBinomial.through(0.0, 0.0, 10).rate(100) == 0.0
    nearly_alike = BetaBinomial.through(1e-4, 0.000599714, 6)  # of a size beyond 1/rounding
    assert nearly_alike.rate(10) == pytest.approx(1e-3, rel=0.01)
    points = np.random.default_rng(5).normal(size=(100, 6))
    found = threshold_for_fpir(points, np.arange(100) // 2, 0.3, 100)
    assert found.extrapolated
    assert found.seen <= 0.3
    assert not threshold_for_fpir(points, np.arange(100) // 2, 0.3, 49).extrapolated
    assert found.curve.at(50).rate == pytest.approx(found.curve.at(49).rate, rel=0.05)


def test_extrapolation_holds_where_probes_hardly_differ():
    """There the logarithms of two Beta functions, of 1e9 and more, would cancel out."""
    alike = BetaBinomial(1e-4, math.inf)
    for size in (1e6, 1e9, 1e12, 1e16):
        model = BetaBinomial.through(1e-4, BetaBinomial(1e-4, size).rate(6), 6)
        for gallery in (1, 6, 10, 1000):
            assert model.rate(gallery) == pytest.approx(alike.rate(gallery), rel=1e-3)
