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


# What the probes cannot tell.


def test_only_mated_probes():
    gallery, gallery_labels, probes, probe_labels = random_search()
    mated = np.isin(probe_labels, gallery_labels)
    found = identification(
        gallery, gallery_labels, probes[mated], probe_labels[mated], intervals=True, draws=20
    )
    assert found.unmated == found.unmated_identities == 0
    assert not math.isnan(found.rank[1])
    assert all(math.isnan(v) for v in found.dir_at_fpir.values())
    assert all(math.isnan(v) for v in found.threshold_at_fpir.values())
    assert len(found.curve.fpir) == len(found.curve.fnir) == len(found.curve.threshold) == 0
    assert math.isnan(found.interval("dir_at_fpir[0.1]").low)
    assert "fewer than 1/FPIR non-mated probes" in found.table()


def test_only_unmated_probes():
    data = random_search()
    gallery, gallery_labels, probes, probe_labels = data
    strangers = ~np.isin(probe_labels, gallery_labels)
    found = identification(
        gallery, gallery_labels, probes[strangers], probe_labels[strangers], intervals=True, draws=9
    )
    assert found.mated == 0
    assert len(found.cmc) == 0
    assert len(found.curve.fpir) == 0
    assert math.isnan(found.rank[1])
    assert math.isnan(found.dir_at_fpir[0.1])
    _, unmated = outcomes(*data)
    threshold = found.threshold_at_fpir[0.1]  # a threshold needs no mated probe
    assert np.mean([best >= threshold for _, best in unmated]) <= 0.1
    assert "no mated probes" in found.table()
    json.dumps(found.json(), allow_nan=False)


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
