"""Answers of a gallery, and how sure they are."""

import re

import numpy as np
import pytest

from arcset.evaluation import make_thresholds
from arcset.recognition.decisions import (
    RIVALS,
    Candidate,
    WorkingPoint,
    answer,
    decide,
    subject_probabilities,
)
from evaluation.calibration.simulation import draw_identities

POINT = WorkingPoint(threshold=0.5, fpir=0.01, gallery=3)
WORLD = {"decay": 3.0, "spread": 0.8}


@pytest.fixture(scope="module")
def thresholds():
    points = draw_identities(np.random.default_rng(5), 150, 3, **WORLD)
    return make_thresholds(points.reshape(450, -1), np.repeat(np.arange(150), 3))


def ask(cosines, thresholds=None, subjects=None, **options):
    names = [f"s{number}" for number in range(len(cosines))]
    subjects = len(cosines) if subjects is None else subjects
    return answer(names, cosines, point=POINT, thresholds=thresholds, subjects=subjects, **options)


def test_known_unknown_and_the_threshold_itself():
    found = ask([0.75, 0.25])
    assert (found.subject, found.cosine, found.probability) == ("s0", 0.75, None)
    assert found
    assert found.candidates == (Candidate("s0", 0.75), Candidate("s1", 0.25))
    assert re.search(r"s0.*0\.7500.*0\.5000.*0\.01", str(found))
    found = ask([0.4, 0.25])
    assert (found.subject, found.cosine) == (None, 0.4)
    assert not found
    assert re.search(r"unknown.*s0.*0\.4000.*0\.5000.*0\.01", str(found))
    assert ask([0.5]).subject == "s0"
    assert ask([np.nextafter(0.5, 0)]).subject is None
    rounded = ask([1.0000001, -1.0000001])
    assert [one.cosine for one in rounded.candidates] == [1.0, -1.0]
    nobody = ask([])  # an empty gallery
    assert (nobody.subject, nobody.reason, nobody.json()["cosine"]) == (None, "empty gallery", None)


def test_only_those_wanted_are_listed_and_the_rest_still_counts(thresholds):
    cosines = np.linspace(0.7, 0.2, RIVALS).tolist()
    many, one = ask(cosines, thresholds), ask(cosines, thresholds, candidates=1)
    assert len(many.candidates) == RIVALS
    assert len(one.candidates) == 1
    assert many.probability == one.probability


def test_probabilities_are_shares_of_one(thresholds):
    found = subject_probabilities([0.9, 0.8, 0.1], thresholds, subjects=3)
    assert found == sorted(found, reverse=True)
    assert sum(found) < 1
    assert subject_probabilities([], thresholds, subjects=0) == []
    # Half of the probes show the one subject: that is a pair at the prior ½.
    alone = subject_probabilities([0.6], thresholds, 1)[0]
    assert alone == pytest.approx(thresholds.probability(0.6))
    # The same cosine says less in a larger gallery.
    sure = [subject_probabilities([0.4], thresholds, count)[0] for count in (1, 10, 100, 1000)]
    assert sure == sorted(sure, reverse=True)
    assert sure[-1] < sure[0] / 2


def test_an_answer_says_for_what_its_probability_holds_and_where_it_is_below_one_half(thresholds):
    lax = WorkingPoint.by_hand(-1)
    for cosine, accepted_in_doubt in ((0.2, True), (0.9, False)):
        pair = decide(cosine, thresholds, threshold=-1)
        match = answer(["a"], [cosine], point=lax, thresholds=thresholds, subjects=40)
        for found in (pair, match):
            assert bool(found.note) == accepted_in_doubt == (found.probability < 0.5)
            assert ("wrong" in str(found)) == accepted_in_doubt
            assert f"{found.probability:.3f}" in str(found)
            assert "prior 0.5" in str(found)
            assert found.json()["prior"] == 0.5
        assert match.json()["subjects"] == 40
        assert "among 40" in str(match)
    refused = ask([0.2], thresholds, subjects=40)
    assert not refused.note
    assert "among 40" in str(refused)
    assert (ask([0.9]).prior, decide(0.9, None).prior) == (None, None)


def test_probabilities_keep_what_they_say(thresholds):
    """Half of the probes are of the gallery's identities. Fresh identities, fifty galleries."""
    rng = np.random.default_rng(11)
    said, right, pair = [], [], []
    for _ in range(50):
        points = draw_identities(rng, 80, 2, **WORLD)  # 40 enrolled with one sample, 40 unknown
        probes, enrolled = points[:, 1], points[:40, 0]
        cosines = probes @ enrolled.T  # (80, 40)
        for truth, row in enumerate(cosines):
            order = np.argsort(-row)[:RIVALS]
            said.append(subject_probabilities(row[order].tolist(), thresholds, 40)[0])
            pair.append(thresholds.probability(float(row[order[0]])))
            right.append(order[0] == truth)
    said, right, pair = np.array(said), np.array(right), np.array(pair)
    for low, high in [(0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.01)]:
        within = (said >= low) & (said < high)
        assert within.sum() > 100
        assert right[within].mean() == pytest.approx(said[within].mean(), abs=0.15)
    # Each pair looked at alone would be much too sure.
    assert np.mean((said - right) ** 2) < 0.8 * np.mean((pair - right) ** 2)
