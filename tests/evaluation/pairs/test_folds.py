"""The protocol of LFW, against the same written out in loops."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arcset.errors import InputError, OptionError
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


cases = st.lists(st.tuples(st.integers(-8, 8), st.booleans(), st.integers(0, 3)), min_size=4)


@given(cases.filter(lambda rows: len({fold for _, _, fold in rows}) > 1))
def test_equals_the_definition(rows):
    """Cosines in eighths, so that many tie."""
    cosines, same, folds = (list(column) for column in zip(*rows, strict=True))
    embeddings, pairs = at_cosines(np.array(cosines) / 8)
    found = fold_accuracy(embeddings, pairs, same, folds=folds)
    accuracies, thresholds = reference([c / 8 for c in cosines], same, folds)
    np.testing.assert_allclose(found.accuracies, accuracies, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.thresholds, thresholds, rtol=0, atol=1e-12)
    count = len(accuracies)
    mean = math.fsum(accuracies) / count
    deviation = math.sqrt(math.fsum((a - mean) ** 2 for a in accuracies) / (count - 1))
    assert found.accuracy == pytest.approx(mean, abs=1e-12)
    assert found.standard_deviation == pytest.approx(deviation, abs=1e-12)
    assert found.standard_error == pytest.approx(deviation / math.sqrt(count), abs=1e-12)


def test_a_number_of_folds_is_consecutive_parts():
    rng = np.random.default_rng(0)
    embeddings, pairs = at_cosines(rng.uniform(-1, 1, 103))
    same = rng.random(103) < 0.5
    sizes = [11, 11, 11, *[10] * 7]
    found = fold_accuracy(embeddings, pairs, same)
    named = fold_accuracy(embeddings, pairs, same, folds=np.repeat(np.arange(10) * 7 - 3, sizes))
    assert found.json() == named.json()
    assert len(found.accuracies) == 10
    tensors = [torch.from_numpy(values) for values in (embeddings, pairs, same)]
    assert fold_accuracy(*tensors, folds=10).json() == found.json()


@pytest.mark.parametrize(
    ("folds", "error", "message"),
    [
        (1, OptionError, "folds=1"),
        (5, OptionError, "folds=5"),
        (2.0, InputError, "folds.*float64"),
        ([0, 1], InputError, r"folds.*\(2,\)"),
        ([3, 3, 3, 3], InputError, "folds.*3"),
    ],
)
def test_bad_folds(folds, error, message):
    embeddings, pairs = at_cosines([0.75, 0.5, 0.75, 0.5])
    with pytest.raises(error, match=message):
        fold_accuracy(embeddings, pairs, [True, False, True, False], folds=folds)
