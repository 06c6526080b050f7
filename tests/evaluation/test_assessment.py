"""Everything at once: the parts are those of the functions themselves, and nothing is hidden."""

import json

import numpy as np
import pytest

from arcset import evaluation as ev
from arcset.errors import InputError
from arcset.evaluation.assessment import compare_assessments
from arcset.evaluation.measures import short_name, weighty


def people(identities=30, each=4, noise=0.5, seed=0, first=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(identities), each)
    means = rng.normal(size=(identities, 12))
    return means[labels] + noise * rng.normal(size=(len(labels), 12)), labels + first


@pytest.fixture(scope="module")
def found():
    rows, labels = people()
    return ev.assess(rows, labels, validation=people(60, seed=1, first=1000), draws=200)


def all_pairs(rows, labels):
    """Cosines of all pairs, and which are genuine."""
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    i, j = np.triu_indices(len(rows), 1)
    return np.einsum("pd,pd->p", rows[i], rows[j]), labels[i] == labels[j]


def test_thresholds_from_validation_are_used_as_they_are(found):
    cosines, same = all_pairs(*people())
    for item in found.realized:
        if item.kind == "FAR":
            assert item.threshold == found.thresholds.for_far(item.wanted).threshold
            accepted = cosines >= item.threshold
            assert (item.seen, item.accepted) == (accepted[~same].mean(), accepted[same].mean())
        else:
            assert item.gallery == found.identification.subjects
            rates = found.identification.rates_at(item.threshold)
            assert (item.seen, item.accepted) == rates
    assert {item.kind for item in found.realized} == {"FAR", "FPIR"}


def test_probabilities_are_judged_at_their_prior(found):
    cosines, same = all_pairs(*people())
    weight = np.where(same, 0.5 / same.sum(), 0.5 / (~same).sum())
    right = (weight * (found.thresholds.probability(cosines) - same) ** 2).sum()
    assert found.reliability.brier == pytest.approx(right, abs=1e-4)
    assert "Probabilities" in found.table()


def test_what_the_data_cannot_tell_is_said():
    rows, labels = people(10, 1)
    found = ev.assess(rows, labels, intervals=False)
    assert found.verification is None
    assert "genuine" in found.missing["verification"]
    assert {"identification", "retrieval", "few_shot"} <= found.missing.keys()
    assert found.angles is not None
    assert "Not measured" in found.table()
    alone = ev.assess(np.eye(3), [0, 0, 0], intervals=False)
    assert alone.verification is None
    json.dumps(alone.json(), allow_nan=False)


def test_validation_must_be_other_identities():
    rows, labels = people()
    found = ev.assess(rows, labels, validation=people(), intervals=False)
    assert found.thresholds is None
    assert found.realized == ()
    assert "30 identities are in validation and evaluation alike" in found.missing["thresholds"]


def test_differences_between_two_models():
    rows, labels = people(noise=0.3)
    worse, _ = people(noise=1.5)
    good, poor = (ev.assess(each, labels, draws=300) for each in (rows, worse))
    found = {item.name: item for item in ev.differences(good, poor)}
    assert found["eer"].shown
    assert found["eer"].gain > 0
    assert found["recall_at[1]"].shown
    assert found["intra"].gain > 0  # narrower, in degrees
    assert found["intra"].degrees
    with pytest.raises(InputError, match="identities"):
        ev.differences(good, ev.assess(*people(31, noise=0.3), draws=300))


# Which of several models is said to be better, and when nothing is said.


def assessed(noise, seed, identities=40):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(identities), 5)
    means, drawn = rng.normal(size=(identities, 12)), np.random.default_rng(seed)
    rows = means[labels] + noise * drawn.normal(size=(len(labels), 12))
    return ev.assess(rows, labels, draws=200)


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


def test_of_few_classes_nothing_is_said_to_be_better():
    few = {"good": [assessed(0.1, 1, identities=3)], "poor": [assessed(9, 2, identities=3)]}
    for verdict in compare_assessments(few):
        assert "is better than" not in verdict.sentence()
        assert verdict.sentence().endswith("is shown (3 identities are too few to tell).")
    assert compare_assessments({"good": few["good"]}) == []  # with nothing to be compared with
