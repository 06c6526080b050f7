"""All pairs in blocks: one grid of cosines, and what blocks, counting and tails have no part in."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arcset
from arcset.evaluation import bootstrap, pairs, verification
from arcset.recognition.recognizer import EmbeddedImage
from arcset.runs.data import selection_of
from evaluation.pairs.references import (
    DRAWN_FARS,
    FARS,
    all_scores,
    check_against_the_definitions,
    labelled,
    random_case,
)
from support.random_runs import random_run

SMALL = {"BLOCK": 12, "_HEIGHT": 3, "_ROWS": 2}


@given(st.lists(st.floats(-1.000001, 1.000001), min_size=1))
def test_cosines_are_rounded_to_the_nearest_multiple(values):
    found = pairs.round_cosines(values)
    steps = found.astype(np.float64) * 2**21
    assert np.array_equal(steps, np.rint(steps))
    assert np.abs(found - np.clip(values, -1, 1)).max() <= 2**-22
    assert np.array_equal(pairs.round_cosines(found.copy()), found)
    narrow = np.array(values, dtype=np.float32)
    cells = pairs.cell_numbers(narrow.copy())
    assert np.array_equal(cells - 2**21, pairs.round_cosines(narrow) * np.float64(2**21))


@given(labelled())
def test_small_blocks_and_counting_equal_the_definitions(data):
    embeddings, labels = data
    with mock.patch.multiple(pairs, **SMALL):
        found = verification(embeddings, labels, FARS)
    check_against_the_definitions(found, *all_scores(embeddings, labels))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return random_run(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture
def recognizer(run):
    return arcset.Recognizer.load(run.path, device="cpu")


@pytest.mark.parametrize("far", [0.3, 0.1, 0.03])
def test_a_threshold_decides_alike_everywhere(far, run, recognizer, tmp_path):
    """Evaluation, `verify` and a gallery, about the lowest accepted pair and the one below it."""
    data = selection_of(run).train
    images, labels = np.asarray(data.images), np.asarray(data.labels)
    embeddings = recognizer.embed(images)
    threshold = verification(embeddings, labels, [far]).threshold_at_far[far]
    first, second = np.triu_indices(len(labels), 1)
    cosines = pairs.score_pairs(pairs.unit_rows(embeddings), first, second)
    accepted = cosines >= threshold
    assert far - 0.01 < accepted[labels[first] != labels[second]].mean() <= far
    lowest = int(np.argmin(np.where(accepted, cosines, np.inf)))
    highest = int(np.argmax(np.where(accepted, -np.inf, cosines)))
    for pair, same in ((lowest, True), (highest, False)):
        a, b = first[pair], second[pair]
        answer = recognizer.verify(images[a], images[b], threshold=threshold)
        assert answer.same is same
        assert abs(answer.cosine - cosines[pair]) <= 2**-21
        with arcset.Gallery.open(tmp_path / f"{pair}.db", dim=recognizer.dim) as gallery:
            gallery.enroll("ann", embeddings=embeddings[a])
            known = gallery.identify(embedding=embeddings[b], threshold=threshold)
        assert (known.subject == "ann") is same
        assert abs(known.cosine - cosines[pair]) <= 2**-21


def test_a_cosine_at_the_threshold_is_accepted_everywhere(recognizer, monkeypatch, tmp_path):
    """Of rows whose cosine of 0.5 is exact in every precision."""
    enrolled, probe = np.array([[1, 1, 1, 1], [1, 1, 1, -1]]) / 2
    judged = verification([enrolled, probe], pairs=[[0, 1], [0, 1]], same=[True, False], fars=[1.0])
    assert judged.curve.far[judged.curve.threshold <= 0.5].tolist() == [1.0]
    embedded = iter((enrolled, probe))
    monkeypatch.setattr(
        recognizer, "embed_each", lambda *_, **__: [EmbeddedImage(np.float32([next(embedded)]))]
    )
    assert recognizer.verify("ann.png", "probe.png", threshold=0.5).same
    with arcset.Gallery.open(tmp_path / "people.db", dim=4) as gallery:
        gallery.enroll("ann", embeddings=enrolled)
        assert gallery.identify(embedding=probe, threshold=0.5).subject == "ann"
        assert gallery.identify(embedding=probe, threshold=0.5 + 2**-22).subject is None


def replicates(case, module=bootstrap, **patches):
    with mock.patch.multiple(module, **patches):
        return verification(*case, DRAWN_FARS, intervals=True, draws=200, seed=3).replicates.values


@pytest.mark.parametrize("classes", [10, 150], ids=["few-identities", "many-identities"])
def test_a_sample_of_pairs_agrees_with_all(classes):
    """It is off by far less than what draws differ by, and widens or narrows no interval."""
    case = random_case(count=600, dim=16, classes=classes, noise=0.7)
    full, sample = (replicates(case, MOST_PAIRS=most) for most in (2**20, 2**15))
    for name in ("auc", "eer", "tar_at_far[0.1]", "tar_at_far[0.01]"):
        spread = full[name].std()
        assert np.sqrt(np.mean((sample[name] - full[name]) ** 2)) < 0.2 * spread, name
        assert abs(np.mean(sample[name] - full[name])) < 0.03 * spread, name
        assert sample[name].std() == pytest.approx(spread, rel=0.03), name
