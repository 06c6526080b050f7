"""The Dunn index against slow, obvious references, torchmetrics and a k-d tree."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torchmetrics.clustering import DunnIndex

from arcset.evaluation import dunn_index

BETWEEN = ("centroid", "single")
WITHIN = ("mean_radius", "max_radius", "diameter")
METRICS = ("euclidean", "cosine", "angle")
VARIANTS = [(between, within) for between in BETWEEN for within in WITHIN]
TRIMS = (None, 0.95, 0.75, 0.5, 1.0)


# References: one class, one member, one pair at a time.


def reference(points, labels, trim, between, within, distance, centroid, nearness=None):
    """Numerator and denominator by the definition, with whatever points and distance are given.

    nearness: the distance that members are trimmed by, if it is another one.
    """
    classes = [
        [p for p, label in zip(points, labels, strict=True) if label == wanted]
        for wanted in sorted(set(labels))
    ]
    if trim is not None:
        classes = [trimmed(members, trim, nearness or distance, centroid) for members in classes]

    def apart(a, b):
        if between == "centroid":
            return distance(centroid(a), centroid(b))
        return min(distance(p, q) for p in a for q in b)

    def size(members):
        if within == "diameter":
            return max((distance(p, q) for p, q in combinations(members, 2)), default=0.0)
        radii = [distance(p, centroid(members)) for p in members]
        return max(radii) if within == "max_radius" else sum(radii) / len(radii)

    return min(apart(a, b) for a, b in combinations(classes, 2)), max(map(size, classes))


def trimmed(members, trim, distance, centroid):
    radii = np.array([distance(p, centroid(members)) for p in members])
    limit = np.percentile(radii, 100 * trim) * (1 + 1e-9) + 1e-12
    return [p for p, radius in zip(members, radii, strict=True) if radius <= limit]


def exact_distance(p, q):
    """Rational arithmetic up to the square root: nothing cancels, and ties are ties."""
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(p, q, strict=True)))


def exact_centroid(members):
    return [sum(column) / len(members) for column in zip(*members, strict=True)]


def angle(p, q):
    p, q = np.array(p), np.array(q)
    return 2 * math.atan2(np.linalg.norm(p - q), np.linalg.norm(p + q))


def one_minus_cosine(p, q):
    return 2 * math.sin(angle(p, q) / 2) ** 2


def direction(members):
    mean = np.mean(members, axis=0)
    assume(np.linalg.norm(mean) > 1e-6)
    return mean / np.linalg.norm(mean)


def ratio(apart, size):
    return (math.nan if apart == 0 else math.inf) if size == 0 else apart / size


@st.composite
def labelled(draw):
    """A few points on a coarse grid, so that duplicates and equal distances are common."""
    dim = draw(st.integers(1, 3))
    labels = draw(st.lists(st.integers(-1, 2), min_size=2, max_size=14))
    assume(len(set(labels)) > 1)
    row = st.lists(st.integers(-3, 3), min_size=dim, max_size=dim)
    rows = draw(st.lists(row, min_size=len(labels), max_size=len(labels)))
    return np.array(rows, dtype=np.float64), labels


@pytest.mark.parametrize(("between", "within"), VARIANTS)
def test_euclidean_equals_rational_arithmetic(between, within):
    @given(labelled(), st.sampled_from(TRIMS), st.sampled_from([0, 10**6]), st.booleans())
    def check(data, trim, offset, fine):
        points, labels = data
        points = points * (2.0**-20 if fine else 1.0) + offset  # exact in float64
        exact = [[Fraction(value) for value in row] for row in points.tolist()]
        expected = reference(exact, labels, trim, between, within, exact_distance, exact_centroid)
        found = dunn_index(points, np.array(labels), trim, between, within)
        assert found == pytest.approx(ratio(*expected), rel=1e-9, abs=1e-9, nan_ok=True)

    check()


@pytest.mark.parametrize(("between", "within"), VARIANTS)
def test_angular_metrics_equal_the_definition(between, within):
    @given(labelled(), st.sampled_from(TRIMS), st.sampled_from(["cosine", "angle"]))
    def check(data, trim, metric):
        points, labels = data
        distance = angle if metric == "angle" else one_minus_cosine
        assume(points.any(axis=1).all())
        units = points / np.linalg.norm(points, axis=1, keepdims=True)
        if trim is not None:  # trimming measures from the centroid whatever the variant
            for label in set(labels):
                direction(units[np.array(labels) == label])
        # By angle the order is the same, and small ones are not lost.
        parts = (list(units), labels, trim, between, within, distance, direction)
        apart, size = reference(*parts, nearness=angle)
        assume(size > 1e-6)
        found = dunn_index(points, np.array(labels), trim, between, within, metric)
        assert found == pytest.approx(apart / size, rel=1e-7, abs=1e-7)

    check()


@pytest.mark.parametrize("seed", range(5))
def test_equals_torchmetrics(seed):
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(200, 16, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 7, (200,), generator=generator)
    found = dunn_index(points, labels, trim=None, between="centroid", within="max_radius")
    assert found == pytest.approx(float(DunnIndex(p=2)(points, labels)), rel=1e-12)


def test_tiny_angles_are_precise():
    """Classes 1e-9 apart and 1e-12 wide: 1 − cos would be 0 in float64, arccos 1e-8 or 0."""
    turns = np.array([-1e-12, 1e-12, 1e-9 - 1e-12, 1e-9 + 1e-12])
    points = np.stack((np.cos(turns), np.sin(turns)), axis=1) * [[3.0], [1.0], [7.0], [0.5]]
    labels = [0, 0, 1, 1]
    assert dunn_index(points, labels, metric="angle") == pytest.approx(1e3, rel=1e-3)
    assert dunn_index(points, labels, metric="cosine") == pytest.approx(1e6, rel=1e-3)
    assert dunn_index(points, labels, None, "single", "diameter", metric="angle") == pytest.approx(
        499, rel=1e-3
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("trim", [None, 0.95])
@pytest.mark.parametrize(("between", "within"), VARIANTS)
def test_degenerate_classes(between, within, trim, metric):
    points = np.array([[0.1, 0.3]] * 3 + [[0.7, 0.2]] * 3)
    index = dunn_index(points, [0] * 3 + [1] * 3, trim, between, within, metric)
    assert index == math.inf
    same = dunn_index(points[:3], [0, 0, 1], trim, between, within, metric)
    assert math.isnan(same)
    touching = np.array([[1.0, 0.0], [0.0, 1.0]] * 2)
    assert dunn_index(touching, [0, 0, 1, 1], trim, between, within, metric) == 0.0
    assert dunn_index(points[2:4], [0, 1], trim, between, within, metric) == math.inf


LABELS = [0, 0, 1, 1]
