"""How pairs are walked today: in blocks, by three precisions, kept or counted, some left out.

All of this goes with the walkers, ties of 2⁻⁴⁴ and the error bounds that they promise; what they
come to is held by test_verification.py, test_intervals.py and the recorded measures of
tests/contract.
"""

import importlib
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from arcset.evaluation import bootstrap_pairs as draws
from arcset.evaluation import pairs as pairs_module
from arcset.evaluation import verification
from arcset.evaluation.pairs import Ranked
from arcset.evaluation.verification import area, equal_error, rejected_at, roc
from evaluation.inside import identity_weights
from evaluation.pairs.references import (
    DRAWN_FARS,
    FARS,
    all_scores,
    all_sides,
    check_against_the_definitions,
    check_draws,
    concentrated_case,
    labelled,
    random_case,
    reference_draw,
    weighted_pairs,
)

pytestmark = pytest.mark.long

verifying = importlib.import_module("arcset.evaluation.verification")  # not the function


def kept(scores):
    return Ranked.sort(np.array(scores, dtype=np.float32))


def counted(scores):
    return Ranked.counted(*np.unique(np.array(scores, dtype=np.float32), return_counts=True))


coarse = st.lists(st.integers(-8, 8).map(lambda n: n / 8), min_size=1, max_size=30)
fine = st.lists(st.integers(-64, 64).map(lambda n: n / 64), min_size=1, max_size=30)


@given(coarse, coarse)
def test_counted_scores_are_as_good_as_kept_ones(genuine, impostor):
    several = counted(genuine), counted(impostor)
    single = kept(genuine), kept(impostor)
    assert area(*several) == pytest.approx(area(*single), abs=1e-12)
    assert equal_error(*several) == pytest.approx(equal_error(*single), abs=1e-12)
    rejected = rejected_at(single[1], [0.05, 0.3, 0.5, 1.0])
    np.testing.assert_array_equal(rejected_at(several[1], [0.05, 0.3, 0.5, 1.0]), rejected)
    curves = roc(*several, rejected), roc(*single, rejected)
    for first, second in zip(*(vars(curve).values() for curve in curves), strict=True):
        np.testing.assert_array_equal(first, second)


@given(fine, fine)
def test_rounding_moves_auc_and_eer_no_further_than_their_bounds(genuine, impostor):
    exact = kept(genuine), kept(impostor)
    rounded = tuple(counted(np.round(np.multiply(s, 8)) / 8) for s in (genuine, impostor))
    auc, bound = area(*rounded)
    assert abs(auc - area(*exact)[0]) <= bound + 1e-12
    equal = equal_error(*rounded)
    assert abs(equal.rate - equal_error(*exact).rate) <= equal.error + 1e-12


def test_the_bounds_are_reached():
    """Two scores that rounding makes tie: AUC was 1 or 0, and is said to be ½ ± ½."""
    assert area(counted([0.5]), counted([0.5])) == (0.5, 0.5)
    equal = equal_error(counted([0.5]), counted([0.5]))
    assert (equal.rate, equal.error) == (0.5, 0.5)


@pytest.mark.parametrize("block", [(2, 3), (5, 1)])
def test_blocks_of_cosines_do_not_matter(block):
    @given(labelled())
    def check(data):
        embeddings, labels = data
        found = verification(embeddings, labels, FARS)
        check_against_the_definitions(found, *all_scores(embeddings, labels))
        assert (found.auc_error, found.eer_error) == (0.0, 0.0)

    with mock.patch.object(pairs_module, "KEPT_BLOCK", block):
        check()


