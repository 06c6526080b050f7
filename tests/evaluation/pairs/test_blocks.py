"""All pairs in blocks: one grid of cosines, and what blocks, counting and tails have no part in."""

import importlib
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arcset
from arcset.evaluation import bootstrap_pairs, identification, pairs, retrieval, verification
from evaluation.inside import ImpostorPairs
from evaluation.pairs.references import (
    DRAWN_FARS,
    EXACT_ROWS,
    FARS,
    all_scores,
    all_sides,
    check_against_the_definitions,
    check_draws,
    labelled,
    random_case,
)

SMALL = {"BLOCK": 12, "_HEIGHT": 3, "_FEW_PAIRS": 0, "_ROWS": 2}
verifying = importlib.import_module("arcset.recognition.verification")


@given(st.lists(st.floats(-1.000001, 1.000001), min_size=1))
def test_cosines_are_rounded_to_the_nearest_multiple(values):
    found = pairs.round_cosines(values)
    steps = found.astype(np.float64) * 2**21
    assert np.array_equal(steps, np.rint(steps))
    assert np.abs(found - np.clip(values, -1, 1)).max() <= 2**-22
    assert np.array_equal(pairs.round_cosines(found.copy()), found)
    narrow = np.array(values, dtype=np.float32)
    cells = pairs.cell_numbers(narrow.copy())
    assert np.array_equal(cells - 2**21, pairs.round_cosines(narrow) * np.float64(2**21))


@given(labelled())
def test_small_blocks_and_counting_equal_the_definitions(data):
    embeddings, labels = data
    with mock.patch.multiple(pairs, **SMALL):
        found = verification(embeddings, labels, FARS)
    check_against_the_definitions(found, *all_scores(embeddings, labels))


@given(st.lists(st.tuples(EXACT_ROWS, st.integers(0, 3)), min_size=8, max_size=20))
def test_small_blocks_of_a_search_do_not_matter(drawn):
    rows = np.array([row for row, _ in drawn])
    labels = np.array([label for _, label in drawn])
    labels[:3] = 0

    def found():
        searched = identification(rows[:5], labels[:5], rows[5:], labels[5:])
        return {**searched.measures(), **retrieval(rows, labels).measures()}

    expected = found()
    with mock.patch.multiple(pairs, **SMALL):
        assert found() == pytest.approx(expected, nan_ok=True)


def test_impostor_pairs_in_small_blocks():
    embeddings, labels = random_case(count=60)
    whole = ImpostorPairs.of(embeddings, labels)
    with mock.patch.multiple(pairs, **SMALL):
        parts = ImpostorPairs.of(embeddings, labels)
    assert whole.cosines == pytest.approx(parts.cosines, abs=1e-6)
    rows = np.sort(np.stack((whole.first, whole.second)), axis=0)
    assert set(map(tuple, rows.T)) == {
        (i, j) for i in range(60) for j in range(i + 1, 60) if labels[i] != labels[j]
    }


def test_duplicates_and_opposites_are_one_and_minus_one():
    """Which float32 products miss by some bits."""
    rows = np.random.default_rng(0).standard_normal((5, 300))
    embeddings = np.concatenate((rows, rows * 3, -rows))
    found = verification(embeddings, np.tile(np.arange(5), 3), [0.5])
    assert found.genuine == 15
    assert found.curve.tar[found.curve.threshold <= 1.0 - 2**-22][0] == pytest.approx(1 / 3)
    assert found.curve.threshold.min() == -1.0


