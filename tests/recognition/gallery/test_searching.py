"""Answers of every kind of gallery are those of the plain reference, under every scoring."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcset import Gallery
from support.galleries import brute_force, unit

SCORINGS = ["max", "mean", "top-2", "top-3"]


def enrolled(path, rows, owners, scoring):
    """An open gallery, and its embeddings by subject."""
    gallery = Gallery.open(path, dim=rows.shape[1], scoring=scoring)
    gallery.enroll_many(owners, embeddings=rows)
    held, names = gallery.labelled()
    assert list(names) == owners
    whose = np.array(owners)
    return gallery, {name: held[whose == name] for name in dict.fromkeys(owners)}


def check(gallery, samples, probes, wanted, scoring):
    """As good as the reference's; and the same subjects, where scores differ beyond rounding."""
    names, scores = gallery.search(probes, wanted)
    assert scores.shape == (len(probes), min(wanted, len(samples)))
    for found, row, probe in zip(names, scores, probes, strict=True):
        expected = brute_force(samples, probe, scoring)
        values = [value for _, value in expected[: len(found)]]
        assert row == pytest.approx(values, abs=1e-12)
        assert [dict(expected)[name] for name in found] == pytest.approx(values, abs=1e-12)
        assert len(set(found)) == len(found)


def test_equal_to_brute_force(location):
    @given(
        seed=st.integers(0, 2**32 - 1),
        count=st.integers(1, 400),
        subjects=st.integers(1, 60),
        dim=st.sampled_from([2, 3, 16]),
        wanted=st.sampled_from([1, 2, 5, 100]),
        scoring=st.sampled_from(SCORINGS),
        coarse=st.booleans(),
    )
    @settings(max_examples=40 if location.kind == "file" else 4)
    def check_one(seed, count, subjects, dim, wanted, scoring, coarse):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(count, dim))
        if coarse:  # many equal cosines
            rows = np.round(rows) + (np.arange(dim) == 0) * 7
        # Few subjects have most of the samples, so that the nearest rows are of one subject.
        owners = (subjects * rng.random(count) ** 3).astype(int).astype(str).tolist()
        gallery, samples = enrolled(location.anew(), rows, owners, scoring)
        with gallery:
            check(gallery, samples, unit(3, dim, seed), wanted, scoring)

    check_one()


@pytest.mark.parametrize("scoring", ["max", "mean", "top-3"])
def test_one_subject_in_front_of_all_others(location, scoring):
    """The nearest 300 samples are of one subject, and five are wanted."""
    rng = np.random.default_rng(0)
    crowd = rng.normal(size=(300, 8)) * 0.01 + np.eye(8)[0]
    rows = np.concatenate([crowd, rng.normal(size=(40, 8))])
    owners = ["crowd"] * 300 + [f"{number}" for number in range(40)]
    gallery, samples = enrolled(location("g"), rows, owners, scoring)
    with gallery:
        for probes in (np.eye(8, dtype=np.float32)[[0]], unit(9, 8, seed=3)):
            check(gallery, samples, probes, 5, scoring)


@pytest.mark.parametrize("scoring", ["max", "mean", "top-3"])
def test_equal_scores_are_ordered_by_age(location, scoring):
    rows = np.tile(unit(1, 8), (80, 1))
    owners = [f"{number}" for number in np.random.default_rng(0).permutation(40)] * 2
    gallery, _ = enrolled(location("g"), rows, owners, scoring)
    with gallery:
        names, scores = gallery.search(rows[:12], 4)
        assert names == [tuple(owners[:4])] * 12
        assert len(set(scores.ravel().tolist())) == 1


@pytest.mark.parametrize("scoring", ["mean", pytest.param("top-3", marks=pytest.mark.long)])
def test_both_kinds_say_the_same(make_location, scoring):
    """To the last digit, alone and among many."""
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.normal(size=(60, 16)), 3, 0) + 0.4 * rng.normal(size=(180, 16))
    owners = [f"{number // 3}" for number in range(180)]
    galleries = [
        enrolled(make_location(kind)("g"), unit_rows(rows), owners, scoring)[0]
        for kind in ("file", "lite")
    ]
    probes = unit(12, 16, seed=2)
    with galleries[0], galleries[1]:
        answers = []
        for gallery in galleries:
            alone = [gallery.search(probe, 5) for probe in probes]
            names, scores = gallery.search(probes, 5)
            assert [name for (name,), _ in alone] == names
            assert np.array_equal(np.concatenate([values for _, values in alone]), scores)
            one = gallery.verify("7", embedding=probes[0], threshold=0.5).cosine
            answers.append((names, scores.tolist(), one))
        assert answers[0] == answers[1]


def unit_rows(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
