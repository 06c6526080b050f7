"""The silhouette against scikit-learn's, and where that loses digits."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

from arcset.evaluation import silhouette

METRICS = ("euclidean", "cosine")


@st.composite
def labelled_rows(draw):
    """Few whole numbers, so that some rows repeat, and some classes have one sample.

    Their distances are exact, also in scikit-learn, which takes them from squares.
    """
    dim = draw(st.integers(1, 4))
    rows = draw(st.lists(st.tuples(*[st.integers(-3, 3)] * dim), min_size=3, max_size=12))
    labels = draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    assume(1 < len(set(labels)) < len(labels))
    return rows, labels


@given(data=labelled_rows())
def test_equals_the_peer_where_rows_repeat(data):
    rows, labels = data
    found = silhouette(np.array(rows), labels)
    assert found == pytest.approx(silhouette_score(rows, labels), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("count", "classes"), [(400, 3), (400, 150)])
def test_equals_the_peer(metric, count, classes):
    generator = np.random.default_rng(classes)
    labels = generator.integers(0, classes, count)
    rows = generator.normal(size=(classes, 20))[labels] + generator.normal(size=(count, 20))
    rows += 3.0
    expected = silhouette_score(rows, labels, metric=metric)
    assert silhouette(rows, labels, metric) == pytest.approx(expected, abs=1e-12)
    order = generator.permutation(count)
    moved = silhouette(torch.from_numpy(rows[order]), 5 - 3 * labels[order], metric)
    assert moved == pytest.approx(expected, abs=1e-12)


def test_near_duplicates_far_from_the_origin_keep_their_digits():
    """Pairs 2⁻²⁰ apart, 2⁻¹⁸ from the next class, at 2¹⁰: |p|² + |q|² − 2p·q would be noise."""
    step = 2.0**-20
    rows = [[1024.0 + place * step, 7.0] for place in (0, 1, 4, 5)] + [[-1024.0, 7.0]]
    labels = [0, 0, 1, 1, 2]
    assert silhouette(rows, labels) == pytest.approx(4 * 47 / 63 / 5, abs=1e-12)
