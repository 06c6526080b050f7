"""threshold.json: what it answers without the embeddings, and what it refuses."""

import json

import numpy as np
import pytest

from arcset.errors import InputError, OptionError, RunError
from arcset.evaluation import (
    Thresholds,
    make_thresholds,
    threshold_for_far,
    threshold_for_fpir,
    verification,
)
from evaluation.calibration.simulation import draw_identities


@pytest.fixture(scope="module")
def validation():
    points = draw_identities(np.random.default_rng(0), 200, 4)
    return points.reshape(-1, points.shape[2]), np.repeat(np.arange(200), 4)


@pytest.fixture(scope="module")
def made(validation):
    return make_thresholds(
        *validation,
        fpirs=(0.5, 0.1, 0.01, 0.001),
        made_from={"dataset": "simulated", "part": "validation"},
    )


def test_what_was_asked_for_is_stored_as_measured(made, validation):
    assert made.for_far(1e-3) == threshold_for_far(*validation, 1e-3)
    stored, measured = made.for_fpir(0.1, 100), threshold_for_fpir(*validation, 0.1, 100)
    assert stored == measured
    assert sorted({found.gallery for found in made.fpirs}) == [10, 100, 199, 1000]
    assert [(found.far, found.rough) for found in made.fars] == [
        (1e-2, False),
        (1e-3, False),
        (1e-4, True),
    ]
    for item in (*made.fars, *made.fpirs):
        assert f"{item.threshold:.4f}" in item.table()
    assert "(rough)" in made.table()


@pytest.mark.parametrize(("fpir", "gallery"), [(0.1, 23), (0.3, 400)])
def test_other_galleries_are_answered_without_the_embeddings(made, validation, fpir, gallery):
    found = made.for_fpir(fpir, gallery)
    measured = threshold_for_fpir(*validation, fpir, gallery)
    assert found.threshold == pytest.approx(measured.threshold, abs=0.006)
    assert found.seen == pytest.approx(fpir, rel=0.02)
    assert found.extrapolated == measured.extrapolated == (gallery > 199)
    for mine, wanted in zip(found.expect(500), measured.expect(500), strict=True):
        assert mine == pytest.approx(wanted, rel=0.15, abs=0.006)


