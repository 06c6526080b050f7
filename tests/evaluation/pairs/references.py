"""The definitions of verification, one pair, one threshold, one draw at a time; and test cases."""

import math
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from arcset.evaluation.bootstrap import identity_weights

FARS = (1.0, 0.5, 0.29, 0.1, 0.01)
DRAWN_FARS = (1.0, 0.3, 0.1, 0.01)
#: Rows of length 1 or 2, whose cosines are multiples of 1/2.
EXACT_ROWS = st.one_of(
    st.builds(lambda axis, length: np.eye(4)[axis] * length, st.integers(0, 3), st.just(-2.0)),
    st.lists(st.sampled_from((-1.0, 1.0)), min_size=4, max_size=4),
)
#: The same as tuples of whole numbers, for `exact_cosine`.
WHOLE_ROWS = EXACT_ROWS.map(lambda row: tuple(int(value) for value in row))


def exact_cosine(x, y):
    """cos²θ with the sign of cos θ: it orders pairs as cos θ does, and is a fraction."""
    dot = sum(p * q for p, q in zip(x, y, strict=True))
    return Fraction(dot * abs(dot), sum(p * p for p in x) * sum(q * q for q in y))


def all_pairs(embeddings, labels):
    """Cosine, without the last digits so that ties are ties, sameness and both rows of pairs."""
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    return [
        (round(float(units[i] @ units[j]), 12), labels[i] == labels[j], (i, j))
        for i, j in combinations(range(len(units)), 2)
    ]


def all_scores(embeddings, labels):
    """Cosines of genuine and of impostor pairs."""
    pairs = all_pairs(embeddings, labels)
    return tuple(np.array([s for s, same, _ in pairs if same == kind]) for kind in (True, False))


def weight_from(pairs, threshold):
    """The weight of the pairs that a threshold accepts."""
    return sum(weight for score, weight in pairs if score >= threshold)


def reference(genuine, impostor, fars):
    """AUC, EER and TAR at each FAR of (score, weight) of pairs; NaN where not defined."""
    total, others = (sum(weight for _, weight in pairs) for pairs in (genuine, impostor))
    names = ["auc", "eer", *(f"tar_at_far[{far:g}]" for far in fars)]
    if not total or not others:
        return dict.fromkeys(names, math.nan)
    wins = sum(
        v * w * ((g > i) + 0.5 * (g == i)) for g, v in genuine for i, w in impostor if v and w
    )
    thresholds = [math.inf, *sorted({score for score, _ in genuine + impostor}, reverse=True)]
    points = [
        (weight_from(impostor, t) / others, weight_from(genuine, t) / total) for t in thresholds
    ]
    for (far, tar), (next_far, next_tar) in pairwise(points):  # to where FAR = FRR is crossed
        if next_far >= 1 - next_tar:
            share = (1 - tar - far) / ((next_far - far) + (next_tar - tar))
            eer = far + share * (next_far - far)
            break
    best = [
        max(tar for at, tar in points if at <= far) if 1 / others <= far else math.nan
        for far in fars
    ]
    return dict(zip(names, [wins / (total * others), eer, *best], strict=True))


def at_cosines(cosines):
    """Embeddings and pairs with these cosines, each of two rows of its own."""
    angles = np.arccos(np.array(cosines, dtype=np.float64))
    first = np.tile([1.0, 0.0], (len(angles), 1))
    rows = np.concatenate((first, np.stack((np.cos(angles), np.sin(angles)), axis=1)))
    return rows, np.stack((np.arange(len(angles)), np.arange(len(angles)) + len(angles)), axis=1)


@st.composite
def labelled(draw):
    """Rows of length 1 or 2, so that many cosines tie, and float32 knows them exactly."""
    labels = draw(st.lists(st.integers(0, 3), min_size=3, max_size=14))
    assume(1 < len(set(labels)) < len(labels))
    rows = draw(st.lists(EXACT_ROWS, min_size=len(labels), max_size=len(labels)))
    return np.array(rows, dtype=np.float64), np.array(labels)


def random_case(count=120, dim=8, classes=6, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    points = rng.standard_normal((classes, dim))[labels]
    return points + noise * rng.standard_normal((count, dim)), labels


def check_against_the_definitions(found, genuine, impostor):
    """Verification at `FARS`: its measures, thresholds and curve."""
    assert (found.genuine, found.impostor) == (len(genuine), len(impostor))
    weighted = ([(score, 1) for score in scores] for scores in (genuine, impostor))
    expected = reference(*weighted, FARS)
    assert found.measures() == pytest.approx(expected, abs=1e-12, nan_ok=True)

    def rates(threshold):
        return np.mean(impostor >= threshold), np.mean(genuine >= threshold)

    def gap(threshold):
        """By how much FAR and FRR differ."""
        return abs(sum(rates(threshold)) - 1)

    least = min(map(gap, (math.inf, *genuine, *impostor, -1.0)))
    assert gap(found.eer_threshold) == pytest.approx(least, abs=1e-12)
    for far, threshold in found.threshold_at_far.items():
        tar = found.tar_at_far[far]
        assert math.isnan(threshold) == math.isnan(tar)
        if not math.isnan(threshold):
            assert rates(threshold)[0] <= far
            assert rates(threshold)[1] == pytest.approx(tar)
    for threshold, *point in zip(*vars(found.curve).values(), strict=True):
        assert point == pytest.approx(rates(threshold), abs=1e-12)


def check_draws(found, pairs, numbers, count):
    """Every draw of verification at `DRAWN_FARS`, against the same pairs weighted one by one.

    numbers: of each row its identity, from 0.
    """
    defined = [name for name, value in found.measures().items() if not math.isnan(value)]
    for draw, weights in enumerate(identity_weights(max(numbers) + 1, count, 3)):
        genuine = [(s, weights[numbers[i]]) for s, same, (i, _) in pairs if same]
        impostor = [
            (s, weights[numbers[i]] * weights[numbers[j]]) for s, same, (i, j) in pairs if not same
        ]
        expected = reference(genuine, impostor, DRAWN_FARS)
        for name, values in found.replicates.values.items():
            value = expected[name] if name in defined else math.nan
            assert values[draw] == pytest.approx(value, abs=1e-12, nan_ok=True)