@pytest.mark.parametrize("noise", [1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("given", [False, True])
def test_concentrated_embeddings(noise, given):
    """Cosines that differ from 1 by less than float32 can tell."""
    embeddings, labels, cosines, same = concentrated_case(noise)
    pairs = {"pairs": np.stack(np.triu_indices(len(labels), k=1), axis=1), "same": same}
    found = verification(embeddings, labels, FARS, **(pairs if given else {}))
    raw = roc_auc_score(same, cosines)
    assert raw > 0.9
    assert found.auc == pytest.approx(raw, abs={1e-3: 1e-6, 1e-4: 1e-6, 1e-5: 1e-4}[noise])
    scores = np.round(cosines * 2**44) / 2**44
    assert found.auc == pytest.approx(roc_auc_score(same, scores), abs=1e-6)
    assert (found.auc_error, found.eer_error) == (0.0, 0.0)
    for far in (0.5, 0.1, 0.01):
        accepted = scores >= found.threshold_at_far[far]
        assert accepted[~same].mean() == pytest.approx(far, abs=1e-3)
        assert accepted[same].mean() == pytest.approx(found.tar_at_far[far], abs=2e-3)


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4])
def test_concentrated_embeddings_equal_the_definitions(noise):
    """Few enough pairs for no two unrounded cosines to be closer than the rounding."""
    embeddings, labels, cosines, same = concentrated_case(noise, count=20, classes=4)
    assert len(np.unique(cosines.astype(np.float32))) < len(cosines)
    assert np.diff(np.sort(cosines)).min() > 2**-43
    found = verification(embeddings, labels, FARS)
    check_against_the_definitions(found, cosines[same], cosines[~same])


@pytest.mark.parametrize("noise", [1.0, 1e-3, 1e-4, 1e-5])
def test_scores_in_float32_state_what_rounding_can_change(noise):
    embeddings, labels, _, _ = concentrated_case(noise)
    exact = verification(embeddings, labels, FARS)
    with mock.patch.object(verifying, "EXACT_EMBEDDINGS", 0):
        found = verification(embeddings, labels, FARS)
    assert abs(found.auc - exact.auc) <= found.auc_error + 1e-12
    assert abs(found.eer - exact.eer) <= found.eer_error + 1e-12
    if noise < 1e-3:
        assert found.auc_error > 1e-3


@pytest.mark.parametrize("few", [draws.FEW_PAIRS, 0], ids=["one-by-one", "by-identity"])
@pytest.mark.parametrize("block", [draws.BLOCK, (3, 5), (1, 2)])
def test_blocks_of_draws_do_not_matter(block, few):
    embeddings, labels = random_case(count=40, classes=7)
    with (
        mock.patch.multiple(draws, BLOCK=block, DENSE_COUNTS=8000, FEW_PAIRS=few),
        mock.patch.object(draws, "AT_ONCE", 1500),
    ):
        found = verification(embeddings, labels, DRAWN_FARS, intervals=True, draws=20, seed=3)
    check_draws(found, all_sides(embeddings, labels), 7, 20)


def replicates(case, **patches):
    with mock.patch.multiple(draws, **{"BLOCK": draws.BLOCK, **patches}):
        return verification(*case, DRAWN_FARS, intervals=True, draws=200, seed=3).replicates.values


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
        mock.patch.object(verifying, "KEPT_EMBEDDINGS", most),
    ):
        found = verification(embeddings, labels, DRAWN_FARS, intervals=True, draws=20, seed=3)
    pairs, same, sides = all_sides(embeddings, labels)
    if large:
        pairs = [round(score * 2**21) / 2**21 for score in pairs]
    check_draws(found, (pairs, same, sides), 7, 20)


def test_draws_of_concentrated_embeddings():
    """Cosines that differ from 1 by less than float32 can tell, unrounded."""
    embeddings, labels, cosines, same = concentrated_case(1e-4, count=20, classes=4)
    assert len(np.unique(cosines.astype(np.float32))) < 10
    _, _, sides = all_sides(embeddings, labels)
    found = verification(embeddings, labels, DRAWN_FARS, intervals=True, draws=20, seed=3)
    check_draws(found, (cosines, same, sides), 4, 20)
    with mock.patch.object(draws, "MOST_SCORES", 0):  # at the thresholds of the curve
        found = verification(embeddings, labels, DRAWN_FARS, intervals=True, draws=20, seed=3)
    expected = [
        reference_draw(*weighted_pairs(cosines, same, sides, row), DRAWN_FARS)[0]
        for row in identity_weights(4, 20, 3)
    ]
    np.testing.assert_allclose(found.replicates.values["auc"], expected, atol=5e-3)


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
    with mock.patch.object(draws, "MOST_SCORES", 10**6):
        full = replicates(case)
    grid = replicates(case)
    for name in ("auc", "eer", "tar_at_far[0.1]", "tar_at_far[0.01]"):
        spread = full[name].std()
        error = grid[name] - full[name]
        assert abs(error.mean()) < 0.05 * spread, name
        assert error.std() < 0.2 * spread, name
