"""Retrieval against rankings written out one by one, in exact arithmetic, and against a peer."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from arcset.evaluation import retrieval
from arcset.evaluation.bootstrap import identity_weights
from evaluation.pairs.references import WHOLE_ROWS, exact_cosine

KS = (1, 2, 5)


# References: one query, one reference, one rank at a time.


def cosine(x, y):
    return float(np.dot(x, y) / np.sqrt(np.dot(x, x) * np.dot(y, y)))


def rankings(queries, labels, references=None, reference_labels=None, similarity=cosine):
    """For each query that can be answered: its label, whether each rank is right, and R."""
    found = []
    for i, (query, label) in enumerate(zip(queries, labels, strict=True)):
        candidates = []
        for j, reference in enumerate(queries if references is None else references):
            if references is None and j == i:
                continue
            same = (labels if references is None else reference_labels)[j] == label
            candidates.append((-similarity(query, reference), same))
        candidates.sort()  # nearest first; among equals False, the wrong ones, first
        right = [same for _, same in candidates]
        if any(right):
            found.append((label, right, sum(right)))
    return found


def measures_of(right, r, ks):
    values = {}
    for k in ks:
        supported = k <= len(right)
        values[f"recall_at[{k}]"] = float(any(right[:k])) if supported else math.nan
        values[f"precision_at[{k}]"] = sum(right[:k]) / k if supported else math.nan
    values["r_precision"] = sum(right[:r]) / r
    precisions = [sum(right[:rank]) / rank for rank in range(1, r + 1) if right[rank - 1]]
    values["map_at_r"] = sum(precisions) / r
    return values


def reference_measures(found, ks=KS):
    each = [measures_of(right, r, ks) for _, right, r in found]
    return {name: sum(values[name] for values in each) / len(each) for name in each[0]}


@given(data=st.data(), cut=st.integers(0, 3), shift=st.integers(-1, 1))
def test_equals_rankings_in_exact_arithmetic(data, cut, shift):
    """Among all others, or with a cut among given references; many cosines are equal."""
    rows = data.draw(st.lists(WHOLE_ROWS, min_size=cut + 2, max_size=14))
    labels = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    queries, references = (rows, labels), (None, None)
    if cut:
        queries = rows[:cut], labels[:cut]
        references = rows[cut:], [label + shift for label in labels[cut:]]
    expected = rankings(*queries, *references, similarity=exact_cosine)
    assume(expected)
    options = {"references": references[0], "reference_labels": references[1]}
    result = retrieval(*queries, ks=KS, **options)
    measures = reference_measures(expected)
    assert result.measures() == pytest.approx(measures, abs=1e-12, rel=0, nan_ok=True)
    left_out = len(queries[0]) - len(expected)
    assert (result.queries, result.left_out) == (len(expected), left_out)
    assert result.references == len(rows) - cut


def sample(count, classes, dim, seed=0, spread=1.0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, count)
    rows = generator.normal(size=(classes, dim))[labels]
    return rows + spread * generator.normal(size=(count, dim)), labels


@pytest.mark.parametrize("classes", [3, 40])
@pytest.mark.parametrize("given_references", [False, True])
def test_equals_the_peer(classes, given_references):
    """It searches by Euclidean distance: on unit rows that orders as the cosine does.

    In float32, so with more rows some would trade places there.
    """
    rows, labels = sample(150, classes, 16, spread=1.5)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    include = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    peer = AccuracyCalculator(include=include, k=None, device=torch.device("cpu"))
    sides = (rows[:50], labels[:50], rows[50:], labels[50:])
    if not given_references:
        sides = (rows, labels, None, None)
    theirs = peer.get_accuracy(*sides)
    ours = retrieval(*sides[:2], references=sides[2], reference_labels=sides[3])
    assert ours.recall_at[1] == ours.precision_at[1]
    assert ours.recall_at[1] == pytest.approx(theirs["precision_at_1"], abs=1e-7)
    assert ours.r_precision == pytest.approx(theirs["r_precision"], abs=1e-12)
    assert ours.map_at_r == pytest.approx(theirs["mean_average_precision_at_r"], abs=1e-12)


def test_a_k_beyond_the_references_is_not_a_number_and_marked():
    result = retrieval([[1, 0], [1, 1], [0, 1]], [4, 4, 9], ks=[2, 3], intervals=True, draws=20)
    assert result.recall_at[2] == 1.0
    assert math.isnan(result.recall_at[3])
    assert math.isnan(result.precision_at[3])
    assert math.isnan(result.interval("recall_at", 3).low)
    assert "fewer references" in result.table()
    assert json.loads(json.dumps(result.json()))["recall_at"] == {"2": 1.0, "3": None}


def test_intervals_draw_the_identities_of_the_queries():
    """Each draw written out: every query as often as its identity was drawn."""
    rows, labels = sample(60, 9, 5)
    labels[0] = 77  # alone in its class
    found = rankings(rows, labels)
    result = retrieval(rows, labels, ks=KS, intervals=True, draws=40, seed=3)
    distinct = sorted(set(labels.tolist()))
    weights = identity_weights(len(distinct), 40, 3)
    assert result.replicates.identities == len(distinct)
    for draw in range(40):
        drawn = []
        for entry in found:
            drawn += [entry] * int(weights[draw][distinct.index(entry[0])])
        for name, value in reference_measures(drawn).items():
            assert result.replicates.values[name][draw] == pytest.approx(value, abs=1e-12)


MEMORY = """
import resource, numpy as np
from arcset.evaluation import retrieval
generator = np.random.default_rng(0)
rows = generator.standard_normal((50_000, 512), dtype=np.float32)
labels = np.arange(50_000) % CLASSES
retrieval(rows[:2000], labels[:2000] % 50, intervals=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
retrieval(rows, labels)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
@pytest.mark.parametrize("classes", [5000, 10])
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_memory_stays_bounded(classes):
    code = MEMORY.replace("CLASSES", str(classes))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) * 1024 < 500e6