@pytest.mark.long
def test_few_identities_of_many_samples_have_rates_too():
    """Two of the five look alike, and make up all of half a million accepted pairs."""
    centers = np.eye(5)[[0, 0, 1, 2, 3]]
    points = np.repeat(centers, 750, axis=0) + 0.1 * np.random.default_rng(0).normal(size=(3750, 5))
    options = {"fars": (), "fpirs": (), "method": "logistic"}
    found = make_thresholds(points, np.arange(3750) // 750, **options).for_fpir(0.1, 4)
    assert found.rough
    assert 0.5 < found.threshold <= 1


@pytest.mark.parametrize("far", [0.1, 0.004, 3e-4])
def test_other_fars_are_answered_without_the_embeddings(made, validation, far):
    found, measured = made.for_far(far), threshold_for_far(*validation, far)
    assert found.threshold == pytest.approx(measured.threshold, abs=0.005)
    assert found.seen == pytest.approx(far, rel=1e-6)
    for mine, wanted in zip(found.expect(300), measured.expect(300), strict=True):
        assert mine == pytest.approx(wanted, rel=0.2)


def test_what_is_rarer_than_it_can_show_is_rough_and_beyond_that_not_pinned_down(made):
    lowest = made.rates.lowest_far
    assert made.for_far(lowest).pinned
    assert not made.for_far(lowest / 2).pinned
    falling = [made.for_far(far) for far in (1e-3, 1e-5, 1e-7, 1e-30)]
    assert [found.rough for found in falling] == [False, True, True, True]
    assert [found.pinned for found in falling][::3] == [True, False]
    cosines = [found.threshold for found in falling]
    assert cosines == sorted(cosines)
    assert cosines[-1] < 1
    assert made.for_fpir(0.01, 100_000).rough
    assert made.for_fpir(0.01, 100_000).threshold > made.for_fpir(0.01, 1000).threshold
    for rate, gallery in ((2, 10), (0.1, 0)):
        with pytest.raises(OptionError):
            made.for_fpir(rate, gallery)
    loose = made.for_far(0.9)  # looser than any row: the first row, which accepts less
    assert loose.threshold == made.rates.thresholds[0]
    assert loose.seen <= 0.25


def test_the_file_comes_back_as_it_was(made, tmp_path):
    made.save(tmp_path / "threshold.json")
    again = Thresholds.load(tmp_path / "threshold.json")
    assert again.json() == made.json()
    assert again.for_fpir(0.1, 55).threshold == pytest.approx(
        made.for_fpir(0.1, 55).threshold, abs=1e-6
    )
    assert (tmp_path / "threshold.json").stat().st_size < 100_000
    assert "1,000 (extrapolated)" in again.table()


DAMAGES = [
    (("kind",), "another file"),
    (("version",), 99),
    (("made_from", "identities"), -3),
    (("far", 0, "threshold"), 7.0),
    (("far", 0, "spread", "sample"), -0.5),
    (("fpir", 0, "curve", "both", 1), 2.0),
    (("calibration", "knots"), [[0.0, 1.0], [0.5, 0.2]]),
    (("calibration",), {"method": "logistic", "prior": 0.5, "knots": [0.0, -1.0]}),
    (("rates", "thresholds"), []),
    (("rates", "measured"), -1),
    (("rates", "design_effect"), 0.5),
    (("rates", "thresholds", 3), -0.9),
    (("rates", "fpir", 0, "galleries", 2), 1),
]


def damaged(made):
    """Contents of the file, each damaged in another way."""
    text = json.dumps(made.json())
    yield b"\xff\xfe\x00"
    yield from (text[:cut].encode() for cut in (0, 1, len(text) // 2, len(text) - 1))
    for path, value in DAMAGES:
        content = json.loads(text)
        entry = content
        for key in path[:-1]:
            entry = entry[key]
        entry[path[-1]] = value
        yield json.dumps(content).encode()


def test_a_damaged_file_is_one_clear_sentence(made, tmp_path):
    file = tmp_path / "threshold.json"
    with pytest.raises(RunError, match=file.name):
        Thresholds.load(file)
    for content in damaged(made):
        file.write_bytes(content)
        with pytest.raises(RunError, match=file.name) as caught:
            Thresholds.load(file)
        assert "\n" not in str(caught.value), content[-200:]


@pytest.mark.parametrize("identities", [2, 4])
def test_of_too_few_for_any_rate_the_estimates_are_not_pinned_down(identities, tmp_path):
    labels = np.arange(6 * identities) // 6
    points = np.random.default_rng(0).normal(size=(identities, 8))[labels]
    points = points + 0.5 * np.random.default_rng(1).normal(size=points.shape)
    found = make_thresholds(points, labels, made_from={"part": "validation"})
    measured = verification(points, labels)
    assert found.rough
    assert found.equal_error.threshold == measured.eer_threshold
    assert found.equal_error.rate == measured.eer
    assert found.origin == f"{identities} validation identities"
    assert (found.rates.lowest_far or 1) > 0.1
    for item in found.fars:
        assert (item.rough, item.pinned) == (True, False)
        low, high = item.expect(1000)
        assert low < item.seen < high
    assert "cannot be pinned down" in found.table()
    assert found.probability(0.9) > found.probability(0.1)
    found.save(tmp_path / "threshold.json")
    assert Thresholds.load(tmp_path / "threshold.json").json() == found.json()
    assert f"{found.equal_error.threshold:.4f}" in found.table()


def test_identities_that_were_trained_on_promise_no_rate():
    labels = np.arange(600) // 3
    points = np.random.default_rng(0).normal(size=(200, 8))[labels]
    points = points + 0.3 * np.random.default_rng(1).normal(size=points.shape)
    assert not make_thresholds(points, labels).rough
    found = make_thresholds(points, labels, in_training=True)
    assert found.rough
    assert found.equal_error.threshold == verification(points, labels).eer_threshold


def test_groups_that_differ_make_every_interval_wider():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(8), 100)  # eight alphabets of 25 characters, alike within
    labels = np.repeat(np.arange(200), 4)
    points = rng.normal(size=(8, 16))[groups] * rng.uniform(0.2, 1.5, size=8)[groups, None]
    points = points + rng.normal(size=(200, 16))[labels] + 0.4 * rng.normal(size=(800, 16))
    plain, grouped = (make_thresholds(points, labels, groups=one) for one in (None, groups))
    for far in (0.1, 0.01, 0.001):
        assert grouped.for_far(far).threshold == pytest.approx(
            plain.for_far(far).threshold, abs=0.02
        )
        narrow, wide = (np.array(each.for_far(far).expect(100)) for each in (plain, grouped))
        assert wide[0] < narrow[0] < far < narrow[1] < wide[1]
    assert grouped.rates.groups == 8
    again = Thresholds.from_json(json.loads(json.dumps(grouped.json())))
    assert again.for_far(0.05).expect(100) == pytest.approx(grouped.for_far(0.05).expect(100))
    for wrong in (np.arange(800), np.zeros(800), groups[:-1]):
        with pytest.raises(InputError, match="group"):
            make_thresholds(points, labels, groups=wrong)


def test_a_threshold_promises_no_rate_that_ties_deny():
    """Every image stands under two names, so a cosine of 1 is as frequent as it is."""
    rows = np.repeat(np.random.default_rng(0).normal(size=(100, 16)), 2, axis=0)
    labels = np.arange(200) % 50
    made = make_thresholds(rows, labels)
    assert made.for_far(1e-6).far >= 100 / (200 * 196 / 2)


@pytest.mark.parametrize("rows", [np.ones((20, 4)), np.repeat([[1.0, 0], [-1, 0]], 10, axis=0)])
def test_thresholds_of_embeddings_that_tell_nothing_can_be_read_again(rows, tmp_path):
    made = make_thresholds(rows, np.arange(20) // 2)
    made.save(tmp_path / "threshold.json")
    again = Thresholds.load(tmp_path / "threshold.json")
    assert again.for_far(0.01).threshold == made.for_far(0.01).threshold
