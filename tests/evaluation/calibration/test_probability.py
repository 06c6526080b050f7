"""Calibration against scikit-learn and by what it promises; reliability against loops."""

import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit
from scipy.stats import binomtest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from arcset.errors import InputError
from arcset.evaluation import calibrate, reliability
from arcset.evaluation.calibration.probability import calibrate_identities
from arcset.evaluation.calibration.smooth import STRAIGHT, choose_stiffness
from arcset.evaluation.pairs import pair_cosines


def simulated(count, seed, genuine=0.3):
    """Cosines whose true probability is known: logistic in the cosine."""
    generator = np.random.default_rng(seed)
    same = generator.random(count) < genuine
    cosines = np.where(same, 0.6, 0.1) + 0.18 * generator.normal(size=count)
    return cosines, same


def truth(cosines, prior=0.5):
    log_odds = ((cosines - 0.1) ** 2 - (cosines - 0.6) ** 2) / (2 * 0.18**2)
    odds = np.exp(log_odds) * prior / (1 - prior)
    return odds / (1 + odds)


@pytest.mark.parametrize("method", ["smooth", "isotonic", "logistic"])
@pytest.mark.parametrize("prior", [0.5, 0.1])
def test_the_probability_is_the_true_one_at_the_prior(method, prior):
    cosines, same = simulated(20_000, 0, genuine=0.02)
    found = calibrate(cosines, same, method, prior=prior)
    grid = np.linspace(0, 0.8, 50)
    assert np.abs(found.probability(grid) - truth(grid, prior)).max() < 0.12
    assert np.abs(found.probability(grid) - truth(grid, prior)).mean() < 0.03
    assert found.prior == prior


def test_the_smooth_curve_knows_what_high_cosines_are_worth():
    """Of a hundred enrolled the right one has to stand out by far more than 1 to 1."""
    cosines, same = simulated(40_000, 3, genuine=0.01)
    found = calibrate(cosines, same)
    for cosine in (0.5, 0.55, 0.6):  # odds of 17 to 1,200
        log_odds = logit(found.probability(cosine)), logit(truth(cosine))
        assert log_odds[0] == pytest.approx(log_odds[1], abs=np.log(2))


def test_isotonic_is_scikit_learns_within_its_bounds():
    cosines, same = simulated(300, 1)
    plain = IsotonicRegression(out_of_bounds="clip").fit(cosines, same)
    found = calibrate(cosines, same, "isotonic", prior=None)
    inside = plain.predict(cosines)
    clear = (inside > 0.05) & (inside < 0.95)
    np.testing.assert_allclose(found.probability(cosines)[clear], inside[clear], atol=1e-12)
    odds = found.prior / (1 - found.prior)
    top = odds * ((~same).sum() + 1)
    bottom = odds / (same.sum() + 1)
    assert found.probability(1.0) == pytest.approx(top / (1 + top))
    assert found.probability(-1.0) == pytest.approx(bottom / (1 + bottom))


def test_logistic_is_scikit_learns_on_platts_targets():
    cosines, same = simulated(2000, 2)
    found = calibrate(cosines, same, "logistic", prior=None)
    weight = np.where(same, (same.sum() + 1) / (same.sum() + 2), 0)
    weight = np.where(same, weight, 1 / ((~same).sum() + 2))  # of being genuine
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(
        np.tile(cosines, 2)[:, None],
        np.repeat([1, 0], 2000),
        sample_weight=np.concatenate((weight, 1 - weight)),
    )
    grid = np.linspace(-1, 1, 21)
    np.testing.assert_allclose(
        found.probability(grid), model.predict_proba(grid[:, None])[:, 1], atol=1e-4
    )


