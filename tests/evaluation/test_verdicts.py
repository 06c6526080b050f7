"""Which of several models is said to be better, and when nothing is said."""

import numpy as np
import pytest

from arcset import evaluation
from arcset.evaluation.assessment import compare_assessments
from arcset.evaluation.measures import short_name, weighty


def assessed(noise, seed, identities=40):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(identities), 5)
    means, drawn = rng.normal(size=(identities, 12)), np.random.default_rng(seed)
    rows = means[labels] + noise * drawn.normal(size=(len(labels), 12))
    return evaluation.assess(rows, labels, draws=200)


@pytest.fixture(scope="module")
def verdicts():
    return compare_assessments(
        {
            "good": [assessed(0.4, seed) for seed in (1, 2, 3)],
            "same": [assessed(0.4, seed) for seed in (4, 5, 6)],
            "poor": [assessed(1.6, seed) for seed in (7, 8, 9)],
        }
    )


def test_every_measure_has_a_verdict(verdicts):
    names = [short_name(one.full_name) for one in weighty("headline", "main")]
    assert [verdict.title for verdict in verdicts] == names
    for verdict in verdicts:
        assert verdict.best in ("good", "same")
        assert verdict.differences["poor"].shown
        assert verdict.differences["poor"].gain > 0
        assert "and is better than poor (by " in verdict.sentence()


def test_error_rates_are_best_when_low(verdicts):
    eer = next(verdict for verdict in verdicts if verdict.name == "eer")
    assert eer.means[eer.best] == min(eer.means.values())
    assert eer.between("poor", "good").gain < 0
    assert eer.between(eer.best, "poor") == eer.differences["poor"]


def test_of_few_classes_nothing_is_said_to_be_better():
    few = {"good": [assessed(0.1, 1, identities=3)], "poor": [assessed(9, 2, identities=3)]}
    for verdict in compare_assessments(few):
        assert "is better than" not in verdict.sentence()
        assert verdict.sentence().endswith("is shown (3 identities are too few to tell).")
    assert compare_assessments({"good": few["good"]}) == []  # with nothing to be compared with
