"""Identification against the definitions, walked probe by probe, subject by subject."""

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arcset.evaluation import identification, trial
from evaluation.search.searches import (
    FPIRS,
    RANKS,
    assert_equals_reference,
    cancels,
    check_drawn_again,
    outcomes,
    random_search,
    rates,
    reference_rank,
    searches,
    supported,
)


@pytest.mark.parametrize("scoring", ["max", "mean"])
def test_equals_the_definitions(scoring):
    @given(searches())
    def check(data):
        assume(scoring == "max" or not cancels(*data[:2]))
        found = identification(*data, ranks=RANKS, fpirs=FPIRS, scoring=scoring)
        assert_equals_reference(found, *outcomes(*data, scoring))
        assert (found.subjects, found.samples) == (len(set(data[1])), len(data[1]))
        known = set(data[1].tolist())
        people = set(data[3].tolist())
        assert found.mated_identities == len(people & known)
        assert found.unmated_identities == len(people - known)

    check()


@pytest.mark.parametrize("kind", ["mated", "non-mated"])
def test_what_probes_of_one_kind_cannot_tell(kind):
    gallery, gallery_labels, probes, probe_labels = random_search()
    chosen = np.isin(probe_labels, gallery_labels) == (kind == "mated")
    data = gallery, gallery_labels, probes[chosen], probe_labels[chosen]
    found = identification(*data, intervals=True, draws=20)
    assert len(found.curve.fpir) == len(found.curve.threshold) == 0
    assert all(math.isnan(value) for value in found.dir_at_fpir.values())
    assert math.isnan(found.interval("dir_at_fpir[0.1]").low)
    json.dumps(found.json(), allow_nan=False)
    if kind == "mated":
        assert not math.isnan(found.rank[1])
        assert math.isnan(found.threshold_at_fpir[0.1])
        assert "fewer than 1/FPIR non-mated probes" in found.table()
    else:
        assert math.isnan(found.rank[1])
        _, unmated = outcomes(*data)  # a threshold needs no mated probe
        assert np.mean([best >= found.threshold_at_fpir[0.1] for _, best in unmated]) <= 0.1
        assert "no mated probes" in found.table()


# Identification at every threshold: its curve, and how sure it is.


@given(searches(least_mated=1, least_unmated=1))
def test_every_point_of_the_curve_is_exact(data):
    found = identification(*data, fpirs=FPIRS)
    mated, unmated = outcomes(*data)
    curve = found.curve
    for threshold, fpir, fnir in zip(curve.threshold, curve.fpir, curve.fnir, strict=True):
        false, reached = rates(mated, unmated, threshold)
        assert (fpir, fnir) == pytest.approx((false, 1 - reached), abs=1e-12)
    assert (curve.fpir[0], curve.fnir[0]) == (0.0, 1.0)
    assert curve.fpir[-1] == 1.0 or curve.fnir[-1] == pytest.approx(1 - reference_rank(mated, 1))
    for fpir in FPIRS:
        if supported(unmated, fpir):
            assert 1 - curve.fnir[curve.fpir <= fpir].min() == pytest.approx(
                found.dir_at_fpir[fpir]
            )


# Intervals.


@given(searches())
@settings(max_examples=10)
def test_replicates_equal_probes_drawn_again(data):
    check_drawn_again(data)


# Open-set trials: who is enrolled, and what follows from the seed alone.


many_labels = st.lists(st.integers(-3, 6), min_size=2, max_size=40).map(np.array)


@given(
    many_labels, st.one_of(st.just(1), st.floats(0.01, 1.0)), st.integers(1, 3), st.integers(0, 5)
)
def test_obeys_the_definition(labels, enrolled, samples, seed):
    sizes = {label: int((labels == label).sum()) for label in set(labels.tolist())}
    able = [label for label, size in sizes.items() if size >= samples + 1]
    assume(able and (len(sizes) > 1 or enrolled == 1))
    made = trial(labels, enrolled=enrolled, samples=samples, seed=seed)
    assert sorted([*made.gallery, *made.probes]) == list(range(len(labels)))
    assert list(made.gallery) == sorted(made.gallery)
    assert list(made.probes) == sorted(made.probes)
    known = set(labels[made.gallery].tolist())
    assert known <= set(able)
    for label in known:
        assert (labels[made.gallery] == label).sum() == samples
        assert (labels[made.probes] == label).sum() == sizes[label] - samples >= 1
    expected = max(1, int(enrolled * len(able) + 0.5))
    assert made.subjects == len(known)
    assert made.unknown == len(sizes) - len(known)
    assert made.subjects == expected - (enrolled < 1 and expected == len(sizes))
    assert made.unknown >= 1 or enrolled == 1
