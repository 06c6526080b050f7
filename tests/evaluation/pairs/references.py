"""The definitions of verification, one pair, one threshold, one draw at a time; and test cases."""

import math
from fractions import Fraction
from itertools import pairwise

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
DRAWN = ("auc", "eer", *(f"tar_at_far[{far:g}]" for far in DRAWN_FARS))


def exact_cosine(x, y):
    """cos²θ with the sign of cos θ: it orders pairs as cos θ does, and is a fraction."""
    dot = sum(p * q for p, q in zip(x, y, strict=True))
    return Fraction(dot * abs(dot), sum(p * p for p in x) * sum(q * q for q in y))


def all_scores(embeddings, labels):
    """Cosines of genuine and impostor pairs, without the last digits, so that ties are ties."""
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    genuine, impostor = [], []
    for i in range(len(units)):
        for j in range(i + 1, len(units)):
            score = round(float(units[i] @ units[j]), 12)
            (genuine if labels[i] == labels[j] else impostor).append(score)
    return np.array(genuine), np.array(impostor)


def reference_auc(genuine, impostor):
    wins = sum((g > i) + 0.5 * (g == i) for g in genuine for i in impostor)
    return wins / (len(genuine) * len(impostor))


def falling_thresholds(genuine, impostor):
    return [math.inf, *sorted({*genuine, *impostor}, reverse=True)]


def reference_tar(genuine, impostor, far):
    if far * len(impostor) < 1 - 1e-9:
        return math.nan
    return max(
        float(np.mean(genuine >= threshold))
        for threshold in falling_thresholds(genuine, impostor)
        if np.mean(impostor >= threshold) <= far
    )


def reference_gap(genuine, impostor, threshold):
    """By how much FAR and FRR differ at a threshold."""
    return abs(np.mean(impostor >= threshold) - np.mean(genuine < threshold))


def reference_eer(genuine, impostor):
    """Walk from (FAR, FRR) = (0, 1) to (1, 0), and cut the step that crosses FAR = FRR."""
    points = [
        (
            Fraction(int((impostor >= threshold).sum()), len(impostor)),
            Fraction(int((genuine < threshold).sum()), len(genuine)),
        )
        for threshold in falling_thresholds(genuine, impostor)
    ]
    for (far, frr), (next_far, next_frr) in pairwise(points):
        if next_far >= next_frr:
            share = (frr - far) / ((next_far - far) + (frr - next_frr))
            return float(far + share * (next_far - far))
    raise AssertionError("the walk ends at (1, 0), beyond the crossing")


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
    assert (found.genuine, found.impostor) == (len(genuine), len(impostor))
    assert found.auc == pytest.approx(reference_auc(genuine, impostor), abs=1e-12)
    assert found.eer == pytest.approx(reference_eer(genuine, impostor), abs=1e-12)
    assert reference_gap(genuine, impostor, found.eer_threshold) == pytest.approx(
        min(
            reference_gap(genuine, impostor, t)
            for t in (*falling_thresholds(genuine, impostor), -1.0)
        ),
        abs=1e-12,
    )
    for far in FARS:
        expected = reference_tar(genuine, impostor, far)
        assert found.tar_at_far[far] == pytest.approx(expected, nan_ok=True, abs=1e-12)
        threshold = found.threshold_at_far[far]
        assert math.isnan(threshold) == math.isnan(expected)
        if not math.isnan(threshold):
            assert np.mean(impostor >= threshold) <= far
            assert np.mean(genuine >= threshold) == pytest.approx(expected)
    for threshold, far, tar in zip(*vars(found.curve).values(), strict=True):
        assert far == pytest.approx(np.mean(impostor >= threshold), abs=1e-12)
        assert tar == pytest.approx(np.mean(genuine >= threshold), abs=1e-12)


def weighted_pairs(scores, same, sides, weights):
    """Scores and weights of genuine and of impostor pairs in one draw."""
    genuine, impostor = [], []
    for score, is_same, (a, b) in zip(scores, same, sides, strict=True):
        if is_same:
            genuine.append((score, weights[a]))
        else:
            impostor.append((score, weights[a] * weights[b]))
    return genuine, impostor


def weight_from(pairs, threshold):
    """The weight of the pairs that a threshold accepts."""
    return sum(weight for score, weight in pairs if score >= threshold)


def reference_draw(genuine, impostor, fars):
    """AUC, EER and TAR at each FAR of weighted pairs; None where not defined."""
    total, others = (sum(weight for _, weight in pairs) for pairs in (genuine, impostor))
    if not total or not others:
        return [math.nan] * (2 + len(fars))
    wins = sum(
        v * w * ((g > i) + 0.5 * (g == i)) for g, v in genuine for i, w in impostor if v and w
    )
    thresholds = [math.inf, *sorted({score for score, _ in genuine + impostor}, reverse=True)]
    points = [
        (weight_from(impostor, t) / others, weight_from(genuine, t) / total) for t in thresholds
    ]
    for (far, tar), (next_far, next_tar) in pairwise(points):
        if next_far >= 1 - next_tar:
            share = (1 - tar - far) / ((next_far - far) + (next_tar - tar))
            eer = far + share * (next_far - far)
            break
    best = [
        max(tar for at, tar in points if at <= far) if 1 / others <= far else math.nan
        for far in fars
    ]
    return [wins / (total * others), eer, *best]


def all_sides(embeddings, labels):
    """Score, sameness and both identities of every pair."""
    numbers = np.unique(labels, return_inverse=True)[1]
    found, same, sides = [], [], []
    for i in range(len(labels)):
        for j in range(i + 1, len(labels)):
            genuine, impostor = all_scores(embeddings[[i, j]], labels[[i, j]])
            found.append(float(np.concatenate((genuine, impostor))[0]))
            same.append(labels[i] == labels[j])
            sides.append((numbers[i], numbers[j]))
    return found, same, sides


def check_draws(found, pairs, identities, count):
    """Every draw of verification at `DRAWN_FARS`, against the same pairs weighted one by one."""
    point = found.measures()
    for number, row in enumerate(identity_weights(identities, count, 3)):
        expected = reference_draw(*weighted_pairs(*pairs, row), DRAWN_FARS)
        for name, value in zip(DRAWN, expected, strict=True):
            drawn = found.replicates.values[name][number]
            if np.isnan(point[name]):
                assert np.isnan(drawn)
            else:
                assert drawn == pytest.approx(value, abs=1e-12, nan_ok=True)
