"""Draws of identities, against pairs weighted and counted one by one."""

import numpy as np
from hypothesis import given, settings

from arcset.evaluation import verification
from evaluation.inside import draw_key
from evaluation.pairs.references import DRAWN_FARS as FARS
from evaluation.pairs.references import all_sides, check_draws, labelled, random_case


@settings(max_examples=10)
@given(labelled())
def test_equals_the_definition(data):
    embeddings, labels = data
    found = verification(embeddings, labels, FARS, intervals=True, draws=20, seed=3)
    identities = np.unique(labels)
    check_draws(found, all_sides(embeddings, labels), len(identities), 20)
    assert found.replicates.identities == len(identities)
    assert found.replicates.key == draw_key(identities, 3, 20)


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
    check_draws(found, tuple(picked), 5, 20)


def test_coverage_of_the_interval():
    """Of sets drawn from one population, about 95 % of the intervals hold its AUC."""
    population = verification(*random_case(count=1500, dim=8, classes=500, seed=99)).auc
    held = 0
    for seed in range(20):
        case = random_case(count=60, dim=8, classes=20, seed=seed)
        low, high = verification(*case, intervals=True, draws=200).interval("auc")
        held += low <= population <= high
    assert held >= 16
