"""The protocol of LFW, against the same written out in loops."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.errors import OptionError
from arcset.evaluation import fold_accuracy
from evaluation.pairs.references import at_cosines


def reference(scores, same, folds):
    """Every fold at the highest of the thresholds that are right most often on the others."""
    accuracies, thresholds = [], []
    for fold in sorted(set(folds)):
        train = [(s, y) for s, y, f in zip(scores, same, folds, strict=True) if f != fold]
        test = [(s, y) for s, y, f in zip(scores, same, folds, strict=True) if f == fold]
        distinct = sorted({s for s, _ in train})
        candidates = [-1.0]
        candidates += [(low + high) / 2 for low, high in pairwise(distinct)]
        candidates.append(distinct[-1] + 2**-22)
        best = max(candidates, key=lambda t: (sum((s >= t) == y for s, y in train), t))
        accuracies.append(sum((s >= best) == y for s, y in test) / len(test))
        thresholds.append(best)
    return accuracies, thresholds


@given(
    st.lists(st.tuples(st.integers(-8, 8), st.booleans()), min_size=4, max_size=20),
    st.integers(2, 4),
)
def test_equals_the_definition(rows, count):
    """Cosines in eighths, so that many tie; consecutive parts that differ by one pair at most."""
    cosines, same = (list(column) for column in zip(*rows, strict=True))
    folds = [fold for fold in range(count) for _ in range((len(rows) + count - 1 - fold) // count)]
    embeddings, pairs = at_cosines(np.array(cosines) / 8)
    found = fold_accuracy(embeddings, pairs, same, folds=count)
    accuracies, thresholds = reference([c / 8 for c in cosines], same, folds)
    np.testing.assert_allclose(found.accuracies, accuracies, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.thresholds, thresholds, rtol=0, atol=1e-12)
    mean = math.fsum(accuracies) / count
    deviation = math.sqrt(math.fsum((a - mean) ** 2 for a in accuracies) / (count - 1))
    assert found.accuracy == pytest.approx(mean, abs=1e-12)
    assert found.standard_deviation == pytest.approx(deviation, abs=1e-12)
    assert found.standard_error == pytest.approx(deviation / math.sqrt(count), abs=1e-12)


@pytest.mark.parametrize("folds", [1, 5, 2.0])
def test_bad_folds(folds):
    embeddings, pairs = at_cosines([0.75, 0.5, 0.75, 0.5])
    with pytest.raises(OptionError, match=f"folds.*{folds}"):
        fold_accuracy(embeddings, pairs, [True, False, True, False], folds=folds)
