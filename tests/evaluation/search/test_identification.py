"""Identification against the definitions, walked probe by probe, subject by subject."""

import json
import math
import tracemalloc
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arcset.errors import InputError, OptionError
from arcset.evaluation.bootstrap import identity_weights, paired
from arcset.evaluation.search import open_set, subjects
from arcset.evaluation.search.identification import Identification, identification

FPIRS = (1.0, 0.5, 0.29, 0.1, 0.01)
RANKS = (1, 2, 5)


# References: one probe, one subject, one threshold at a time.


def subject_scores(gallery, gallery_labels, probe, scoring):
    """The score of every subject, without the last digits, so that ties are ties."""
    unit = probe / np.linalg.norm(probe)
    scores = {}
    for subject in sorted(set(gallery_labels.tolist())):
        samples = [row / np.linalg.norm(row) for row in gallery[gallery_labels == subject]]
        if scoring == "mean":
            mean = sum(samples) / len(samples)
            samples = [mean / np.linalg.norm(mean)]
        scores[subject] = max(round(float(sample @ unit), 12) for sample in samples)
    return scores


def outcomes(gallery, gallery_labels, probes, probe_labels, scoring="max"):
    """(label, rank, own score) of each mated probe, and (label, best score) of the others."""
    mated, unmated = [], []
    for probe, label in zip(probes, probe_labels.tolist(), strict=True):
        scores = subject_scores(gallery, gallery_labels, probe, scoring)
        if label in scores:
            own = scores[label]
            rank = 1 + sum(score >= own for other, score in scores.items() if other != label)
            mated.append((label, rank, own))
        else:
            unmated.append((label, max(scores.values())))
    return mated, unmated


def reference_rank(mated, k):
    return np.mean([rank <= k for _, rank, _ in mated]) if mated else math.nan


def rates(mated, unmated, threshold):
    """FPIR and DIR."""
    fpir = np.mean([best >= threshold for _, best in unmated])
    return fpir, np.mean([rank == 1 and own >= threshold for _, rank, own in mated])


def reference_dir(mated, unmated, fpir):
    if not mated or not unmated:
        return math.nan
    thresholds = {math.inf, *(best for _, best in unmated), *(own for _, _, own in mated)}
    points = [rates(mated, unmated, threshold) for threshold in thresholds]
    return max(found for false, found in points if false <= fpir)


def supported(unmated, fpir):
    return fpir * len(unmated) >= 1 - 1e-9


def assert_equals_reference(found, mated, unmated):
    assert (found.mated, found.unmated) == (len(mated), len(unmated))
    for k in RANKS:
        assert found.rank[k] == pytest.approx(reference_rank(mated, k), abs=1e-12, nan_ok=True)
    if not mated:
        assert found.cmc.size == 0
    else:
        expected = [reference_rank(mated, k) for k in range(1, min(found.subjects, 100) + 1)]
        np.testing.assert_allclose(found.cmc, expected, atol=1e-12)
    for fpir in FPIRS:
        threshold = found.threshold_at_fpir[fpir]
        assert math.isnan(threshold) == (not supported(unmated, fpir))
        expected = reference_dir(mated, unmated, fpir) if supported(unmated, fpir) else math.nan
        assert found.dir_at_fpir[fpir] == pytest.approx(expected, abs=1e-12, nan_ok=True)
        if mated and not math.isnan(threshold):
            false, reached = rates(mated, unmated, threshold)
            assert false <= fpir
            assert reached == pytest.approx(expected, abs=1e-12)


