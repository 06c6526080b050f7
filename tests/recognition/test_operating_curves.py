"""Both curves against plain loops, and against the working point they are the other side of."""

import numpy as np
import pytest

from arcset.evaluation.calibration.templates import Scoring
from arcset.recognition.calibration import calibrate
from arcset.recognition.gallery import Gallery
from arcset.recognition.operating_curves import (
    operating_curves,
    scores_without_itself,
)
from support.galleries import score, unit


def people(count, each, dim=16, noise=0.6, seed=0):
    rng = np.random.default_rng(seed)
    centers = np.repeat(unit(count, dim, seed), each, axis=0)
    rows = centers + noise * rng.normal(size=centers.shape) / np.sqrt(dim)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def gallery(tmp_path):
    with Gallery.open(tmp_path / "people.db", dim=16) as opened:
        yield opened


@pytest.mark.parametrize("scoring", ["max", "mean", "top-2"])
def test_leaving_one_out_is_what_a_loop_does(scoring):
    rng = np.random.default_rng(1)
    owners = np.array([4, 1, 1, 2, 4, 4, 4, 9, 2])
    rows = unit(len(owners), 8)
    order = rng.permutation(len(owners))
    owners, rows = owners[order], rows[order]
    expected = []
    for i, owner in enumerate(owners):
        others = [j for j in range(len(owners)) if owners[j] == owner and j != i]
        if others:
            cosines = [float(rows[i].astype(float) @ rows[j].astype(float)) for j in others]
            expected.append(score(cosines, scoring))
    found = scores_without_itself(rows, owners, Scoring.of(scoring))
    np.testing.assert_allclose(np.sort(found), np.sort(expected), atol=1e-12)


def test_curves_of_a_calibrated_gallery(gallery):
    rows = people(60, 3)
    gallery.enroll_many([f"p{i // 3}" for i in range(180)], embeddings=rows)
    gallery.set_thresholds(calibrate(people(160, 3, seed=7), np.arange(480) // 3))
    curves = operating_curves(gallery)
    assert curves.genuine == 180
    assert curves.subjects == 60
    assert curves.note == ""
    thresholds = np.array(curves.thresholds)
    assert thresholds[-1] == 1
    assert np.all(np.diff(thresholds) > 0)

    missed = np.array(curves.false_reject)
    scores = scores_without_itself(rows, np.arange(180) // 3, Scoring.of("max"))
    for threshold in (0.3, 0.5, 0.8):
        place = int(np.argmin(abs(thresholds - threshold)))
        assert missed[place] == pytest.approx(np.mean(scores < thresholds[place]), abs=1e-6)
    assert missed[0] < 0.05
    assert np.all(np.diff(missed) >= 0)

    known = [(t, a) for t, a in zip(thresholds, curves.false_accept, strict=True) if a is not None]
    assert len(known) > 20
    assert all(0 < accepted <= 1 for _, accepted in known)
    for fpir in (0.3, 0.1, 0.03):
        point = gallery.working_point(fpir)
        there = np.interp(point.threshold, *np.array(known).T)
        assert there == pytest.approx(fpir, rel=0.15)


def test_the_curve_of_strangers_rises_with_the_gallery(gallery):
    gallery.set_thresholds(calibrate(people(100, 2, seed=3), np.arange(200) // 2))
    gallery.enroll_many([f"p{i}" for i in range(5)], embeddings=unit(5, 16))
    before = operating_curves(gallery)
    gallery.enroll_many([f"q{i}" for i in range(45)], embeddings=unit(45, 16, seed=2))
    after = operating_curves(gallery)
    few, many = (np.array(each.false_accept, float) for each in (before, after))  # NaN for None
    assert not (few > many).any()
    assert (few < many).any()


def test_what_is_missing_or_few_is_said(gallery):
    curves = operating_curves(gallery)
    assert curves.false_reject is None
    assert set(curves.false_accept) == {None}
    assert curves.genuine == curves.subjects == 0
    assert "calibrate" in curves.note
    assert "two samples" in curves.note
    gallery.enroll("anna", embeddings=people(1, 3))
    gallery.enroll("ben", embeddings=people(1, 1, seed=5))
    curves = operating_curves(gallery)
    assert (curves.genuine, curves.subjects) == (3, 1)
    assert "rough" in curves.note
