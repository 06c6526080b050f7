"""Rates and thresholds for subjects of several images, each scored as a set."""

from itertools import combinations

import numpy as np
import pytest

from arcset.errors import InputError, RunError
from arcset.evaluation import Thresholds, make_thresholds
from arcset.evaluation.calibration.fpir import OpenSet
from arcset.evaluation.calibration.templates import Scoring, TemplateScores

SCORINGS = ("max", "mean", "top-2", "top-3")


def score(cosines, word):
    """As a subject is scored, from a list of cosines."""
    falling = sorted(cosines, reverse=True)
    best = {"max": 1, "mean": len(falling)}.get(word) or int(word[4:])
    return float(np.mean(falling[:best]))


def unit_points(seed, labels, dim=3):
    points = np.random.default_rng(seed).normal(size=(len(labels), dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.mark.parametrize("word", SCORINGS)
def test_a_set_scores_as_a_subject_of_a_gallery_does(word):
    cosines = np.random.default_rng(0).normal(size=(50, 4)).round(1).astype(np.float32)
    scoring = Scoring.of(word)
    for images in (1, 2, 3, 4):
        found = scoring.score_sets(cosines[:, :images])
        wanted = [score(row, word) for row in cosines[:, :images].tolist()]
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        flat = cosines[:, :images].astype(np.float64).ravel()
        subjects = np.repeat(np.arange(50), images)
        np.testing.assert_allclose(scoring.score(flat, subjects)[1], wanted, atol=1e-6)


@pytest.mark.parametrize("word", SCORINGS)
def test_the_rate_is_the_mean_over_all_galleries_of_sets(word):
    """Where every identity has one set or none, every probe and every gallery is enumerated."""
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 3, 3, 3, 4, 4, 4, 5])
    points = unit_points(1, labels)
    drawn = TemplateScores.draw(points, labels, Scoring.of(word), 3)
    assert drawn.count == len(drawn.cosines) == 4 * 11
    for accepted in (2, 9, 20, drawn.count):
        state, threshold = OpenSet(drawn, accepted, 3), drawn.threshold(accepted)
        for gallery in (1, 2, 3):
            rates = []
            for probe, own in zip(points, labels, strict=True):
                others = [label for label in (0, 1, 3, 4) if label != own]
                scores = {b: score(points[labels == b] @ probe, word) for b in others}
                galleries = combinations(others, gallery)
                rates.append(np.mean([max(map(scores.get, g)) >= threshold for g in galleries]))
            assert state.rate(gallery) == pytest.approx(np.mean(rates), abs=1e-12)


def test_sets_are_dealt_from_all_samples_of_an_identity():
    """At most as many as it has samples; the rate is nearly that over all choices."""
    labels = np.repeat(np.arange(60), 6)
    points = unit_points(2, labels, 8)
    drawn = TemplateScores.draw(points, labels, Scoring.of("mean"), 2)
    assert drawn.set_counts.max() <= 6
    assert drawn.set_counts.min() >= 3  # three without a shared sample
    threshold = drawn.threshold(drawn.whole_ties(drawn.count // 20))
    cosines = points @ points.T
    choices = list(combinations(range(6), 2))
    means = cosines.reshape(360, 60, 6)[:, :, choices].mean(axis=3)  # (probes, identities, choices)
    apart = labels[:, None] != np.arange(60)
    wanted = (means >= threshold)[apart].mean()
    found = OpenSet(drawn, int((drawn.cosines >= threshold).sum()), 2).rate(1)
    assert found == pytest.approx(wanted, rel=0.05)


def test_genuine_scores_leave_the_probe_out_of_its_set():
    labels = np.repeat(np.arange(5), 3)
    points = unit_points(3, labels)
    drawn = TemplateScores.draw(points, labels, Scoring.of("mean"), 2)
    cosines = points @ points.T
    possible = {
        round(float(cosines[probe, [a, b]].mean()), 5)
        for probe in range(15)
        for a, b in [[row for row in range(15) if labels[row] == labels[probe] and row != probe]]
    }
    assert {round(float(value), 5) for value in drawn.genuine} <= possible
    assert 5 <= len(drawn.genuine) <= 15


def test_the_file_keeps_them_and_refuses_other_words(tmp_path):
    labels = np.repeat(np.arange(12), 3)
    made = make_thresholds(unit_points(4, labels), labels, scorings=SCORINGS)
    assert {(one.scoring, one.rates.samples_per_subject) for one in made.templates} == {
        ("max", 2), ("max", 3), ("mean", 2), ("mean", 3), ("top-2", 3)
    }  # fmt: skip
    file = tmp_path / "threshold.json"
    made.save(file)
    assert Thresholds.load(file).json() == made.json()
    file.write_text(file.read_text().replace('"top-2"', '"median"'))
    with pytest.raises(RunError, match=r"threshold\.json.*scoring"):
        Thresholds.load(file)


def test_too_few_identities_with_so_many_images_are_refused():
    with pytest.raises(InputError, match=r"\b1\b.*\b3\b"):
        TemplateScores.draw(np.eye(5), [0, 0, 0, 1, 1], Scoring.of("mean"), 3)
