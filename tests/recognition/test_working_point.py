"""The threshold follows the gallery."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from arcset import OptionError
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


@pytest.mark.parametrize("word", ["mean", "top-2", "max"])
@pytest.mark.parametrize("counts", [{3: 40}, {1: 20, 4: 20}])
def test_sets_of_samples_have_thresholds_of_their_own(word, counts):
    """Over worlds, strangers come in as often as was said, also where subjects differ in size."""
    seen, before = [], []
    drawn = {"decay": 5.0, "spread": 0.3, "noise": 1.2}
    enrolled = [count for count, number in counts.items() for _ in range(number)]
    size = {"subjects": 40, "samples": sum(enrolled), "scoring": word, "images": counts}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        points = draw_identities(rng, 80, 4, **drawn).reshape(320, -1)
        labels = np.repeat(np.arange(80), 4)
        options = {"fars": (), "fpirs": (), "method": "logistic", "images": [max(counts)]}
        known = make_thresholds(points, labels, scorings=[word], **options)
        subjects = draw_identities(rng, 40, 4, **drawn)
        probes = draw_identities(rng, 500, 1, **drawn)[:, 0]
        cosines = np.sort(np.einsum("pd,gsd->pgs", probes, subjects), axis=2)
        best = {"mean": 4, "top-2": 2, "max": 1}[word]
        scores = []
        for k, count in enumerate(enrolled):
            chosen = rng.permuted(cosines[:, k], axis=1)[:, :count]
            scores.append(np.sort(chosen, axis=1)[:, -best:].mean(axis=1))
        highest = np.max(scores, axis=0)
        for found, made_with in ((seen, known), (before, replace(known, templates=()))):
            limit = working_point(made_with, **size, fpir=0.1).threshold
            found.append((highest >= limit).mean())
    assert 0.07 < np.mean(seen) < 0.14
    assert np.mean(before) < np.mean(seen)


def test_without_sets_of_that_scoring_the_next_ones_are_on_the_safe_side(thresholds):
    made_with = made(scorings=["max", "top-3"], images=[2, 3])
    for word, images, wanted in (
        ("mean", 3, ("top-3", 3)),  # all of three are the best three
        ("top-2", 3, ("max", 3)),  # the mean of the best two is never above the best
        ("mean", 2.5, ("top-3", 2)),
        ("mean", 1, None),
    ):
        fitting = made_with.for_template(word, images)
        sets = [one for one in made_with.templates if one.rates is fitting.rates]
        found = [(one.scoring, one.rates.samples_per_subject) for one in sets]
        assert found == ([] if wanted is None else [wanted])
    assert thresholds.for_template("mean", 3) is thresholds


def test_beyond_the_calibration_it_says_so(thresholds):
    assert at(thresholds, 150, fpir=0.2).note == ""  # one more than could be tried
    found = at(thresholds, 400, fpir=0.2)
    assert found.extrapolated
    assert re.search(r"\b150\b.*\b400\b", found.note)


def test_a_rate_that_so_few_cannot_show_is_answered_and_called_rough():
    thresholds = made(30)
    found = at(thresholds, 20, fpir=0.04)
    assert found.rough
    low, high = found.expected
    assert low < 0.04 < high < 0.5
    assert re.search(r"\brough\b.*\b30\b", found.note)
    deep = at(thresholds, 20, fpir=1e-5)
    assert (deep.fpir, deep.rough) == (1e-5, True)
    assert deep.threshold > found.threshold
    lowest = re.search(
        r"FPIR 1e-05 with a gallery of 20 cannot be pinned down .* ([\d.]+) is", deep.note
    )
    assert "cannot be pinned down" not in at(thresholds, 20, fpir=float(lowest[1])).note
    assert "cannot be pinned down" in at(thresholds, 20, fpir=float(lowest[1]) * 0.8).note


def test_without_a_wish_the_lowest_rate_that_can_be_pinned_down_is_used_and_told():
    thresholds = made(20)
    found = at(thresholds, 40)
    assert 0.01 < found.fpir <= 0.1
    assert re.search(r"FPIR 0\.01\b.*\b40\b", found.note)
    before = 0.0
    for size in range(1, 60):  # and no threshold falls while the gallery grows
        now = at(thresholds, size).threshold
        assert now >= before - 2e-3  # the rate is rounded to two digits
        before = now


def test_from_four_identities_there_is_a_threshold_and_a_range_and_a_warning():
    thresholds = made(4)
    for size in (3, 40, 5000):
        found = at(thresholds, size)
        assert (found.fpir, found.gallery, found.rough) == (0.1, size, True)
        assert found.expected[0] < 0.1 < found.expected[1]
        assert re.search(r"cannot be pinned down by 4 identities", found.note)
    assert at(thresholds, 3, fpir=0.02).threshold > at(thresholds, 3).threshold


def test_identities_that_were_trained_on_promise_no_rate():
    found = at(made(in_training=True), 40)
    assert (found.fpir, found.expected, found.rough) == (None, None, True)
    assert "trained on" in found.note


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
    with pytest.raises(OptionError, match="arcset calibrate MODEL FOLDER"):
        at(None, 3)


@pytest.mark.parametrize("samples", [1, 3])
def test_no_threshold_falls_while_the_gallery_of_few_identities_grows(samples):
    few = made(24, samples=samples)
    for fpir in (None, 0.3, 0.01):
        limits = [at(few, subjects, fpir=fpir).threshold for subjects in range(1, 60)]
        assert np.diff(limits).min() >= -1e-9