def world(generator, identities, spread, families=0.5):
    """Embeddings of identities with samples that scatter unequally, half of them in families."""
    centers = generator.normal(size=(identities, 24))
    members = int(families * identities)
    heads = np.random.default_rng(7).normal(size=(10, 24))
    centers[:members] = heads[generator.integers(10, size=members)] + 0.5 * centers[:members]
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    scatter = 0.55 * np.exp(spread * generator.normal(size=identities)) / 24**0.5
    points = centers[:, None] + scatter[:, None, None] * generator.normal(size=(identities, 5, 24))
    return points.reshape(-1, 24).astype(np.float32), np.repeat(np.arange(identities), 5)


def log_loss(chances, same):
    """At prior 1/2."""
    return -(np.log(chances[same]).mean() + np.log(1 - chances[~same]).mean()) / 2


@pytest.mark.parametrize("prior", [None, 0.5])
@pytest.mark.parametrize(
    ("spread", "identities", "seed"), [(0.0, 20, 20), (0.35, 20, 0), (0.6, 60, 3), (0.35, 150, 5)]
)
def test_the_smooth_curve_is_true_to_what_it_was_made_from(spread, identities, seed, prior):
    """In bins in which both kinds of pairs together have the same mass, at even prior odds."""
    points, labels = world(np.random.default_rng(seed), identities, spread)
    found = calibrate_identities(points, labels, prior=prior)
    cosines, same, _ = pair_cosines(points, labels)
    odds = found.probability(cosines) / (1 - found.probability(cosines))
    odds *= (1 - found.prior) / found.prior * same.sum() / (~same).sum()  # at their own share
    order = np.argsort(cosines)
    mass = np.cumsum(np.where(same, 1 / same.sum(), 1 / (~same).sum())[order])
    for part in np.split(order, np.searchsorted(mass, np.arange(1, 15) * mass[-1] / 15)):
        seen = binomtest(int(same[part].sum()), len(part)).proportion_ci(0.99, "wilson")
        mean = (odds / (1 + odds))[part].mean()
        assert seen.low - 1e-6 <= mean <= seen.high + 1e-6


@pytest.mark.parametrize("stiffness", [STRAIGHT, 1e-8])
def test_where_cosines_tell_nothing_or_the_contrary_the_probability_is_the_prior(stiffness):
    generator = np.random.default_rng(0)
    same = np.arange(200) < 20
    for cosines in (np.full(200, 0.3), np.where(same, -0.9, generator.uniform(-0.2, 0.2, 200))):
        found = calibrate(cosines, same, stiffness=stiffness, prior=0.2)
        assert found.probability(cosines) == pytest.approx(np.full(200, 0.2), abs=0.03)
    one = calibrate(np.linspace(0, 0.5, 50), np.arange(50) == 49)  # a single genuine pair
    assert one.probability(0.1) < 0.5 < one.probability(0.5) < one.probability(0.9) < 0.99


def test_the_smooth_curve_has_no_steps():
    points, labels = world(np.random.default_rng(3), 30, 0.35)
    cosines, same, _ = pair_cosines(points, labels)
    inside = np.linspace(cosines[same].min(), cosines[~same].max(), 200)
    odds = np.diff(logit(calibrate_identities(points, labels).probability(inside)))
    assert odds.min() > 0
    assert odds.max() < 12 * np.median(odds)
    isotonic = calibrate_identities(points, labels, "isotonic").probability(inside)
    assert np.diff(isotonic).min() == 0  # which is what steps are


def test_the_smooth_curve_bends_where_the_truth_does_and_there_is_enough_to_tell():
    generator = np.random.default_rng(4)
    bent = world(generator, 150, 0.9)
    assert choose_stiffness(*bent) < STRAIGHT
    assert choose_stiffness(*world(generator, 2, 0.9)) == STRAIGHT
    fresh, labels = world(generator, 150, 0.9)
    cosines, same, _ = pair_cosines(fresh, labels)

    def losses(points):
        return [
            log_loss(calibrate_identities(*points, method).probability(cosines), same)
            for method in ("smooth", "isotonic", "logistic")
        ]

    smooth, isotonic, logistic = losses(bent)
    assert smooth < logistic
    assert smooth < isotonic + 0.003
    smooth, isotonic, _ = np.mean([losses(world(generator, 20, 0.9)) for _ in range(10)], axis=0)
    assert smooth < isotonic


