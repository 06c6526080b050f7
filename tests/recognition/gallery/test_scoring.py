"""Answers are exact under every scoring: compared with all cosines, one by one."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset import OptionError
from arcset.recognition.gallery.index import Index
from arcset.recognition.gallery.scoring import Scoring, nearest_subjects
from support.galleries import brute_force, unit

SCORINGS = ["max", "mean", "top-2", "top-3"]


def filled(rows, owners):
    index = Index(rows.shape[1])
    index.add(np.arange(1, len(rows) + 1), owners, rows)
    return index


def by_subject(rows, owners):
    return {int(one): rows[owners == one] for one in np.unique(owners)}


def check(index, rows, owners, probes, wanted, word):
    subjects, scores = nearest_subjects(index, probes, wanted, Scoring.of(word))
    samples = by_subject(rows, owners)
    assert subjects.shape == scores.shape == (len(probes), min(wanted, len(samples)))
    for number, probe in enumerate(probes):
        expected = brute_force(samples, probe, word)[: subjects.shape[1]]
        assert scores[number] == pytest.approx([value for _, value in expected], abs=1e-14)
        # Where scores differ by more than float64's rounding, the subjects are the same as well.
        values = dict(brute_force(samples, probe, word))
        assert [values[one] for one in subjects[number].tolist()] == pytest.approx(
            [value for _, value in expected], abs=1e-14
        )
        assert len(set(subjects[number].tolist())) == subjects.shape[1]


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 400),
    subjects=st.integers(1, 60),
    dim=st.sampled_from([1, 2, 3, 16]),
    probes=st.sampled_from([1, 3, 12]),
    wanted=st.sampled_from([1, 2, 5, 100]),
    word=st.sampled_from(SCORINGS),
    coarse=st.booleans(),
)
def test_equal_to_brute_force(seed, count, subjects, dim, probes, wanted, word, coarse):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, dim))
    if coarse:  # many equal cosines
        rows = np.round(rows) + (np.arange(dim) == 0) * 7
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    # Few subjects have most of the samples, so that the nearest rows are of one subject.
    owners = 1 + (subjects * rng.random(count) ** 3).astype(np.int64)
    check(filled(rows, owners), rows, owners, unit(probes, dim, seed), wanted, word)


@pytest.mark.parametrize("word", SCORINGS)
@pytest.mark.parametrize("count", [1, 12])
def test_equal_scores_are_ordered_by_age_wherever_they_lie(word, count):
    rows = np.tile(unit(1, 32), (700, 1))
    owners = np.random.default_rng(0).permutation(np.repeat(np.arange(1, 351), 2))
    subjects, scores = nearest_subjects(
        filled(rows, owners), np.tile(rows[:1], (count, 1)), 4, Scoring.of(word)
    )
    assert subjects.tolist() == [[1, 2, 3, 4]] * count
    assert len(set(scores.ravel().tolist())) == 1


@pytest.mark.parametrize("word", SCORINGS)
def test_the_same_alone_and_among_many(word):
    rows, owners = unit(3000, 64), np.random.default_rng(1).integers(1, 900, 3000)
    index, probes = filled(rows, owners), unit(40, 64, seed=2)
    together = nearest_subjects(index, probes, 5, Scoring.of(word))
    alone = [nearest_subjects(index, probe[None], 5, Scoring.of(word)) for probe in probes]
    assert np.array_equal(together[0], np.concatenate([one for one, _ in alone]))
    assert np.array_equal(together[1], np.concatenate([one for _, one in alone]))


def test_an_empty_index_answers_nothing():
    subjects, scores = nearest_subjects(Index(3), unit(2, 3), 5, Scoring.of("max"))
    assert subjects.shape == scores.shape == (2, 0)


@pytest.mark.parametrize(
    "word", ["", "top", "top-0", "top--1", "top-1.5", "MAX", None, 3, "top-3\n"]
)
def test_other_words(word):
    with pytest.raises(OptionError, match=re.escape(repr(word))):
        Scoring.of(word)
