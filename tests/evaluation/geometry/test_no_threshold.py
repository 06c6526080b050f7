"""The no-threshold finder against all triples, compared one by one in exact arithmetic."""

import json
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from arcset.evaluation import no_threshold
from evaluation.pairs.references import WHOLE_ROWS, exact_cosine

METRICS = ("euclidean", "cosine")


# References: one triple at a time, in whole numbers, so that ties are ties.


def squared(x, y):
    return sum((p - q) ** 2 for p, q in zip(x, y, strict=True))


def nearer(metric, a, c, b):
    """Whether a is nearer to c than to b."""
    if metric == "euclidean":
        return squared(a, c) < squared(a, b)
    return exact_cosine(a, c) > exact_cosine(a, b)


def distance(metric, x, y):
    x, y = np.array(x, float), np.array(y, float)
    if metric == "euclidean":
        return np.linalg.norm(x - y)
    return 1 - x @ y / (np.linalg.norm(x) * np.linalg.norm(y))


def reference(rows, labels, metric):
    count = len(rows)
    triples = [
        (a, b, c)
        for a, b, c in product(range(count), repeat=3)
        if a != b and labels[a] == labels[b] != labels[c]
    ]
    violated = [t for t in triples if nearer(metric, rows[t[0]], rows[t[2]], rows[t[1]])]
    gaps = {
        (a, b, c): distance(metric, rows[a], rows[b]) - distance(metric, rows[a], rows[c])
        for a, b, c in triples
    }
    anchors = {a for a, _, _ in triples}
    share = len({a for a, _, _ in violated}) / len(anchors)
    return share, len(violated) / len(triples), gaps


@st.composite
def labelled_rows(draw, metric):
    """So that many distances and angles are equal, the latter exactly; some rows repeat."""
    row = st.tuples(*[st.integers(-3, 3)] * draw(st.integers(1, 4)))
    if metric == "cosine":
        row = WHOLE_ROWS
    rows = draw(st.lists(row, min_size=3, max_size=12))
    labels = draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    sizes = np.bincount(labels)
    assume((sizes > 0).sum() > 1 and sizes.max() > 1)
    return rows, labels


@pytest.mark.parametrize("metric", METRICS)
@given(data=st.data())
def test_equals_all_triples_one_by_one(metric, data):
    rows, labels = data.draw(labelled_rows(metric))
    found = no_threshold(np.array(rows), labels, metric)
    share, triples_share, gaps = reference(rows, labels, metric)
    assert found.share == share
    assert found.triples_share == triples_share
    assert found.triples == len(gaps)
    assert gaps[found.worst] == pytest.approx(max(gaps.values()), abs=1e-6)
    assert found.same_distance - found.other_distance == pytest.approx(gaps[found.worst], abs=1e-6)
    assert found.found == (share > 0)


def test_near_duplicates_are_told_apart():
    """1e-9 apart at a distance of 1: the squares differ by 1e-18, below the rounding of 1."""
    found = no_threshold([[0.0], [2e-9], [1e-9], [1.0]], [0, 0, 1, 1])
    assert found.share == 0.75
    assert found.worst[:2] == (2, 3)


def test_takes_tensors_and_says_what_it_found():
    rows = torch.tensor([[0.0], [3.0], [4.0], [9.0]], dtype=torch.bfloat16, requires_grad=True)
    found = no_threshold(rows, torch.tensor([0, 0, 1, 1]))
    assert json.loads(json.dumps(found.json()))["worst"] == [2, 3, 1]
    assert "50.0000%" in found.table()
