"""Standard errors of searches, against sets from which each identity is taken away in turn."""

import numpy as np
import pytest

from arcset.evaluation import identification, retrieval


def families(seed, identities=24, samples=4, dim=6, noise=0.5):
    """Identities in pairs that are hard to tell apart, and some that are not."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(identities, dim))
    centers[1:12:2] = centers[0:12:2] + 0.4 * rng.normal(size=(6, dim))
    labels = np.repeat(np.arange(identities), samples)
    return centers[labels] + noise * rng.normal(size=(len(labels), dim)), labels


def error_of(missed, whose, blocked, identities):
    """The sum over all pairs of misses that share an identity, each pair once."""
    influence = np.bincount(whose, missed - missed.mean(), identities)
    alone = (influence**2).sum()
    for _, by in blocked:
        influence[by] += 1
    influence -= len(blocked) * np.bincount(whose, minlength=identities) / len(whose)
    influence -= influence.mean()
    dyads = {}
    for one, two in blocked:
        dyads[frozenset((one, two))] = dyads.get(frozenset((one, two)), 0) + 1
    squares = (influence**2).sum() - sum(count**2 for count in dyads.values())
    return np.sqrt(max(squares, alone) * identities / (identities - 1)) / len(whose)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("k", [1, 3])
def test_recall(seed, k):
    rows, labels = families(seed)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = units @ units.T
    np.fill_diagonal(cosines, -np.inf)

    def hits(left):
        order = np.argsort(-cosines[:, left], axis=1)[:, :k]
        return (labels[left][order] == labels[:, None]).any(axis=1)

    missed = ~hits(np.arange(len(rows)))
    blocked = []
    for identity in range(24):
        saved = missed & hits(np.flatnonzero(labels != identity)) & (labels != identity)
        blocked += [(who, identity) for who in labels[saved]]
    found = retrieval(rows, labels, ks=(k,), intervals=True, draws=20).replicates
    expected = error_of(missed, labels, blocked, 24)
    assert blocked
    assert found.error(f"recall_at[{k}]") == pytest.approx(expected)


@pytest.mark.parametrize("scoring", ["max", "mean"])
@pytest.mark.parametrize("k", [1, 3])
def test_rank(scoring, k):
    rows, labels = families(3, noise=1.2)
    enrolled = (np.arange(len(rows)) % 4 < 2) & (labels > 2)  # three are strangers
    enrolled |= (labels == 23) | (labels == 22)  # and two have no probe
    gallery, probes = (rows[enrolled], labels[enrolled]), (rows[~enrolled], labels[~enrolled])
    found = identification(*gallery, *probes, ranks=(k,), scoring=scoring, intervals=True, draws=20)

    def ranks(kept):
        kept = np.isin(gallery[1], kept)
        return identification(gallery[0][kept], gallery[1][kept], *probes, scoring=scoring).outcomes

    whose = found.outcomes.mated
    missed = found.outcomes.rank > k
    known = np.unique(probes[1])
    blocked = []
    for number, identity in enumerate(known):
        rest = ranks(np.setdiff1d(gallery[1], [identity]))
        others = whose != number
        if identity in gallery[1]:
            saved = missed[others] & (rest.rank <= k)
            blocked += [(who, number) for who in whose[others][saved]]
    assert blocked
    expected = error_of(missed, whose, blocked, len(known))
    assert found.replicates.error(f"rank[{k}]") == pytest.approx(expected)
