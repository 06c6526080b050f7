"""The paper's angles against sums over classes and samples written out one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.evaluation import angle_samples, angles
from arcset.evaluation.bootstrap import identity_weights

# References: one class, one sample, one pair at a time.


def unit(x):
    x = np.asarray(x, dtype=np.float64)
    return x / np.sqrt((x * x).sum())


def degrees(x, y):
    """Kahan's formula for unit vectors, precise for small angles and for those near 180°."""
    return math.degrees(2 * math.atan2(np.linalg.norm(x - y), np.linalg.norm(x + y)))


def mean_directions(rows, labels):
    return {
        label: unit(sum(unit(x) for x, y in zip(rows, labels, strict=True) if y == label))
        for label in sorted(set(labels))
    }


def smallest(directions):
    """For each key the smallest angle to the direction of another key."""
    return {
        key: min(degrees(x, y) for other, y in directions.items() if other != key)
        for key, x in directions.items()
    }


def reference(rows, labels, centers=None, center_labels=None, weights=None):
    """The four angles; with weights, each class counted so often."""
    rows, labels = list(rows), [int(label) for label in labels]
    means = mean_directions(rows, labels)
    weight = weights or dict.fromkeys(means, 1)
    found = {"w_ec": math.nan, "w_inter": math.nan, "intra": math.nan, "inter": math.nan}
    intra = []
    for x, y in zip(rows, labels, strict=True):
        if labels.count(y) > 1:
            intra += [degrees(unit(x), means[y])] * weight[y]
    found["intra"] = sum(intra) / len(intra) if intra else math.nan
    if len(means) > 1:
        inter = []
        for label, angle in smallest(means).items():
            inter += [angle] * weight[label]
        found["inter"] = sum(inter) / len(inter)
    if centers is not None:
        names = range(len(centers)) if center_labels is None else center_labels
        directions = {int(name): unit(w) for name, w in zip(names, centers, strict=True)}
        w_ec, w_inter = [], []
        for label in means:
            if label in directions:
                w_ec += [degrees(directions[label], means[label])] * weight[label]
        if len(directions) > 1:
            for label, angle in smallest(directions).items():
                w_inter += [angle] * weight.get(label, 1)
        found["w_ec"] = sum(w_ec) / len(w_ec) if w_ec else math.nan
        found["w_inter"] = sum(w_inter) / len(w_inter) if w_inter else math.nan
    return found


def assert_close(result, expected):
    """Relative to 180 degrees."""
    assert result.measures() == pytest.approx(expected, abs=2e-10, rel=1e-12, nan_ok=True)


def sample(count, classes, dim, seed=0, spread=0.7):
    generator = np.random.default_rng(seed)
    labels = np.concatenate((np.arange(classes), generator.integers(0, classes, count - classes)))
    rows = generator.normal(size=(classes, dim))[labels]
    return rows + spread * generator.normal(size=(count, dim)), labels


@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(1, 12),
    dim=st.integers(2, 6),
    many=st.integers(1, 15),
    named=st.booleans(),
)
def test_equals_the_definition(seed, classes, dim, many, named):
    rows, labels = sample(3 * classes, classes, dim, seed)
    generator = np.random.default_rng(seed + 1)
    centers = generator.normal(size=(many, dim))
    names = generator.choice(20, size=many, replace=False) if named else None
    result = angles(rows, labels, centers, center_labels=names)
    assert_close(result, reference(rows, labels, centers, names))
    assert_close(angles(rows, labels), reference(rows, labels))


@pytest.mark.parametrize("apart", [1e-2, 1e-4, 1e-6])
def test_nearly_parallel_directions_keep_their_digits(apart):
    generator = np.random.default_rng(0)
    rows = np.array([1.0, 2.0, -1.0, 0.5]) + apart * generator.normal(size=(30, 4))
    result = angles(rows, np.arange(30), rows)
    expected = reference(rows, np.arange(30))
    # Normalizing moves a row by 1e-16.
    assert result.inter == pytest.approx(expected["inter"], rel=1e-9, abs=1e-12)
    assert result.w_inter == pytest.approx(expected["inter"], rel=1e-9, abs=1e-12)
    assert result.w_ec == 0.0


def test_centers_of_other_classes():
    rows, labels = sample(20, 4, 5)
    result = angles(rows, labels, np.eye(5), center_labels=[9, 1, 7, 3, 8])
    assert (result.centers, result.matched) == (5, 2)
    assert "W-EC over the 2 classes that have a center" in result.table()
    assert result.w_inter == pytest.approx(90.0)
    none = angles(rows, labels + 100, np.eye(5))
    assert math.isnan(none.w_ec)
    assert none.w_inter == pytest.approx(90.0)
    assert "no class has a center" in none.table()


def test_intervals_weigh_classes_as_often_as_drawn():
    rows, labels = sample(40, 7, 4)
    labels = labels * 2
    centers = np.random.default_rng(5).normal(size=(10, 4))  # of the labels 0 … 9
    result = angles(rows, labels, centers, intervals=True, draws=30, seed=2)
    weights = identity_weights(7, 30, 2)
    for draw in range(30):
        drawn = {2 * number: int(weight) for number, weight in enumerate(weights[draw])}
        for name, value in reference(rows, labels, centers, weights=drawn).items():
            found = result.replicates.values[name][draw]
            assert found == pytest.approx(value, abs=1e-9, nan_ok=True)
    assert result.replicates.identities == 7


@given(seed=st.integers(0, 10**6), classes=st.integers(2, 6))
def test_angles_of_samples_for_histograms(seed, classes):
    rows, labels = sample(20, classes, 4, seed)
    order = np.random.default_rng(seed).permutation(20)
    rows, labels = rows[order], labels[order]
    own, other = angle_samples(rows, labels)
    means = mean_directions(rows, labels.tolist())
    for i, (x, y) in enumerate(zip(rows, labels.tolist(), strict=True)):
        expected = degrees(unit(x), means[y]) if (labels == y).sum() > 1 else math.nan
        assert own[i] == pytest.approx(expected, abs=1e-9, nan_ok=True)
        nearest = min(degrees(unit(x), mean) for label, mean in means.items() if label != y)
        assert other[i] == pytest.approx(nearest, abs=1e-9)
    assert np.nanmean(own) == pytest.approx(angles(rows, labels).intra, abs=1e-10)
