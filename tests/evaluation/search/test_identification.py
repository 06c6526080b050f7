"""Identification against the definitions, walked probe by probe, subject by subject."""

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arcset.evaluation import Identification, identification
from evaluation.search.searches import (
    FPIRS,
    RANKS,
    assert_equals_reference,
    cancels,
    outcomes,
    random_search,
    searches,
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


def test_ties_count_against_the_model():
    """A collapsed embedding finds nobody, whatever order the labels come in."""
    same = np.ones((6, 3))
    labels = [0, 1, 2, 3, 4, 5]
    found = identification(same[:4], [0, 1, 2, 2], same, labels, ranks=[1, 2, 3], fpirs=[0.5, 1.0])
    assert found.rank == {1: 0.0, 2: 0.0, 3: 1.0}
    assert found.dir_at_fpir == {0.5: 0.0, 1.0: 0.0}


@given(searches(), st.randoms(use_true_random=False))
def test_order_of_rows_and_names_do_not_matter(data, random):
    gallery, gallery_labels, probes, probe_labels = data
    expected = identification(*data, ranks=RANKS, fpirs=FPIRS)
    g = random.sample(range(len(gallery)), len(gallery))
    p = random.sample(range(len(probes)), len(probes))
    names = np.array(random.sample(range(-50, 50), 7))
    found = identification(
        gallery[g],
        names[gallery_labels[g]],
        probes[p],
        names[probe_labels[p]],
        ranks=RANKS,
        fpirs=FPIRS,
    )
    assert found.json() == expected.json()


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
    assert "* fewer than 1/FPIR non-mated probes" in found.table()


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
    assert "† no mated probes" in found.table()
    json.dumps(found.json(), allow_nan=False)


@pytest.mark.parametrize("fpir", [0.29, 0.57, 0.58, 0.07])
def test_rates_are_counted_in_whole_probes(fpir):
    """0.29 · 100 is less than 29 in floating point."""
    angles = np.linspace(0.1, 1.5, 100)
    probes = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    labels = np.full(200, 5)
    labels[:100] = 0
    found = identification([[1, 0]], [0], np.tile(probes, (2, 1)), labels, fpirs=[fpir])
    assert found.dir_at_fpir[fpir] == fpir
    threshold = found.threshold_at_fpir[fpir]
    assert np.count_nonzero(np.cos(angles) >= threshold) == round(100 * fpir)


# Sanity, input, output.


def test_table_and_json():
    found = identification(*random_search(), intervals=True, draws=50)
    assert isinstance(found, Identification)
    lines = found.table().splitlines()
    assert lines[0].startswith("gallery           10 subjects, ")
    assert lines[0].endswith("samples, scored by max")
    assert any(line.lstrip().startswith("1  0.") and "[" in line for line in lines)
    assert lines[-1] == "* fewer than 1/FPIR non-mated probes"
    content = json.loads(json.dumps(found.json(), allow_nan=False))
    assert content["rank"]["1"] == found.rank[1]
    assert content["dir_at_fpir"]["0.1"] == found.dir_at_fpir[0.1]
    assert content["dir_at_fpir"]["0.001"] is None
    assert content["curve"]["fpir"] == found.curve.fpir.tolist()
    assert content["cmc"] == found.cmc.tolist()
    assert len(content["intervals"]["rank[1]"]) == 2
