"""How searches are computed today: in blocks, in two precisions.

All of this goes with the blocks and the precisions; what searches come to is held by
the other tests here and by the recorded measures of tests/contract.
"""

import importlib
from collections import Counter
from itertools import permutations
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arcset.evaluation import few_shot, identification, retrieval
from arcset.evaluation.few_shot import draw_in_order
from evaluation.search.searches import (
    FPIRS,
    RANKS,
    assert_equals_reference,
    cancels,
    check_drawn_again,
    outcomes,
    random_search,
    searches,
)
from evaluation.search.test_few_shot import played, random_set, shuffled
from evaluation.search.test_retrieval import (
    KS,
    assert_close,
    check_against_the_peer,
    labelled_rows,
    rankings,
    reference_measures,
    sample,
    signed_square_of_cosine,
)

pytestmark = pytest.mark.long

few_shot_module = importlib.import_module("arcset.evaluation.few_shot")  # not the function
retrieval_module = importlib.import_module("arcset.evaluation.retrieval")
searching = importlib.import_module("arcset.evaluation.identification")

WAYS = {
    "small-blocks": {"BLOCK_SCORES": 12, "PIECE_SCORES": 5, "PIECE_NUMBERS": 3},
    "pair-by-pair": {"DENSE": 0},
    "all-in-float64": {"DENSE": 10**9},
    "prescaled": {"HUGE": 1.0},
}


@pytest.mark.parametrize("scoring", ["max", "mean"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_identification_equals_the_definitions(way, scoring):
    @given(searches())
    @settings(max_examples=40)
    def check(data):
        assume(scoring == "max" or not cancels(*data[:2]))
        found = identification(*data, ranks=RANKS, fpirs=FPIRS, scoring=scoring)
        assert_equals_reference(found, *outcomes(*data, scoring))

    with mock.patch.multiple(searching, **WAYS[way]):
        check()


@pytest.mark.parametrize("per_subject", [(1, 1), (1, 5)])
def test_scores_closer_than_float32_can_tell_are_told_apart(per_subject):
    """All embeddings within 1e-4 of one direction: cosines differ by 1e-8 and less."""
    gallery, gallery_labels, probes, probe_labels = random_search(
        2, people=120, per_subject=per_subject, probes=150
    )
    gallery, probes = 1e4 + gallery, 1e4 + probes
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (gallery, probes)]
    exact = units[1] @ units[0].T
    assert len(np.unique(exact.astype(np.float32))) < 10
    found = identification(gallery, gallery_labels, probes, probe_labels, ranks=RANKS, fpirs=FPIRS)
    assert_equals_reference(found, *outcomes(gallery, gallery_labels, probes, probe_labels))
    assert 0 < found.rank[5] < 1


@given(searches())
@settings(max_examples=25)
def test_replicates_of_identification_in_small_blocks(data):
    with mock.patch.object(searching, "BLOCK_WEIGHTS", 300):
        check_drawn_again(data)


@pytest.mark.parametrize("block", [700, 1])
@pytest.mark.parametrize(("ways", "shots", "queries"), [(5, 2, 1), (8, 1, 3)])
def test_blocks_of_episodes_do_not_matter(block, ways, shots, queries):
    embeddings, labels = random_set()
    expected = played(embeddings, labels, ways, shots, queries, 40, 3)
    with mock.patch.object(few_shot_module, "BLOCK_NUMBERS", block):
        found = few_shot(
            embeddings, labels, ways=ways, shots=shots, queries=queries, episodes=40, seed=3
        )
    assert found.accuracy == pytest.approx(np.mean([w for *_, w in expected]), abs=1e-12)


@given(st.lists(st.integers(3, 9), min_size=1, max_size=12), st.integers(0, 3), st.integers(0, 9))
def test_draws_equal_a_plain_shuffle(sizes, count, seed):
    random = np.random.PCG64(seed).random_raw((len(sizes), count)).reshape(len(sizes), count)
    for pool in (few_shot_module.POOL, 20, 1):
        with mock.patch.object(few_shot_module, "POOL", pool):
            found = draw_in_order(np.array(sizes), random)
        assert found.tolist() == [
            shuffled(size, row) for size, row in zip(sizes, random, strict=True)
        ]


def test_every_order_is_drawn_as_often():
    random = np.random.PCG64(0).random_raw((24_000, 3))
    counts = Counter(map(tuple, draw_in_order(np.full(24_000, 4), random).tolist()))
    assert set(counts) == set(permutations(range(4), 3))
    assert max(abs(count - 1000) for count in counts.values()) < 150


def test_draws_are_what_they_always_were():
    """The same on every platform and with every release."""
    found = draw_in_order(np.full(2, 100), np.random.PCG64(0).random_raw((2, 4)))
    assert found.tolist() == [[71, 83, 66, 34], [71, 8, 37, 59]]


@pytest.mark.parametrize("precise", [10**8, 0])
@given(data=st.data(), block=st.sampled_from([1, 7, 2**22]))
def test_every_way_of_retrieval_equals_rankings(precise, data, block):
    rows, labels = data.draw(labelled_rows(exact=not precise))
    found = rankings(rows, labels, similarity=signed_square_of_cosine)
    assume(found)
    blocks = mock.patch.object(retrieval_module, "BLOCK_COSINES", block)
    with blocks, mock.patch.object(retrieval_module, "PRECISE", precise):
        result = retrieval(np.array(rows), labels, ks=KS)
    assert_close(result, reference_measures(found))
    assert (result.queries, result.left_out) == (len(found), len(rows) - len(found))
    assert result.references == len(rows)


def test_random_rows_in_float32():
    rows, labels = sample(120, 7, 9)
    expected = reference_measures(rankings(rows, labels))
    with mock.patch.object(retrieval_module, "PRECISE", 0):
        assert_close(retrieval(rows, labels, ks=KS), expected)


@pytest.mark.parametrize("given_references", [False, True])
def test_float32_equals_the_peer(given_references):
    with mock.patch.object(retrieval_module, "PRECISE", 0):
        check_against_the_peer(40, given_references)


def test_depth_of_retrieval_goes_by_the_classes_of_a_block():
    """One large class beside small ones, in small blocks."""
    rows, labels = sample(150, 12, 6, seed=4)
    labels[labels > 8] = 0
    with mock.patch.object(retrieval_module, "BLOCK_COSINES", 600):
        result = retrieval(rows, labels, ks=KS)
    assert_close(result, reference_measures(rankings(rows, labels)))


def test_float32_hardly_moves_the_measures():
    """Two queries in ten thousand may find another one first; means over ranks move less."""
    rows, labels = sample(10_000, 100, 64, spread=2.0)
    precise = retrieval(rows, labels)
    with mock.patch.object(retrieval_module, "PRECISE", 0):
        coarse = retrieval(rows, labels)
    assert_close(coarse, precise.measures(), 2e-4)
    assert coarse.map_at_r == pytest.approx(precise.map_at_r, abs=1e-5)
