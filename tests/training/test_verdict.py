"""Which loss is ahead, and of whom that is shown."""

import numpy as np
import pytest

from arcset import evaluation as ev
from arcset.evaluation.measures import short_name, weighty
from arcset.training.verdict import verdicts


def judged(noise, seed, identities=40):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(identities), 5)
    means = rng.normal(size=(identities, 12))
    own = np.random.default_rng(seed)
    return ev.assess(means[labels] + noise * own.normal(size=(len(labels), 12)), labels, draws=200)


@pytest.fixture(scope="module")
def unseen():
    return {
        "good": [judged(0.4, seed) for seed in (1, 2, 3)],
        "same": [judged(0.4, seed) for seed in (4, 5, 6)],
        "poor": [judged(1.6, seed) for seed in (7, 8, 9)],
    }


def test_every_measure_has_a_verdict(unseen):
    found = verdicts(unseen)
    assert [verdict.title for verdict in found] == [
        short_name(one.full_name) for one in weighty("headline", "main")
    ]
    for verdict in found:
        assert verdict.best in ("good", "same")
        assert verdict.differences["poor"].shown
        assert verdict.differences["poor"].gain > 0
        assert "and is better than poor (by " in verdict.sentence()
    auc = found[0]
    other = {"good": "same", "same": "good"}[auc.best]
    assert auc.means[auc.best] >= auc.means[other]
    assert auc.json()["sentence"] == auc.sentence()


def test_of_few_classes_nothing_is_said_to_be_better():
    few = {"good": [judged(0.1, 1, identities=3)], "poor": [judged(9, 2, identities=3)]}
    found = verdicts(few)
    auc = next(verdict for verdict in found if verdict.measure.endswith("auc"))
    assert auc.means["good"] > auc.means["poor"]
    for verdict in found:
        assert "is better than" not in verdict.sentence()
        assert verdict.sentence().endswith("is shown (3 identities are too few to tell).")
        assert verdict.json()["differences"].popitem()[1]["shown"] is False


def test_error_rates_are_best_when_low(unseen):
    eer = next(verdict for verdict in verdicts(unseen) if verdict.measure.endswith("eer"))
    assert eer.means[eer.best] == min(eer.means.values())


def test_between_any_two(unseen):
    auc = next(verdict for verdict in verdicts(unseen) if verdict.measure.endswith("auc"))
    assert auc.between(unseen, "poor", "good").gain < 0
    assert auc.between(unseen, auc.best, "poor") == auc.differences["poor"]


def test_one_loss_alone_has_nothing_to_be_compared_with(unseen):
    assert verdicts({"good": unseen["good"]}) == []
    assert verdicts({}) == []
