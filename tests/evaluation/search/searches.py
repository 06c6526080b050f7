"""Searches to judge, and what they come to: one probe, one subject, one threshold at a time."""

import math

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from arcset.evaluation import identification
from arcset.evaluation.bootstrap import identity_weights
from evaluation.pairs.references import EXACT_ROWS

FPIRS = (1.0, 0.5, 0.29, 0.1, 0.01)
RANKS = (1, 2, 5)


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
    ranks = range(1, found.subjects + 1) if mated else ()
    np.testing.assert_allclose(found.cmc, [reference_rank(mated, k) for k in ranks], atol=1e-12)
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
    """Exact cosines, many of which tie; a label ≥ 4 is never enrolled."""
    gallery_labels = draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    probe_labels = draw(st.lists(st.integers(0, 6), min_size=1, max_size=10))
    enrolled = [label in gallery_labels for label in probe_labels]
    assume(sum(enrolled) >= least_mated)
    assume(len(enrolled) - sum(enrolled) >= least_unmated)
    gallery = draw(st.lists(EXACT_ROWS, min_size=len(gallery_labels), max_size=len(gallery_labels)))
    probes = draw(st.lists(EXACT_ROWS, min_size=len(probe_labels), max_size=len(probe_labels)))
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


def random_search():
    """Gallery of half the people, with a varying number of samples; probes of all."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((20, 6))
    gallery_labels = np.repeat(np.arange(10), rng.integers(1, 5, 10))
    probe_labels = rng.integers(0, 20, 120)
    gallery, probes = (
        centers[labels] + rng.standard_normal((len(labels), 6))
        for labels in (gallery_labels, probe_labels)
    )
    return gallery, gallery_labels, probes, probe_labels


def drawn(rows, weights, identities):
    """A list of probes in which each comes as often as its identity is drawn."""
    return [row for row in rows for _ in range(int(weights[identities.index(row[0])]))]


def check_drawn_again(data):
    """Replicates, against probes that come as often as their identities are drawn."""
    found = identification(*data, ranks=RANKS, fpirs=FPIRS, intervals=True, draws=8, seed=4)
    mated, unmated = outcomes(*data)
    identities = sorted(set(data[3].tolist()))
    assert found.replicates.identities == len(identities)
    for b, weights in enumerate(identity_weights(len(identities), 8, 4)):
        again, strangers = (drawn(mated, weights, identities), drawn(unmated, weights, identities))
        for k in RANKS:
            value = found.replicates.values[f"rank[{k}]"][b]
            assert value == pytest.approx(reference_rank(again, k), abs=1e-12, nan_ok=True)
        for fpir in FPIRS:
            value = found.replicates.values[f"dir_at_fpir[{fpir:g}]"][b]
            known = supported(unmated, fpir) and supported(strangers, fpir)
            expected = reference_dir(again, strangers, fpir) if known else math.nan
            assert value == pytest.approx(expected, abs=1e-12, nan_ok=True)
