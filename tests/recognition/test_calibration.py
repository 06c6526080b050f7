"""A calibration from what a gallery holds."""

import numpy as np
import pytest

from arcset import InputError
from arcset.recognition.calibration import calibrate, most_alike
from arcset.recognition.decisions import decide
from evaluation.calibration.simulation import draw_identities


def gallery(identities, each, seed=0):
    points = draw_identities(np.random.default_rng(seed), identities, each, decay=3.0, spread=0.6)
    names = [f"subject {number:03d}" for number in range(identities) for _ in range(each)]
    return points.reshape(len(names), -1), names


def test_enough_subjects_make_thresholds():
    rows, names = gallery(60, 4)
    made = calibrate(rows, names, made_from={"gallery": "people.db"})
    assert made.made_from["gallery"] == "people.db"
    assert made.made_from["identities"] == 60
    assert made.rates.samples_per_subject == 4
    assert made.calibration.method == "smooth"  # 360 genuine pairs
    assert made.for_fpir(0.1, 30).threshold < made.for_fpir(0.1, 59).threshold


@pytest.mark.parametrize("seeds", [3, pytest.param(20, marks=pytest.mark.long)])
def test_thresholds_hold_for_others_of_the_same_kind(seeds):
    """Of three intervals that hold 95 % none fails, of twenty three at most."""
    held = 0
    for seed in range(10, 10 + 10 * seeds, 10):
        found = calibrate(*gallery(80, 3, seed)).for_fpir(0.1, 40)
        fresh, _ = gallery(40, 3, seed + 1)
        unknown, _ = gallery(300, 1, seed + 2)
        realized = float(((unknown @ fresh.T).max(axis=1) >= found.threshold).mean())
        low, high = found.expect(300)
        held += low <= realized <= high
    assert held >= seeds - 3 * (seeds == 20)


def test_uneven_numbers_of_samples():
    """Half of the subjects have as many samples as is assumed; the others are probes only."""
    rows, names = gallery(60, 5)
    keep = [place for place in range(300) if place % 5 < 1 + (place // 5) % 5]
    made = calibrate(rows[keep], [names[place] for place in keep])
    assert made.rates.samples_per_subject == 3
    assert made.made_from["identities"] == 60


@pytest.mark.parametrize(("identities", "each"), [(1, 5), (80, 1)])
def test_without_a_genuine_or_an_impostor_pair_it_is_refused(identities, each):
    rows, names = gallery(identities, each)
    for labels in (names, names[1:]):
        with pytest.raises(InputError):
            calibrate(rows, labels)


def test_few_subjects_make_rough_thresholds():
    made = calibrate(*gallery(8, 3), samples=9)
    assert made.made_from["identities"] == 8
    assert -1 < decide(0.5, made).threshold < 1


@pytest.mark.long
def test_of_very_many_some_are_drawn():
    made = calibrate(*gallery(2600, 4))
    assert (made.made_from["identities"], made.made_from["samples"]) == (2500, 10_000)
    assert made.made_from["digest"] == calibrate(*gallery(2600, 4)).made_from["digest"]


def test_who_is_enrolled_twice_is_found():
    rows, names = gallery(30, 3)
    names[4] = "twice"  # a second name for subject 001
    found = most_alike(rows, names, least=float(rows[3] @ rows[4]) - 1e-6)
    assert ("subject 001", "twice") in [(one.first, one.second) for one in found]
    cosines = [one.cosine for one in found]
    assert cosines == sorted(cosines, reverse=True)
    assert len({(one.first, one.second) for one in found}) == len(found)
    assert most_alike(rows, names, least=1.0) == ()
