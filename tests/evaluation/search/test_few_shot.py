"""Few-shot accuracy against episodes played one by one."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.evaluation import few_shot
from arcset.evaluation.bootstrap import identity_weights
from evaluation.pairs.references import EXACT_ROWS

# References: one shuffle step, one query, one prototype at a time.


def shuffled(size, random):
    pool = list(range(size))
    for i, number in enumerate(random):
        other = i + int(number) % (size - i)
        pool[i], pool[other] = pool[other], pool[i]
    return pool[: len(random)]


def played(embeddings, labels, ways, shots, queries, episodes, seed):
    """(episode, label, right) of every query."""
    rows_of = {}
    for row, label in enumerate(labels.tolist()):
        rows_of.setdefault(label, []).append(row)
    able = [label for label in sorted(rows_of) if len(rows_of[label]) >= shots + queries]
    chance = np.random.PCG64(seed)
    units = [row / np.linalg.norm(row) for row in embeddings]
    results = []
    for episode in range(episodes):
        random = [int(chance.random_raw()) for _ in range(ways * (1 + shots + queries))]
        people = [able[i] for i in shuffled(len(able), random[:ways])]
        prototypes, asked = [], []
        for way, person in enumerate(people):
            start = ways + way * (shots + queries)
            own = random[start : start + shots + queries]
            rows = [rows_of[person][i] for i in shuffled(len(rows_of[person]), own)]
            mean = sum(units[row] for row in rows[:shots]) / shots
            prototypes.append(mean / np.linalg.norm(mean))
            asked += [(way, row) for row in rows[shots:]]
        for way, row in asked:
            cosines = [round(float(units[row] @ prototype), 12) for prototype in prototypes]
            wins = all(cosines[way] > c for other, c in enumerate(cosines) if other != way)
            results.append((episode, people[way], wins))
    return results


def random_set(seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(30) * 5 - 9, rng.integers(1, 6, 30)))
    centers = rng.standard_normal((30, 8))
    return centers[(labels + 9) // 5] + rng.standard_normal((len(labels), 8)), labels


@pytest.mark.parametrize(("ways", "shots", "queries"), [(2, 1, 1), (5, 2, 1), (8, 1, 3), (4, 2, 2)])
def test_equals_episodes_played_one_by_one(ways, shots, queries):
    embeddings, labels = random_set(0)
    expected = played(embeddings, labels, ways, shots, queries, 40, 3)
    found = few_shot(
        embeddings, labels, ways=ways, shots=shots, queries=queries, episodes=40, seed=3
    )
    right = [wins for _, _, wins in expected]
    assert found.accuracy == pytest.approx(np.mean(right), abs=1e-12)
    assert 0.1 < found.accuracy < 1
    by_episode = [np.mean([w for e, _, w in expected if e == episode]) for episode in range(40)]
    error = np.std(by_episode, ddof=1) / math.sqrt(40)
    assert found.standard_error == pytest.approx(error, abs=1e-12)
    sizes = Counter(labels.tolist())
    assert found.identities == sum(size >= shots + queries for size in sizes.values())


@given(st.data())
def test_equals_the_definition_with_ties(data):
    labels = np.repeat([3, 1, 2], [2, 3, 2])
    rows = data.draw(st.lists(EXACT_ROWS, min_size=len(labels), max_size=len(labels)))
    embeddings = np.array(rows, dtype=np.float64)
    found = few_shot(embeddings, labels, ways=3, shots=1, episodes=6, seed=1)
    expected = played(embeddings, labels, 3, 1, 1, 6, 1)
    assert found.accuracy == pytest.approx(np.mean([w for *_, w in expected]), abs=1e-12)


def test_replicates_weigh_each_query_by_its_identity():
    embeddings, labels = random_set(1)
    options = {"ways": 5, "shots": 1, "queries": 2, "episodes": 30, "seed": 2}
    found = few_shot(embeddings, labels, **options, intervals=True, draws=20)
    sizes = Counter(labels.tolist())
    able = sorted(label for label, size in sizes.items() if size >= 3)
    queries = played(embeddings, labels, **options)
    for value, weights in zip(
        found.replicates.values["accuracy"], identity_weights(len(able), 20, 2), strict=True
    ):
        each = [weights[able.index(label)] for _, label, _ in queries]
        expected = np.average([wins for *_, wins in queries], weights=each)
        assert value == pytest.approx(expected, abs=1e-12)
    low, high = found.interval("accuracy")
    assert low <= found.accuracy <= high
