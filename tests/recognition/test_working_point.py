"""The threshold follows the gallery."""

import math
import re

import numpy as np
import pytest

from arcset import InputError, OptionError
from arcset.evaluation import make_thresholds
from arcset.recognition.decisions import WorkingPoint, working_point
from evaluation.calibration.simulation import draw_identities


def made(identities=150, each=3, **options):
    points = draw_identities(np.random.default_rng(5), identities, each, decay=3.0, spread=0.6)
    labels = np.repeat(np.arange(identities), each)
    return make_thresholds(points.reshape(len(labels), -1), labels, **options)


@pytest.fixture(scope="module")
def thresholds():
    return made()


def at(thresholds, subjects, **options):
    return working_point(thresholds, subjects=subjects, samples=subjects, **options)


def test_it_is_the_threshold_for_the_rate_and_the_size(thresholds):
    found = at(thresholds, 40, fpir=0.1)
    wanted = thresholds.for_fpir(0.1, 40)
    assert (found.threshold, found.fpir, found.gallery) == (wanted.threshold, 0.1, 40)
    assert not found.extrapolated
    assert not found.note
    assert f"{found.threshold:.4f}" in str(found)


def test_it_rises_as_subjects_are_enrolled_and_falls_as_they_are_removed(thresholds):
    sizes = [1, 2, 5, 10, 20, 50, 100, 149, 300, 1000]
    rising = [at(thresholds, size, fpir=0.2).threshold for size in sizes]
    assert rising == sorted(rising)
    assert rising[-1] > rising[0] + 0.1
    assert at(thresholds, 5, fpir=0.2).threshold == rising[2]
    assert at(thresholds, 0, fpir=0.2).threshold == rising[0]  # an empty one counts as one
    assert at(thresholds, 20, fpir=0.01).threshold > at(thresholds, 20, fpir=0.2).threshold


def test_further_samples_are_further_chances(thresholds):
    single = at(thresholds, 20, fpir=0.1)
    several = working_point(thresholds, subjects=20, samples=60, scoring="max", fpir=0.1)
    assert several.gallery == 60
    assert several.threshold == at(thresholds, 60, fpir=0.1).threshold > single.threshold
    mean = working_point(thresholds, subjects=20, samples=60, scoring="mean", fpir=0.1)
    assert mean == single
    top = working_point(thresholds, subjects=20, samples=60, scoring="top-2", fpir=0.1)
    assert top == several
    # Those that the calibration assumed are not counted again.
    assert working_point(made(60, samples=3), subjects=20, samples=60, fpir=0.2).gallery == 20


def test_beyond_the_calibration_it_says_so(thresholds):
    assert at(thresholds, 150, fpir=0.2).note == ""  # one more than could be tried
    found = at(thresholds, 400, fpir=0.2)
    assert found.extrapolated
    assert re.search(r"\b150\b.*\b400\b", found.note)


def test_a_rate_out_of_reach_says_what_it_would_take():
    thresholds = made(30)
    with pytest.raises(InputError, match=r"FPIR 0\.02\b.*\b20\b.*\b30\b") as error:
        at(thresholds, 20, fpir=0.02)
    said = str(error.value)
    numbers = [float(found.replace(",", "")) for found in re.findall(r"\d[\d.,]*\d|\d", said)]
    lowest = min(number for number in numbers if 0.02 < number < 1)
    assert at(thresholds, 20, fpir=lowest).threshold <= 1  # what it offers, it does
    with pytest.raises(InputError):
        at(thresholds, 20, fpir=lowest * 0.8)
    # What it says would be needed does do, give or take what a calibration differs by.
    assert at(made(int(1.2 * max(numbers))), 20, fpir=0.02).threshold <= 1


def test_without_a_wish_the_lowest_rate_is_used_and_told():
    thresholds = made(60)
    found = at(thresholds, 20)
    assert 0.01 < found.fpir <= 0.1
    assert re.search(r"FPIR 0\.01\b.*\b20\b", found.note)
    before = 0.0
    for size in range(1, 30):  # and no threshold falls while the gallery grows
        now = at(thresholds, size).threshold
        assert now >= before - 1e-9
        before = now


def test_without_any_rate_the_equal_error_threshold_is_used_and_rough():
    thresholds = made(4)
    assert thresholds.rough
    for size in (1, 3, 5000):
        found = at(thresholds, size)
        assert (found.threshold, found.rough) == (thresholds.equal_error.threshold, True)
        assert (found.fpir, found.gallery) == (None, None)
        assert "4 identities" in found.note
    with pytest.raises(InputError, match=r"0\.1"):
        at(thresholds, 3, fpir=0.1)


def test_by_hand_and_out_of_range(thresholds):
    found = WorkingPoint.by_hand(0.5)
    assert (found.threshold, found.fpir) == (0.5, None)
    assert "0.5000" in str(found)
    for wrong in (1.5, math.nan, "0.5"):
        with pytest.raises(OptionError, match="threshold"):
            WorkingPoint.by_hand(wrong)
    for wrong in (0, 1, math.nan):
        with pytest.raises(OptionError, match="fpir"):
            at(thresholds, 3, fpir=wrong)
    with pytest.raises(OptionError, match=r"arcset evaluate RUN.*arcset gallery calibrate"):
        at(None, 3)