@st.composite
def searches(draw, least_mated=0, least_unmated=0):
    """Few directions on a coarse grid, so that many scores tie; a label ≥ 4 is never enrolled."""
    dim = draw(st.integers(1, 3))
    row = st.lists(st.integers(-2, 2), min_size=dim, max_size=dim).filter(any)
    gallery_labels = draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    probe_labels = draw(st.lists(st.integers(0, 6), min_size=1, max_size=10))
    enrolled = [label in gallery_labels for label in probe_labels]
    assume(sum(enrolled) >= least_mated)
    assume(len(enrolled) - sum(enrolled) >= least_unmated)
    gallery = draw(st.lists(row, min_size=len(gallery_labels), max_size=len(gallery_labels)))
    probes = draw(st.lists(row, min_size=len(probe_labels), max_size=len(probe_labels)))
    return (
        np.array(gallery, dtype=np.float64),
        np.array(gallery_labels),
        np.array(probes, dtype=np.float64),
        np.array(probe_labels),
    )


def cancels(gallery, gallery_labels):
    units = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
    means = [units[gallery_labels == label].mean(axis=0) for label in set(gallery_labels)]
    return min(np.linalg.norm(mean) for mean in means) < 1e-9


def random_search(seed=0, people=20, noise=1.0, per_subject=(1, 4), probes=120, dim=6):
    """Gallery of half the people, with a varying number of samples; probes of all."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((people, dim))
    counts = rng.integers(per_subject[0], per_subject[1] + 1, people // 2)
    gallery_labels = rng.permutation(np.repeat(np.arange(people // 2) * 3 - 7, counts))
    probe_labels = rng.integers(0, people, probes) * 3 - 7
    return (
        centers[(gallery_labels + 7) // 3] + noise * rng.standard_normal((counts.sum(), dim)),
        gallery_labels,
        centers[(probe_labels + 7) // 3] + noise * rng.standard_normal((probes, dim)),
        probe_labels,
    )


WAYS = {
    "whole": {"BLOCK_SCORES": subjects.BLOCK_SCORES},
    "small-blocks": {"BLOCK_SCORES": 12, "PIECE_SCORES": 5, "PIECE_NUMBERS": 3},
    "pair-by-pair": {"DENSE": 0},
    "all-in-float64": {"DENSE": 10**9},
    "prescaled": {"HUGE": 1.0},
}


@pytest.mark.parametrize("scoring", ["max", "mean"])
@pytest.mark.parametrize("way", WAYS)
def test_equals_the_definitions(way, scoring):
    @given(searches())
    @settings(max_examples=40)
    def check(data):
        assume(scoring == "max" or not cancels(*data[:2]))
        found = identification(*data, ranks=RANKS, fpirs=FPIRS, scoring=scoring)
        assert_equals_reference(found, *outcomes(*data, scoring))
        assert (found.subjects, found.samples) == (len(set(data[1])), len(data[1]))
        known = set(data[1].tolist())
        people = set(data[3].tolist())
        assert found.mated_identities == len(people & known)
        assert found.unmated_identities == len(people - known)

    with mock.patch.multiple(subjects, **WAYS[way]):
        check()


@pytest.mark.parametrize("scoring", ["max", "mean"])
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_definitions_on_random_sets(seed, scoring):
    data = random_search(seed, noise=0.3 + 0.4 * seed)
    found = identification(*data, ranks=RANKS, fpirs=FPIRS, scoring=scoring)
    assert_equals_reference(found, *outcomes(*data, scoring))


@pytest.mark.parametrize("scale", [1e-300, 1e-38, 1.0, 1e38, 1e300])
def test_lengths_do_not_matter(scale):
    data = random_search(1)
    expected = identification(*data)
    lengths = np.random.default_rng(0).uniform(0.5, 2, (2, 200, 1)) * scale
    gallery, gallery_labels, probes, probe_labels = data
    found = identification(
        gallery * lengths[0, : len(gallery)],
        gallery_labels,
        probes * lengths[1, : len(probes)],
        probe_labels,
    )
    assert found.rank == expected.rank
    assert found.dir_at_fpir == pytest.approx(expected.dir_at_fpir, nan_ok=True)
    assert found.threshold_at_fpir == pytest.approx(expected.threshold_at_fpir, nan_ok=True)


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


def test_ties_count_against_the_model():
    """A collapsed embedding finds nobody, whatever order the labels come in."""
    same = np.ones((6, 3))
    labels = [0, 1, 2, 3, 4, 5]
    found = identification(same[:4], [0, 1, 2, 2], same, labels, ranks=[1, 2, 3], fpirs=[0.5, 1.0])
    assert found.rank == {1: 0.0, 2: 0.0, 3: 1.0}
    assert found.dir_at_fpir == {0.5: 0.0, 1.0: 0.0}


def test_duplicates_across_subjects_tie_wherever_they_stand():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 64)).astype(np.float32)
    gallery, gallery_labels = np.repeat(rows, 3, axis=0), np.arange(120)
    found = identification(gallery, gallery_labels, gallery, gallery_labels, ranks=[1, 2, 3])
    assert found.rank == {1: 0.0, 2: 0.0, 3: 1.0}


@given(searches(), st.randoms(use_true_random=False))
@settings(max_examples=40)
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


def test_takes_torch_and_half_precision():
    data = random_search(3)
    tensors = [torch.as_tensor(part) for part in data]
    assert identification(*tensors).json() == identification(*data).json()
    narrow = [t.bfloat16() if t.is_floating_point() else t for t in tensors]
    wide = [t.double() if t.is_floating_point() else t for t in narrow]
    assert identification(*narrow).json() == identification(*wide).json()


def test_one_sample_each_scores_alike_in_both_ways():
    data = random_search(4, per_subject=(1, 1))
    by_max, by_mean = (identification(*data, scoring=word).json() for word in ("max", "mean"))
    assert by_max == by_mean | {"scoring": "max"}


def test_labels_beyond_int64_are_compared_by_value():
    big = 2**63
    found = identification(
        np.eye(2), np.array([big, big + 1], np.uint64), np.eye(2), np.array([3, -1]), fpirs=[1.0]
    )
    assert (found.mated, found.unmated) == (0, 2)
    labels = np.array([5, 6], np.uint64)
    assert identification(np.eye(2), labels, np.eye(2), labels.astype(np.int8)).rank[1] == 1.0


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


def test_a_rate_needs_as_many_strangers():
    gallery, gallery_labels = np.eye(2), [0, 1]
    probes = np.concatenate((np.eye(2), np.ones((10, 2))))
    found = identification(gallery, gallery_labels, probes, [0, 1] + [2] * 10, fpirs=[0.1, 0.09])
    assert found.dir_at_fpir[0.1] == 1.0
    assert math.isnan(found.dir_at_fpir[0.09])
    assert math.isnan(found.threshold_at_fpir[0.09])


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


def test_thresholds_lie_halfway():
    gallery = [[1.0, 0.0]]
    angles = np.arccos([0.9, 0.5, 0.7, 0.1])
    probes = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    found = identification(gallery, [0], probes, [0, 0, 1, 2], fpirs=[0.5, 1.0])
    assert found.threshold_at_fpir[0.5] == pytest.approx(0.3)  # between 0.1 and 0.5
    assert found.threshold_at_fpir[1.0] == -1.0
    assert found.dir_at_fpir == {0.5: 1.0, 1.0: 1.0}


def test_a_subject_of_one_is_a_gallery():
    found = identification([[1, 0]], [3], [[1, 1], [0, 1]], [3, 4], fpirs=[1.0])
    assert found.rank[1] == 1.0
    assert found.cmc.tolist() == [1.0]


# The curve.


@given(searches(least_mated=1, least_unmated=1))
@settings(max_examples=40)
def test_every_point_of_the_curve_is_exact(data):
    found = identification(*data, fpirs=FPIRS)
    mated, unmated = outcomes(*data)
    curve = found.curve
    for threshold, fpir, fnir in zip(curve.threshold, curve.fpir, curve.fnir, strict=True):
        # the reference rounds to 12 digits, the curve to 2⁻⁴⁰
        false, reached = rates(mated, unmated, round(threshold, 9) - 1e-9)
        assert (fpir, fnir) == pytest.approx((false, 1 - reached), abs=1e-12)
    assert (curve.fpir[0], curve.fnir[0]) == (0.0, 1.0)
    assert curve.fpir[-1] == 1.0 or curve.fnir[-1] == pytest.approx(1 - reference_rank(mated, 1))
    for fpir in FPIRS:
        if supported(unmated, fpir):
            assert 1 - curve.fnir[curve.fpir <= fpir].min() == pytest.approx(
                found.dir_at_fpir[fpir]
            )


def test_a_long_curve_is_thinned_evenly_on_log_axes():
    data = random_search(5, people=300, probes=8000, per_subject=(1, 1), noise=0.3, dim=12)
    found = identification(*data)
    curve = found.curve
    assert 100 < len(curve.threshold) <= open_set.POINTS
    assert np.all(np.diff(curve.threshold) < 0)
    assert np.all(np.diff(curve.fpir) >= 0)
    assert np.all(np.diff(curve.fnir) <= 0)
    assert curve.fpir[0] == 0
    assert curve.fpir[-1] == 1
    for low, high in ((2e-3, 1e-2), (1e-2, 1e-1), (1e-1, 1)):
        assert ((curve.fpir >= low) & (curve.fpir < high)).sum() > 10
    for fpir in (0.1, 0.01, 0.001):  # thinning hides no more than one step of the grid
        best = 1 - curve.fnir[curve.fpir <= fpir].min()
        assert best <= found.dir_at_fpir[fpir] <= best + 0.01


@pytest.mark.parametrize("mated", [1, 7, 1000, 1001])
def test_a_long_curve_where_nobody_is_found(mated):
    """All mated probes tie with another subject, so that no threshold misses fewer than all."""
    angles = np.linspace(0.1, 1.5, 999)
    strangers = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    probes = np.concatenate((np.ones((mated, 2)), strangers))
    labels = np.repeat([0, 9], [mated, 999])
    curve = identification(np.eye(2), [0, 1], probes, labels).curve
    assert 100 < len(curve.fnir) <= open_set.POINTS
    assert np.all(curve.fnir == 1)
    assert (curve.fpir[0], curve.fpir[-1]) == (0, 1)


# Intervals.


def drawn(rows, weights, identities):
    """A list of probes in which each comes as often as its identity is drawn."""
    return [row for row in rows for _ in range(int(weights[identities.index(row[0])]))]


@pytest.mark.parametrize("block", [open_set.BLOCK_WEIGHTS, 300], ids=["whole", "small-blocks"])
def test_replicates_equal_probes_drawn_again(block):
    @given(searches())
    @settings(max_examples=25)
    def check(data):
        with mock.patch.object(open_set, "BLOCK_WEIGHTS", block):
            found = identification(*data, ranks=RANKS, fpirs=FPIRS, intervals=True, draws=8, seed=4)
        mated, unmated = outcomes(*data)
        identities = sorted(set(data[3].tolist()))
        assert found.replicates.identities == len(identities)
        for b, weights in enumerate(identity_weights(len(identities), 8, 4)):
            again, strangers = (
                drawn(mated, weights, identities),
                drawn(unmated, weights, identities),
            )
            for k in RANKS:
                value = found.replicates.values[f"rank[{k}]"][b]
                assert value == pytest.approx(reference_rank(again, k), abs=1e-12, nan_ok=True)
            for fpir in FPIRS:
                value = found.replicates.values[f"dir_at_fpir[{fpir:g}]"][b]
                known = supported(unmated, fpir) and supported(strangers, fpir)
                expected = reference_dir(again, strangers, fpir) if known else math.nan
                assert value == pytest.approx(expected, abs=1e-12, nan_ok=True)

    check()


def test_intervals_hold_the_value_and_pair():
    data = random_search(6, people=60, probes=600, dim=8)
    first = identification(*data, intervals=True, draws=300)
    for name, value in first.measures().items():
        low, high = first.interval(name)
        assert math.isnan(value) or low <= value <= high
    noisy = (data[0], data[1], data[2] + 3 * np.random.default_rng(0).normal(size=data[2].shape))
    second = identification(*noisy, data[3], intervals=True, draws=300)
    difference = paired(first, second, "rank", 1)
    assert difference.gain > 0
    assert difference.shown
    same = paired(first, identification(*data, intervals=True, draws=300), "dir_at_fpir[0.1]")
    assert same.interval == (0.0, 0.0)
    assert identification(*data).replicates is None


# Sanity, input, output.


def test_random_embeddings_guess():
    rng = np.random.default_rng(0)
    found = identification(
        rng.standard_normal((50, 16)),
        np.arange(50),
        rng.standard_normal((5000, 16)),
        rng.integers(0, 50, 5000),
        ranks=(1, 10, 50, 1000),
    )
    assert found.rank[1] == pytest.approx(1 / 50, abs=0.01)
    assert found.rank[10] == pytest.approx(10 / 50, abs=0.02)
    assert found.rank[50] == found.rank[1000] == 1.0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"probes": np.empty((0, 2))}, InputError, r"probes have shape \(0, 2\)"),
        ({"gallery": np.empty((0, 2))}, InputError, r"gallery have shape \(0, 2\)"),
        ({"probes": np.ones((3, 5))}, InputError, "probes have 5 columns, expected 2"),
        ({"probes": np.zeros((3, 2))}, InputError, "probes are all zero in row 0"),
        ({"gallery": [[1, 0], [0, 0]]}, InputError, "gallery are all zero in row 1"),
        ({"gallery": [[1, 0], [math.nan, 0]]}, InputError, "gallery hold nan in row 1"),
        ({"gallery_labels": [1]}, InputError, r"gallery_labels have shape \(1,\)"),
        ({"probe_labels": [0.5, 1, 2]}, InputError, "probe_labels are of type float64"),
        ({"ranks": [0]}, OptionError, "ranks hold 0, expected integers ≥ 1"),
        ({"ranks": [1.5]}, OptionError, "ranks hold 1.5"),
        ({"fpirs": [0.1, 0]}, OptionError, r"fpirs hold 0, expected rates in \(0, 1\]"),
        ({"fpirs": [math.nan]}, OptionError, "fpirs hold nan"),
        ({"scoring": "min"}, OptionError, "scoring='min' is unknown, expected one of: max, mean"),
        ({"draws": 0}, OptionError, "draws=0 is out of range"),
        ({"seed": -1}, OptionError, "seed=-1 is out of range"),
        (
            {"gallery": [[1, 0], [-1, 0]], "gallery_labels": [7, 7], "scoring": "mean"},
            InputError,
            "the samples of subject 7 cancel out",
        ),
    ],
)
def test_refuses(change, error, words):
    given_ = {
        "gallery": [[1, 0], [0, 1]],
        "gallery_labels": [0, 1],
        "probes": [[1, 0], [0, 1], [1, 1]],
        "probe_labels": [0, 1, 2],
    }
    with pytest.raises(error, match=words):
        identification(**given_ | change)


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


@pytest.mark.long
def test_a_large_gallery_stays_within_memory():
    rng = np.random.default_rng(0)
    gallery = rng.standard_normal((100_000, 512), dtype=np.float32)
    probes = rng.standard_normal((1500, 512), dtype=np.float32)
    probe_labels = np.arange(1500) * 100
    for scoring, each in (("max", 1), ("mean", 2)):
        labels = np.arange(100_000) // each
        tracemalloc.start()
        identification(gallery, labels, probes, probe_labels, scoring=scoring, intervals=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 800e6


def test_rates_at_any_threshold_are_those_of_the_curve():
    rng = np.random.default_rng(5)
    rows, labels = rng.normal(size=(60, 4)), np.repeat(np.arange(15), 4)
    found = identification(rows[::4][:9], labels[::4][:9], rows[1::2], labels[1::2])
    for threshold, fpir, fnir in zip(
        found.curve.threshold, found.curve.fpir, found.curve.fnir, strict=True
    ):
        assert found.rates_at(threshold) == pytest.approx((fpir, 1 - fnir), abs=1e-12)
    assert "outcomes" not in found.json()
