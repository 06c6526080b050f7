"""Verification against the definitions, walked pair by pair, and against scikit-learn."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.metrics import roc_auc_score, roc_curve

from arcset.evaluation import verification
from arcset.evaluation.bootstrap import draw_key
from evaluation.pairs.references import (
    DRAWN_FARS,
    FARS,
    all_pairs,
    all_scores,
    at_cosines,
    check_against_the_definitions,
    check_draws,
    labelled,
    random_case,
)


@given(labelled())
def test_equals_the_definitions(data):
    embeddings, labels = data
    found = verification(embeddings, labels, FARS)
    check_against_the_definitions(found, *all_scores(embeddings, labels))


@pytest.mark.parametrize("seed", range(4))
def test_equals_scikit_learn(seed):
    embeddings, labels = random_case(seed=seed, noise=0.5 + seed)
    if seed % 2:
        embeddings = np.sign(embeddings)[:, :4]  # many ties
    genuine, impostor = all_scores(embeddings, labels)
    truth = np.repeat([1, 0], [len(genuine), len(impostor)])
    scores = np.concatenate((genuine, impostor))
    found = verification(embeddings, labels, (0.3, 0.1, 1e-2, 1e-3))
    assert found.auc == pytest.approx(roc_auc_score(truth, scores), abs=1e-6)
    fpr, tpr, _ = roc_curve(truth, scores, drop_intermediate=False)
    for far, tar in found.tar_at_far.items():
        assert tar == pytest.approx(tpr[fpr <= far].max(), abs=1e-12)
    frr = 1 - tpr
    assert found.eer == pytest.approx(np.interp(0.0, fpr - frr, fpr), abs=1e-9)


def test_given_pairs_equal_all_pairs():
    embeddings, labels = random_case()
    i, j = np.triu_indices(len(labels), k=1)
    order = np.random.default_rng(1).permutation(len(i))
    pairs = np.stack((j, i), axis=1)[order]
    same = (labels[i] == labels[j])[order]
    everything = verification(embeddings, labels)
    found = verification(embeddings, pairs=pairs, same=same)
    assert found.measures() == pytest.approx(everything.measures(), abs=1e-6, nan_ok=True)
    assert found.threshold_at_far == pytest.approx(
        everything.threshold_at_far, abs=1e-6, nan_ok=True
    )
    tensors = [torch.from_numpy(values) for values in (embeddings, pairs, same, labels)]
    given = {"pairs": tensors[1], "same": tensors[2]}
    assert verification(tensors[0], **given).json() == found.json()
    assert verification(tensors[0], tensors[3], **given).json() == found.json()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_any_type_of_number(dtype):
    embeddings, labels = random_case()
    tensor = torch.from_numpy(embeddings).to(dtype)
    expected = verification(tensor.double().numpy(), labels)
    found = verification(tensor.requires_grad_(), torch.from_numpy(labels))
    assert found.json() == expected.json()
    huge = verification(tensor.detach().double().numpy() * 1e300, labels)
    assert huge.auc == pytest.approx(expected.auc, abs=1e-6)


# Rates at their edges, where floating point and ties decide, and the curve through them.


HUNDRED = np.arange(100) / 128


def judged(genuine, impostor, fars=(0.5,)):
    """Verification of pairs with these cosines."""
    rows, pairs = at_cosines([*genuine, *impostor])
    same = np.arange(len(pairs)) < len(genuine)
    return verification(rows, pairs=pairs, same=same, fars=fars)


def test_a_rate_that_is_too_rare_is_said_to_people_and_null_to_programs():
    found = judged(HUNDRED, HUNDRED, (0.5, 1e-3))
    assert "100 genuine and 100 impostor pairs" in found.table()
    assert "fewer than 1/FAR impostor pairs" in found.table()
    content = json.loads(json.dumps(found.json(), allow_nan=False))
    assert content["tar_at_far"] == {"0.5": 0.5, "0.001": None}
    assert content["curve"].keys() == {"threshold", "far", "tar"}


def test_every_percent_of_a_hundred():
    """k of 100 impostors are accepted at FAR k/100, though 0.29 · 100 is not 29 in float64."""
    fars = [percent / 100 for percent in range(1, 100)]
    below = [math.nextafter(far, 0.0) for far in fars]
    found = judged(HUNDRED, HUNDRED, (*fars, *below))
    for percent, (far, less) in enumerate(zip(fars, below, strict=True), 1):
        assert found.tar_at_far[far] == far
        assert (found.threshold_at_far[far] <= HUNDRED).sum() == percent
        if percent > 1:
            assert found.tar_at_far[less] == (percent - 1) / 100
    assert math.isnan(found.tar_at_far[below[0]])


def test_a_curve_has_few_points_close_together_on_a_logarithmic_axis():
    found = verification(*random_case(count=1200, dim=32, classes=40, noise=1.5), [1e-3])
    curve = found.curve
    assert found.impostor > 500_000
    assert len(curve.far) <= 500
    assert (curve.far[0], curve.tar[0], curve.far[-1], curve.tar[-1]) == (0, 0, 1, 1)
    for rising in (curve.far, curve.tar, -curve.threshold):
        assert (np.diff(rising) >= 0).all()
    inside = curve.far[curve.far >= 2e-5]
    assert np.diff(np.log10(inside)).max() < 1 / 20
    assert np.diff(curve.tar).max() < 0.02
    assert np.abs(curve.far - 1e-3).min() < 1e-5


# Draws of identities, against pairs weighted and counted one by one.


@settings(max_examples=10)
@given(labelled())
def test_equals_the_definition(data):
    embeddings, labels = data
    found = verification(embeddings, labels, DRAWN_FARS, intervals=True, draws=20, seed=3)
    identities, numbers = np.unique(labels, return_inverse=True)
    check_draws(found, all_pairs(embeddings, labels), numbers, 20)
    assert found.replicates.identities == len(identities)
    assert found.replicates.key == draw_key(identities, 3, 20)


def test_given_pairs():
    embeddings, labels = random_case(count=30, classes=5)
    pairs = all_pairs(embeddings, labels)
    chosen = [pairs[k] for k in np.random.default_rng(1).permutation(len(pairs))[:200]]
    _, same, rows = zip(*chosen, strict=True)
    options = {"intervals": True, "draws": 20, "seed": 3}
    found = verification(embeddings, labels, DRAWN_FARS, pairs=rows, same=same, **options)
    check_draws(found, chosen, labels, 20)


def test_coverage_of_the_interval():
    """Of sets drawn from one population, about 95 % of the intervals hold its AUC."""
    population = verification(*random_case(count=1500, dim=8, classes=500, seed=99)).auc
    held = 0
    for seed in range(20):
        case = random_case(count=60, dim=8, classes=20, seed=seed)
        low, high = verification(*case, intervals=True, draws=200).interval("auc")
        held += low <= population <= high
    assert held >= 16
