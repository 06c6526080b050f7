"""Answers of both kinds of galleries are those of the plain reference, under every scoring."""

import numpy as np
import pytest

from arcset import Gallery
from support.galleries import brute_force, unit

SCORINGS = ["max", "mean", "top-3"]
ONE_SCORING = ["mean", *(pytest.param(word, marks=pytest.mark.long) for word in ("max", "top-3"))]


def enrolled(path, rows, owners, scoring):
    gallery = Gallery.open(path, dim=rows.shape[1], scoring=scoring)
    gallery.enroll_many(owners, embeddings=rows)
    held, names = gallery.labelled()
    assert list(names) == owners
    whose = np.array(owners)
    return gallery, {name: held[whose == name] for name in dict.fromkeys(owners)}


def normal(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("scoring", SCORINGS)
def test_one_subject_in_front_of_all_others(place, scoring):
    """The nearest 300 samples are of one subject, and five are wanted."""
    rng = np.random.default_rng(0)
    crowd = rng.normal(size=(300, 8)) * 0.01 + np.eye(8)[0]
    rows = normal(np.concatenate([crowd, rng.normal(size=(40, 8))]))
    owners = ["crowd"] * 300 + [f"{number}" for number in range(40)]
    gallery, samples = enrolled(place("g"), rows, owners, scoring)
    with gallery:
        for probes in (np.eye(8, dtype=np.float32)[[0]], unit(9, 8, seed=3)):
            names, scores = gallery.search(probes, 5)
            for one, row, probe in zip(names, scores, probes, strict=True):
                expected = brute_force(samples, probe, scoring)[:5]
                assert list(one) == [name for name, _ in expected]
                assert row == pytest.approx([value for _, value in expected], abs=1e-12)


@pytest.mark.parametrize("scoring", SCORINGS)
def test_equal_scores_are_ordered_by_age(place, scoring):
    rows = np.tile(unit(1, 8), (80, 1))
    owners = [f"{number}" for number in np.random.default_rng(0).permutation(40)] * 2
    gallery, _ = enrolled(place("g"), rows, owners, scoring)
    with gallery:
        names, scores = gallery.search(rows[:1], 4)
        assert names == [tuple(owners[:4])]
        assert len(set(scores.ravel().tolist())) == 1


@pytest.mark.parametrize("scoring", ONE_SCORING)
def test_both_kinds_say_the_same(make_place, scoring):
    """To the last digit, alone and among many."""
    rng = np.random.default_rng(1)
    rows = normal(np.repeat(rng.normal(size=(60, 16)), 3, 0) + 0.4 * rng.normal(size=(180, 16)))
    owners = [f"{number // 3}" for number in range(180)]
    one, _ = enrolled(make_place("file")("g"), rows, owners, scoring)
    other, _ = enrolled(make_place("lite")("g"), rows, owners, scoring)
    with one, other:
        probes = unit(12, 16, seed=2)
        names, scores = one.search(probes, 5)
        found, values = other.search(probes, 5)
        assert names == found
        assert np.array_equal(scores, values)
        alone = [other.search(probe, 5) for probe in probes]
        assert [name for (name,), _ in alone] == names
        assert np.array_equal(np.concatenate([value for _, value in alone]), scores)
        said = one.verify("7", embedding=probes[0], threshold=0.5).cosine
        assert other.verify("7", embedding=probes[0], threshold=0.5).cosine == said
