"""Episodes in small blocks, and how they are drawn."""

import importlib
from collections import Counter
from itertools import permutations
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.evaluation import few_shot
from arcset.evaluation.few_shot import draw_in_order
from evaluation.search.test_few_shot import played, random_set, shuffled

pytestmark = pytest.mark.long

few_shot_module = importlib.import_module("arcset.evaluation.few_shot")  # not the function


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
    found = draw_in_order(np.array(sizes), random)
    assert found.tolist() == [shuffled(size, row) for size, row in zip(sizes, random, strict=True)]


def test_every_order_is_drawn_as_often():
    random = np.random.PCG64(0).random_raw((24_000, 3))
    counts = Counter(map(tuple, draw_in_order(np.full(24_000, 4), random).tolist()))
    assert set(counts) == set(permutations(range(4), 3))
    assert max(abs(count - 1000) for count in counts.values()) < 150


def test_draws_are_what_they_always_were():
    """The same on every platform and with every release."""
    found = draw_in_order(np.full(2, 100), np.random.PCG64(0).random_raw((2, 4)))
    assert found.tolist() == [[71, 83, 66, 34], [71, 8, 37, 59]]
