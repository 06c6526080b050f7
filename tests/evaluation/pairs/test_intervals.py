"""Draws of identities, against pairs weighted and counted one by one."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings

from arcset.evaluation import bootstrap, verification
from arcset.evaluation.pairs import bins, draws, scores
from arcset.evaluation.pairs import replicates as replicates_module
from evaluation.pairs.references import (
    all_scores,
    concentrated_case,
    labelled,
    random_case,
    reference_draw,
    weighted_pairs,
)

FARS = (1.0, 0.3, 0.1, 0.01)
NAMES = ("auc", "eer", *(f"tar_at_far[{far:g}]" for far in FARS))


def all_sides(embeddings, labels):
    """Score, sameness and both identities of every pair."""
    numbers = np.unique(labels, return_inverse=True)[1]
    found, same, sides = [], [], []
    for i in range(len(labels)):
        for j in range(i + 1, len(labels)):
            genuine, impostor = all_scores(embeddings[[i, j]], labels[[i, j]])
            found.append(float(np.concatenate((genuine, impostor))[0]))
            same.append(labels[i] == labels[j])
            sides.append((numbers[i], numbers[j]))
    return found, same, sides


def check(found, pairs, identities, count, tolerance=1e-12):
    weights = bootstrap.identity_weights(identities, count, 3)
    point = found.measures()
    for number, row in enumerate(weights):
        expected = reference_draw(*weighted_pairs(*pairs, row), FARS)
        for name, value in zip(NAMES, expected, strict=True):
            drawn = found.replicates.values[name][number]
            if np.isnan(point[name]):
                assert np.isnan(drawn)
            else:
                assert drawn == pytest.approx(value, abs=tolerance, nan_ok=True)


@settings(max_examples=25)
@given(labelled())
def test_equals_the_definition(data):
    embeddings, labels = data
    found = verification(embeddings, labels, FARS, intervals=True, draws=20, seed=3)
    identities = np.unique(labels)
    check(found, all_sides(embeddings, labels), len(identities), 20)
    assert found.replicates.identities == len(identities)
    assert found.replicates.key == bootstrap.draw_key(identities, 3, 20)


@pytest.mark.parametrize("few", [draws.FEW_PAIRS, 0], ids=["one-by-one", "by-identity"])
@pytest.mark.parametrize("block", [draws.BLOCK, (3, 5), (1, 2)])
def test_blocks_do_not_matter(block, few):
    embeddings, labels = random_case(count=40, classes=7)
    with (
        mock.patch.multiple(draws, BLOCK=block, DENSE_COUNTS=8000, FEW_PAIRS=few),
        mock.patch.object(replicates_module, "AT_ONCE", 1500),
    ):
        found = verification(embeddings, labels, FARS, intervals=True, draws=20, seed=3)
    check(found, all_sides(embeddings, labels), 7, 20)


def test_pairs_one_by_one_and_by_identity_come_to_the_same():
    for case in (random_case(count=90, classes=30), random_case(count=60, classes=3)):
        one = replicates(case)
        for name, values in replicates(case, FEW_PAIRS=0).items():
            np.testing.assert_array_equal(values, one[name], err_msg=name)


@pytest.mark.parametrize("large", [False, True])
def test_many_identities_have_an_exact_tail(large):
    """With every accepted pair in the tail, nothing is left out."""
    embeddings, labels = random_case(count=40, classes=7)
    most = 0 if large else 40
    with (
        mock.patch.multiple(draws, DENSE_IDENTITIES=0, FEW_PAIRS=0),
        mock.patch.object(scores, "KEPT_EMBEDDINGS", most),
    ):
        found = verification(embeddings, labels, FARS, intervals=True, draws=20, seed=3)
    pairs, same, sides = all_sides(embeddings, labels)
    if large:
        pairs = [round(score * 2**21) / 2**21 for score in pairs]
    check(found, (pairs, same, sides), 7, 20)


def test_concentrated_embeddings():
    """Cosines that differ from 1 by less than float32 can tell, unrounded."""
    embeddings, labels, cosines, same = concentrated_case(1e-4, count=20, classes=4)
    assert len(np.unique(cosines.astype(np.float32))) < 10
    _, _, sides = all_sides(embeddings, labels)
    found = verification(embeddings, labels, FARS, intervals=True, draws=20, seed=3)
    check(found, (cosines, same, sides), 4, 20)
    with mock.patch.object(bins, "MOST_SCORES", 0):  # at the thresholds of the curve
        found = verification(embeddings, labels, FARS, intervals=True, draws=20, seed=3)
    expected = [
        reference_draw(*weighted_pairs(cosines, same, sides, row), FARS)[0]
        for row in bootstrap.identity_weights(4, 20, 3)
    ]
    np.testing.assert_allclose(found.replicates.values["auc"], expected, atol=5e-3)


def test_given_pairs():
    embeddings, labels = random_case(count=30, classes=5)
    pairs, same, sides = all_sides(embeddings, labels)
    places = np.stack(np.triu_indices(30, k=1), axis=1)
    chosen = np.random.default_rng(1).permutation(len(pairs))[:200]
    found = verification(
        embeddings,
        labels,
        FARS,
        pairs=places[chosen],
        same=np.array(same)[chosen],
        intervals=True,
        draws=20,
        seed=3,
    )
    picked = ([values[k] for k in chosen] for values in (pairs, same, sides))
    check(found, tuple(picked), 5, 20)
    with mock.patch.object(draws, "PAIR_WEIGHTS", 60):
        again = verification(
            embeddings,
            labels,
            FARS,
            pairs=places[chosen],
            same=np.array(same)[chosen],
            intervals=True,
            draws=20,
            seed=3,
        )
    for name, values in found.replicates.values.items():
        np.testing.assert_array_equal(again.replicates.values[name], values)


def replicates(case, **patches):
    with mock.patch.multiple(draws, **{"BLOCK": draws.BLOCK, **patches}):
        return verification(*case, FARS, intervals=True, draws=200, seed=3).replicates.values


def test_marginals_agree_with_all_pairs_of_identities():
    """What is left out is far less than what draws differ by, and widens or narrows no interval."""
    case = random_case(count=1200, dim=16, classes=300, noise=0.7)
    full = replicates(case, DENSE_IDENTITIES=300, FEW_PAIRS=0)
    short = replicates(case, DENSE_IDENTITIES=0, TAIL_PAIRS=4000, FEW_PAIRS=0)
    for name in ("auc", "eer", "tar_at_far[0.1]", "tar_at_far[0.01]"):
        spread = full[name].std()
        assert np.sqrt(np.mean((short[name] - full[name]) ** 2)) < 0.2 * spread, name
        assert abs(np.mean(short[name] - full[name])) < 0.03 * spread, name
        assert short[name].std() == pytest.approx(spread, rel=0.03), name


def test_some_thresholds_agree_with_all_scores():
    """Read off between thresholds, draws are right within a small part of their spread."""
    case = random_case(count=250, dim=16, classes=50, noise=0.8)
    with mock.patch.object(bins, "MOST_SCORES", 10**6):
        full = replicates(case)
    grid = replicates(case)
    for name in ("auc", "eer", "tar_at_far[0.1]", "tar_at_far[0.01]"):
        spread = full[name].std()
        error = grid[name] - full[name]
        assert abs(error.mean()) < 0.05 * spread, name
        assert error.std() < 0.2 * spread, name


def test_two_models_on_the_same_draws():
    embeddings, labels = random_case(count=200, classes=40)
    noisy = embeddings + np.random.default_rng(1).standard_normal(embeddings.shape)
    first, second = (verification(e, labels, intervals=True) for e in (embeddings, noisy))
    better = bootstrap.paired(first, second, "auc")
    assert better.gain > 0
    assert better.shown
    low, high = first.interval("auc")
    assert low < first.auc < high


def test_coverage_of_the_interval():
    """Of sets drawn from one population, about 95 % of the intervals hold its AUC."""
    population = verification(*random_case(count=3000, dim=8, classes=1000, seed=99)).auc
    held = 0
    for seed in range(40):
        case = random_case(count=60, dim=8, classes=20, seed=seed)
        low, high = verification(*case, intervals=True, draws=200).interval("auc")
        held += low <= population <= high
    assert held >= 34
