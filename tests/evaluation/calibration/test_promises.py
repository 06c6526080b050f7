"""Do fresh identities show what was promised? Many worlds, each with validation and test sets."""

import numpy as np
import pytest

from arcset.evaluation import threshold_for_far, threshold_for_fpir
from evaluation.calibration.simulation import draw_identities

MILD = {"decay": 3.0, "spread": 0.6}
HARD = {"decay": 6.0, "spread": 0.8}


def rows(points):
    return points.reshape(-1, points.shape[2])


def open_set(generator, world, identities, own, fpir, gallery, unknown, probes, samples=1):
    """One world: the realized FPIR, and the interval promised for it."""
    validation = rows(draw_identities(generator, identities, own, **world))
    labels = np.repeat(np.arange(identities), own)
    found = threshold_for_fpir(validation, labels, fpir, gallery, samples=samples)
    subjects = rows(draw_identities(generator, gallery, samples, **world))
    strangers = rows(draw_identities(generator, unknown, probes, **world))
    realized = np.mean((strangers @ subjects.T).max(axis=1) >= found.threshold)
    return realized, *found.expect(unknown, probes_per_identity=probes)


def verification(generator, world, identities, own, far, fresh, samples):
    """One world: the realized FAR over all impostor pairs, and the interval promised for it."""
    validation = rows(draw_identities(generator, identities, own, **world))
    found = threshold_for_far(validation, np.repeat(np.arange(identities), own), far)
    points = rows(draw_identities(generator, fresh, samples, **world))
    labels = np.repeat(np.arange(fresh), samples)
    impostor = labels[:, None] != labels
    realized = np.mean((points @ points.T)[impostor] >= found.threshold)
    return realized, *found.expect(fresh, samples_per_identity=samples)


def held_and_width(worlds):
    """The share of worlds that kept the promise, and its width beside the spread there was."""
    realized, low, high = np.array(worlds).T
    held = np.mean((realized >= low - 1e-12) & (realized <= high + 1e-12))
    spread = np.subtract(*np.quantile(realized, [0.975, 0.025]))
    return held, np.mean(high - low) / spread


def generators(count):
    return (np.random.default_rng([11, number]) for number in range(count))


def check_promises(worlds):
    held, width = held_and_width(worlds)
    assert held >= 0.9
    assert width <= 1.5


def test_promises_are_kept_in_nine_of_ten_worlds():
    setting = (HARD, 100, 3, 1e-2, 100, 2)
    check_promises([verification(generator, *setting) for generator in generators(60)])
    setting = (HARD, 60, 3, 0.1, 30, 60, 1)
    check_promises([open_set(generator, *setting) for generator in generators(60)])


@pytest.mark.long
@pytest.mark.parametrize(
    "setting",
    [
        (HARD, 200, 3, 0.05, 100, 200, 2),
        (MILD, 300, 4, 0.01, 100, 300, 1),
        (MILD, 300, 4, 0.1, 100, 300, 3),
        (HARD, 300, 4, 0.02, 100, 300, 1),
        (HARD, 400, 4, 0.01, 100, 1000, 3),
        (HARD, 200, 4, 0.05, 150, 2000, 3),
        (HARD, 200, 4, 0.01, 20, 2000, 1),
        (HARD, 400, 4, 0.1, 50, 400, 3),
        (HARD, 300, 1, 0.05, 100, 300, 1),
        (HARD, 300, 6, 0.05, 100, 500, 3, 3),
    ],
)
def test_the_fpir_lies_in_the_interval_in_90_of_100_worlds(setting):
    check_promises([open_set(generator, *setting) for generator in generators(100)])


@pytest.mark.long
@pytest.mark.parametrize(
    "setting",
    [
        (HARD, 150, 3, 1e-2, 150, 2),
        (MILD, 200, 4, 1e-2, 200, 4),
        (HARD, 200, 4, 1e-3, 200, 1),
        (HARD, 300, 3, 1e-3, 500, 3),
        (HARD, 300, 1, 1e-3, 200, 1),
    ],
)
def test_the_far_lies_in_the_interval_in_90_of_100_worlds(setting):
    check_promises([verification(generator, *setting) for generator in generators(100)])


@pytest.mark.long
@pytest.mark.parametrize(("fpir", "times"), [(0.1, 2), (0.3, 5), (0.3, 10)])
def test_larger_galleries_show_about_the_rate_extrapolated(fpir, times):
    setting = (MILD, 300, 4, fpir, 299 * times, 300, 1)
    worlds = [open_set(generator, *setting) for generator in generators(40)]
    realized = [world[0] for world in worlds]
    assert np.mean(realized) == pytest.approx(fpir, rel=0.25)


@pytest.mark.parametrize("identities", [5, 8, 20])
def test_few_identities_promise_little_and_keep_it(identities):
    """Rates that are far rarer than so few can show: the interval holds them all the same."""
    for worlds in (
        [verification(one, MILD, identities, 4, 1e-3, 200, 1) for one in generators(40)],
        [
            open_set(one, MILD, identities, 4, 0.05, 10 * identities, 200, 1)
            for one in generators(40)
        ],
    ):
        assert held_and_width(worlds)[0] >= 0.9