@pytest.mark.parametrize("seed", range(5))
def test_the_pair_that_a_threshold_rests_on_is_accepted(seed, tmp_path):
    """Verification, `verify` and a gallery decide alike about the lowest pair that is accepted."""
    embeddings, labels = random_case(count=200, dim=64, classes=40, seed=seed)
    units = pairs.unit_rows(embeddings)
    found = verification(embeddings, labels, [0.01])
    threshold = found.threshold_at_far[0.01]
    first, second = np.triu_indices(len(labels), 1)
    cosines = pairs.score_pairs(units, first, second)
    accepted = cosines >= threshold
    assert accepted[labels[first] != labels[second]].mean() <= 0.01
    assert accepted[labels[first] == labels[second]].mean() == found.tar_at_far[0.01]
    lowest = int(np.argmin(np.where(accepted, cosines, np.inf)))
    highest = int(np.argmax(np.where(accepted, -np.inf, cosines)))
    for pair, same in ((lowest, True), (highest, False)):
        enrolled, probe = embeddings[first[pair]], embeddings[second[pair]]
        cosine = float(units[first[pair]] @ units[second[pair]])
        assert verifying.decide(cosine, None, threshold=threshold).same is same
        # the cosine itself as a threshold: it is the same number everywhere
        exact = float(cosines[pair])
        assert verifying.decide(cosine, None, threshold=exact).same
        with arcset.Gallery.open(tmp_path / f"{pair}.db", dim=64) as gallery:
            gallery.enroll("ann", embeddings=enrolled)
            assert gallery.verify("ann", embedding=probe, threshold=exact).same
            answer = gallery.identify(embedding=probe, threshold=exact)
        assert (answer.subject, answer.cosine) == ("ann", exact)


def replicates(case, **patches):
    with mock.patch.multiple(bootstrap_pairs, **patches):
        return verification(*case, DRAWN_FARS, intervals=True, draws=200, seed=3).replicates.values


@pytest.mark.parametrize("tail", [bootstrap_pairs.TAIL_PAIRS, 0], ids=["one-by-one", "by-identity"])
@pytest.mark.parametrize("block", [{}, SMALL], ids=["large", "small"])
def test_blocks_of_draws_do_not_matter(block, tail):
    embeddings, labels = random_case(count=40, dim=16, classes=7)
    embeddings = np.sign(embeddings)  # exact cosines, whatever the block
    with (
        mock.patch.multiple(pairs, **{"BLOCK": pairs.BLOCK, **block}),
        mock.patch.multiple(bootstrap_pairs, DENSE_COUNTS=8000, TAIL_PAIRS=tail, AT_ONCE=1500),
    ):
        found = verification(embeddings, labels, DRAWN_FARS, intervals=True, draws=20, seed=3)
    check_draws(found, all_sides(embeddings, labels), 7, 20)


def test_pairs_one_by_one_and_by_identity_come_to_the_same():
    for case in (random_case(count=90, classes=30), random_case(count=60, classes=3)):
        one = replicates(case, TAIL_PAIRS=2**18)
        for name, values in replicates(case, TAIL_PAIRS=0).items():
            np.testing.assert_allclose(values, one[name], atol=1e-12, err_msg=name)


@pytest.mark.long
def test_marginals_agree_with_all_pairs_of_identities():
    """What is left out is far less than what draws differ by, and widens or narrows no interval."""
    case = random_case(count=1200, dim=16, classes=300, noise=0.7)
    full = replicates(case, DENSE_IDENTITIES=300)
    short = replicates(case, DENSE_IDENTITIES=0, TAIL_PAIRS=4000)
    for name in ("auc", "eer", "tar_at_far[0.1]", "tar_at_far[0.01]"):
        spread = full[name].std()
        assert np.sqrt(np.mean((short[name] - full[name]) ** 2)) < 0.2 * spread, name
        assert abs(np.mean(short[name] - full[name])) < 0.03 * spread, name
        assert short[name].std() == pytest.approx(spread, rel=0.03), name


@pytest.mark.long
def test_some_thresholds_agree_with_all_scores():
    """Read off between thresholds, draws are right within a small part of their spread."""
    case = random_case(count=250, dim=16, classes=50, noise=0.8)
    full = replicates(case, MOST_SCORES=10**6)
    grid = replicates(case, MOST_SCORES=0)
    for name in ("auc", "eer", "tar_at_far[0.1]", "tar_at_far[0.01]"):
        spread = full[name].std()
        error = grid[name] - full[name]
        assert abs(error.mean()) < 0.05 * spread, name
        assert error.std() < 0.2 * spread, name