def test_large_identities_take_no_more_memory():
    """All pairs of one with 5,000 samples would take 500 MB, of 100,000 more than there is."""
    points = np.random.default_rng(4).normal(size=(20_000, 8))
    tracemalloc.start()
    choose_stiffness(points, np.arange(20_000) % 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


@given(
    st.lists(st.tuples(st.integers(-8, 8), st.booleans()), min_size=2, max_size=40),
    st.sampled_from(["smooth", "isotonic", "logistic"]),
)
def test_probabilities_rise_and_are_never_certain(pairs, method):
    cosines = np.array([value / 8 for value, _ in pairs])
    same = np.array([kind for _, kind in pairs])
    if same.all() or not same.any():
        with pytest.raises(InputError, match=f"{same.sum()} of {len(same)}"):
            calibrate(cosines, same, method)
        return
    found = calibrate(cosines, same, method)
    values = found.probability(np.linspace(-1.5, 1.5, 61))
    assert ((values > 0) & (values < 1)).all()
    assert (np.diff(values) >= -1e-15).all()
    assert isinstance(found.probability(0.5), float)


def test_reliability_against_loops_and_scikit_learn():
    generator = np.random.default_rng(6)
    values = np.concatenate((generator.random(200), [0.0, 1.0, 0.5, 0.1]))
    assert reliability([0.0, 1.0], [True, False]).cllr == np.inf  # certain, and wrong
    same = np.concatenate((generator.random(200) < values[:200] ** 2, [False, True, True, False]))
    found = reliability(values, same, bins=5)
    error = 0.0
    for number in range(5):
        inside = (values >= number / 5) & ((values < (number + 1) / 5) | (number == 4))
        assert found.counts[number] == inside.sum()
        assert found.mean_probability[number] == pytest.approx(values[inside].mean())
        assert found.frequency[number] == pytest.approx(same[inside].mean())
        error += inside.sum() * abs(values[inside].mean() - same[inside].mean())
    assert found.ece == pytest.approx(error / len(values))
    assert found.brier == pytest.approx(brier_score_loss(same, values))
    share = same.mean()
    for_prior = (1 - share) / share  # the prior taken out of the odds
    bits = np.mean(np.log2(1 + (1 / values[same] - 1) / for_prior))
    bits += np.mean(np.log2(1 + for_prior / (1 / np.maximum(values[~same], 1e-300) - 1)))
    assert found.cllr == pytest.approx(bits / 2)
    costs = [
        0.01 * np.mean(values[same] < limit) + 0.99 * np.mean(values[~same] >= limit)
        for limit in (*values, 2.0)
    ]
    assert found.min_dcf == pytest.approx(min(costs) / 0.01)
    assert reliability([0.05, 0.95], [False, True], bins=10).json()["frequency"][5] is None


def test_pairs_are_all_or_their_distinct_cosines():
    generator = np.random.default_rng(5)
    points, labels = generator.normal(size=(90, 4)).round(1), np.repeat(np.arange(30), 3)
    cosines, same, weights = pair_cosines(points, labels)
    assert len(cosines) == 90 * 89 // 2
    assert same.sum() == 30 * 3
    assert (weights == 1).all()
    with mock.patch("arcset.evaluation.pairs.MOST_PAIRS", 60):
        distinct, kinds, stand_for = pair_cosines(points, labels)
    for kind, each in ((same, kinds), (~same, ~kinds)):
        np.testing.assert_array_equal(
            np.repeat(distinct[each], stand_for[each].astype(int)), cosines[kind]
        )
    with pytest.raises(InputError, match="genuine"):
        pair_cosines(points, np.arange(90))
