"""Rates by group against a loop over pairs, and draws of whole groups."""

from itertools import combinations

import numpy as np
import pytest

from arcset import evaluation as ev
from arcset.errors import InputError


def people(rng, identities=40, samples=3, noise=0.6, groups=None, shift=0.0):
    """Embeddings and labels; the identities of the last group lie closer together."""
    means = rng.normal(size=(identities, 12))
    groups = np.arange(identities) % 3 if groups is None else groups
    means[groups == groups.max()] += shift
    labels = np.repeat(np.arange(identities), samples)
    return means[labels] + noise * rng.normal(size=(len(labels), 12)), labels, groups[labels]


def counted(rows, labels, by, threshold):
    """By group, and across groups: impostor pairs accepted and all, genuine rejected and all."""
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = {name: np.zeros(4, dtype=int) for name in [*np.unique(by).tolist(), "across"]}
    for i, j in combinations(range(len(rows)), 2):
        accepted, same = units[i] @ units[j] >= threshold, labels[i] == labels[j]
        line = found[by[i] if by[i] == by[j] else "across"]
        line[:2] += [accepted and not same, not same]
        line[2:] += [same and not accepted, same]
    return found


def test_rates_are_those_of_a_loop_over_pairs():
    """Samples belong to groups, so that an identity may lie in two."""
    rng = np.random.default_rng(0)
    rows, labels, _ = people(rng, shift=1.0)
    by = rng.integers(0, 3, len(labels)).astype(str)
    found = ev.by_group(rows, labels, by, threshold=0.5, draws=50)
    expected = counted(rows, labels, by, 0.5)
    assert list(found.groups) == ["0", "1", "2"]
    for name, group in [*found.groups.items(), ("across", found.across)]:
        accepted, impostor, rejected, genuine = expected[name]
        assert (group.fmr.pairs, group.fnmr.pairs) == (impostor, genuine)
        assert group.fmr.share == pytest.approx(accepted / impostor)
        assert group.fnmr.share == pytest.approx(rejected / genuine)
        assert group.fmr.interval().low <= group.fmr.share <= group.fmr.interval().high
    assert found.whole.fmr.pairs == sum(line[1] for line in expected.values())
    assert found.json()["rates"][1]["fmr"]["share"] == found.groups["0"].fmr.share


def test_a_difference_is_shown_where_there_is_one_and_seldom_elsewhere():
    rng = np.random.default_rng(1)
    rows, labels, by = people(rng, 240, shift=0.8)
    worst, _, ratio, interval = ev.by_group(rows, labels, by, far=0.01, draws=200).extremes()["FMR"]
    assert worst == "2"
    assert 1 < interval.low < ratio < interval.high
    false = 0
    for _ in range(40):
        found = ev.by_group(*people(rng, 60), far=0.02, draws=100)
        false += sum(interval.low > 1 for *_, interval in found.extremes().values())
    assert false <= 8  # 4 expected of 80, at 5 %


def test_the_threshold_is_the_lowest_that_the_whole_set_supports():
    rows, labels, by = people(np.random.default_rng(2), 12)
    found = ev.by_group(rows, labels, by, intervals=False)
    assert found.whole.fmr.share > 0.01  # ten of 66 pairs of identities
    assert "lowest" in found.basis
    assert np.isnan(found.whole.fmr.interval()).all()
    assert "–" not in found.table().splitlines()[3]


MEASURES = [ev.verification, ev.retrieval, ev.few_shot, ev.angles]


@pytest.mark.parametrize("measure", MEASURES)
def test_groups_of_one_identity_are_drawn_as_identities_are(measure):
    rows, labels, _ = people(np.random.default_rng(3))
    alone, again = (measure(rows, labels, intervals=True, groups=g) for g in (None, labels))
    for name in alone.replicates.values:
        assert alone.interval(name) == pytest.approx(again.interval(name), nan_ok=True)


def test_whole_groups_vary_more_than_identities():
    """Of eight sites one is easy to mistake, which a draw has or has not."""
    rng = np.random.default_rng(4)
    rows, labels, site = people(rng, 80, groups=np.arange(80) % 8, shift=2.0)
    widths = [
        np.ptp(ev.verification(rows, labels, intervals=True, groups=groups).interval("eer"))
        for groups in (None, site)
    ]
    assert widths[1] > 1.5 * widths[0]
    site[0] += 1
    with pytest.raises(InputError, match=r"group [01]"):
        ev.verification(rows, labels, intervals=True, groups=site)
