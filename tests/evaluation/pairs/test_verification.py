"""Verification against the definitions, walked pair by pair, and against scikit-learn."""

import json
import math
from fractions import Fraction
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from arcset.errors import InputError, OptionError
from arcset.evaluation import Verification, verification
from arcset.evaluation.pairs import scores as pair_scores

FARS = (1.0, 0.5, 0.29, 0.1, 0.01)


# References: one pair, one threshold at a time.


def all_scores(embeddings, labels):
    """Cosines of genuine and impostor pairs, without the last digits, so that ties are ties."""
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    genuine, impostor = [], []
    for i in range(len(units)):
        for j in range(i + 1, len(units)):
            score = float(np.float32(round(units[i] @ units[j], 12)))
            (genuine if labels[i] == labels[j] else impostor).append(score)
    return np.array(genuine), np.array(impostor)


def reference_auc(genuine, impostor):
    wins = sum((g > i) + 0.5 * (g == i) for g in genuine for i in impostor)
    return wins / (len(genuine) * len(impostor))


def falling_thresholds(genuine, impostor):
    return [math.inf, *sorted({*genuine, *impostor}, reverse=True)]


def reference_tar(genuine, impostor, far):
    if far * len(impostor) < 1 - 1e-9:
        return math.nan
    return max(
        float(np.mean(genuine >= threshold))
        for threshold in falling_thresholds(genuine, impostor)
        if np.mean(impostor >= threshold) <= far
    )


def reference_eer(genuine, impostor):
    """Walk from (FAR, FRR) = (0, 1) to (1, 0), and cut the step that crosses FAR = FRR."""
    points = [
        (
            Fraction(int((impostor >= threshold).sum()), len(impostor)),
            Fraction(int((genuine < threshold).sum()), len(genuine)),
        )
        for threshold in falling_thresholds(genuine, impostor)
    ]
    for (far, frr), (next_far, next_frr) in pairwise(points):
        if next_far >= next_frr:
            share = (frr - far) / ((next_far - far) + (frr - next_frr))
            return float(far + share * (next_far - far))
    raise AssertionError("the walk ends at (1, 0), beyond the crossing")


@st.composite
def labelled(draw):
    """Few directions on a coarse grid, so that many cosines tie."""
    dim = draw(st.integers(1, 3))
    labels = draw(st.lists(st.integers(0, 3), min_size=3, max_size=14))
    assume(1 < len(set(labels)) < len(labels))
    row = st.lists(st.integers(-2, 2), min_size=dim, max_size=dim).filter(any)
    rows = draw(st.lists(row, min_size=len(labels), max_size=len(labels)))
    return np.array(rows, dtype=np.float64), np.array(labels)


def random_case(count=120, dim=8, classes=6, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    points = rng.standard_normal((classes, dim))[labels]
    return points + noise * rng.standard_normal((count, dim)), labels


@pytest.mark.parametrize("block", [pair_scores.BLOCK_SCORES, 20], ids=["whole", "small-blocks"])
def test_equals_the_definitions(block):
    @given(labelled())
    def check(data):
        embeddings, labels = data
        genuine, impostor = all_scores(embeddings, labels)
        found = verification(embeddings, labels, FARS)
        assert (found.genuine, found.impostor) == (len(genuine), len(impostor))
        assert found.auc == pytest.approx(reference_auc(genuine, impostor), abs=1e-12)
        assert found.eer == pytest.approx(reference_eer(genuine, impostor), abs=1e-12)
        for far in FARS:
            expected = reference_tar(genuine, impostor, far)
            assert found.tar_at_far[far] == pytest.approx(expected, nan_ok=True)
            threshold = found.threshold_at_far[far]
            assert math.isnan(threshold) == math.isnan(expected)
            if not math.isnan(threshold):
                assert np.mean(impostor >= threshold) <= far
                assert np.mean(genuine >= threshold) == pytest.approx(expected)

    with mock.patch.object(pair_scores, "BLOCK_SCORES", block):
        check()


@pytest.mark.parametrize("seed", range(4))
def test_equals_scikit_learn(seed):
    embeddings, labels = random_case(seed=seed, noise=0.5 + seed)
    if seed % 2:
        embeddings = np.round(embeddings)  # some ties
        embeddings[~embeddings.any(axis=1)] = 1.0
    genuine, impostor = all_scores(embeddings, labels)
    truth = np.repeat([1, 0], [len(genuine), len(impostor)])
    scores = np.concatenate((genuine, impostor))
    found = verification(embeddings, labels, (0.3, 0.1, 1e-2, 1e-3))
    assert found.auc == pytest.approx(roc_auc_score(truth, scores), abs=1e-9)
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
    with mock.patch.object(pair_scores, "BLOCK_SCORES", 100):
        assert verification(embeddings, pairs=pairs, same=same) == everything
    tensors = [torch.from_numpy(values) for values in (embeddings, pairs, same)]
    assert verification(tensors[0], pairs=tensors[1], same=tensors[2]) == everything


def test_thresholds_hold_for_unrounded_cosines():
    """Near 1, where float32 is coarse: accepting by float64 cosines gives the same rates."""
    rng = np.random.default_rng(2)
    embeddings = np.array([1.0, 0, 0, 0]) + 0.02 * rng.standard_normal((150, 4))
    labels = rng.integers(0, 5, 150)
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    i, j = np.triu_indices(150, k=1)
    cosines, same = (units[i] * units[j]).sum(axis=1), labels[i] == labels[j]
    found = verification(embeddings, labels)
    for far in (1e-1, 1e-2, 1e-3):
        accepted = cosines >= found.threshold_at_far[far]
        assert accepted[~same].mean() <= far
        assert accepted[same].mean() == pytest.approx(found.tar_at_far[far], abs=1e-12)


def test_separated_and_reversed():
    apart = np.array([[1, 0], [1, 0.1], [-1, 0], [-1, 0.1]])
    perfect = verification(apart, [0, 0, 1, 1], [0.25])
    assert (perfect.auc, perfect.eer, perfect.tar_at_far[0.25]) == (1.0, 0.0, 1.0)
    worst = verification(apart[[0, 2]].repeat(2, axis=0), [0, 1, 0, 1], [0.5])
    assert worst.auc == pytest.approx(0.25)
    backwards = verification(
        apart, pairs=[[0, 2], [1, 3], [0, 1], [2, 3]], same=[True, True, False, False], fars=[0.5]
    )
    assert (backwards.auc, backwards.eer, backwards.tar_at_far[0.5]) == (0.0, 1.0, 0.0)


def test_all_cosines_equal_decide_nothing():
    found = verification(np.ones((6, 3)), [0, 0, 0, 1, 1, 1], [0.5, 1.0])
    assert (found.auc, found.eer) == (0.5, 0.5)
    assert found.tar_at_far == {0.5: 0.0, 1.0: 1.0}
    assert found.threshold_at_far[0.5] > 1.0


def test_what_the_data_cannot_support():
    """1000 impostor pairs support 1e-3, 999 do not."""
    rows = np.random.default_rng(3).standard_normal((1002, 4))
    pairs = np.stack((np.zeros(1001, int), np.arange(1, 1002)), axis=1)
    same = np.arange(1001) == 0
    enough = verification(rows, pairs=pairs, same=same, fars=[1e-3])
    assert (enough.impostor, math.isnan(enough.tar_at_far[1e-3])) == (1000, False)
    short = verification(rows, pairs=pairs[:-1], same=same[:-1], fars=[1e-3])
    assert (short.impostor, math.isnan(short.tar_at_far[1e-3])) == (999, True)
    assert math.isnan(short.threshold_at_far[1e-3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_any_type_of_number(dtype):
    embeddings, labels = random_case()
    tensor = torch.from_numpy(embeddings).to(dtype)
    expected = verification(tensor.double().numpy(), labels)
    assert verification(tensor.requires_grad_(), torch.from_numpy(labels)) == expected
    huge = verification(tensor.detach().double().numpy() * 1e300, labels)
    assert huge.auc == pytest.approx(expected.auc, abs=1e-6)


def test_table_and_json():
    result = Verification(
        auc=0.987654321,
        eer=0.05,
        tar_at_far={0.1: 0.96875, 0.0001: math.nan},
        threshold_at_far={0.1: 0.3125, 0.0001: math.nan},
        genuine=1225,
        impostor=3775,
    )
    assert result.table() == (
        "genuine pairs           1,225\n"
        "impostor pairs          3,775\n"
        "AUC                  0.987654\n"
        "EER                  0.050000\n"
        "\n"
        "     FAR       TAR  threshold\n"
        "     0.1    0.9688     0.3125\n"
        "  0.0001         -          -  *\n"
        "* fewer than 1/FAR impostor pairs"
    )
    assert json.loads(json.dumps(result.json(), allow_nan=False)) == {
        "auc": 0.987654321,
        "eer": 0.05,
        "tar_at_far": {"0.1": 0.96875, "0.0001": None},
        "threshold_at_far": {"0.1": 0.3125, "0.0001": None},
        "genuine": 1225,
        "impostor": 3775,
    }
    with pytest.raises(AttributeError):
        result.auc = 1.0


GOOD = np.eye(4)
LABELS = [0, 0, 1, 1]
PAIRS = [[0, 1], [1, 2]]
SAME = [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [0, 1]}, r"labels have shape \(2,\), expected \(4,\)"),
        ({"labels": [0.5] * 4}, "labels are of type float64, expected integers"),
        ({"labels": [0] * 4}, "there are 6 genuine and 0 impostor pairs, .* one impostor pair"),
        ({"labels": range(4)}, "there are 0 genuine and 6 impostor pairs, .* one genuine pair"),
        ({}, "neither labels nor pairs were given, expected either labels, or pairs and same"),
        ({"pairs": PAIRS}, "pairs were given"),
        ({"labels": LABELS, "pairs": PAIRS, "same": SAME}, "labels and pairs and same were given"),
        ({"pairs": [0, 1], "same": SAME}, r"pairs have shape \(2,\), expected \(P, 2\)"),
        ({"pairs": np.zeros((0, 2), int), "same": []}, r"pairs have shape \(0, 2\)"),
        ({"pairs": [[0.0, 1.0]], "same": [True]}, "pairs are of type float64, expected integers"),
        ({"pairs": [[0, 1], [3, 4]], "same": SAME}, "pairs name row 4, expected rows from 0 to 3"),
        ({"pairs": [[0, 1], [-1, 2]], "same": SAME}, "pairs name row -1"),
        ({"pairs": PAIRS, "same": [True]}, r"same has shape \(1,\), expected \(2,\)"),
        ({"pairs": PAIRS, "same": [1, 0]}, "same is of type int64, expected bool"),
        ({"pairs": PAIRS, "same": [True, True]}, "2 genuine and 0 impostor pairs"),
        ({"embeddings": np.zeros(4), "labels": LABELS}, r"embeddings have shape \(4,\)"),
        ({"embeddings": np.eye(4, 3), "labels": LABELS}, "embeddings are all zero in row 3"),
        ({"embeddings": GOOD + np.nan, "labels": LABELS}, "embeddings hold nan in row 0"),
        (
            {"embeddings": np.ones((20_001, 1)), "labels": np.zeros(20_001, int)},
            "embeddings have 20001 rows, expected at most 20000 where all pairs are scored",
        ),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        verification(**{"embeddings": GOOD, **arguments})


@pytest.mark.parametrize("fars", [[0.0], [0.1, 1.5], [math.nan], ["0.1"], -0.1])
def test_bad_rates(fars):
    with pytest.raises(OptionError, match=r"fars hold .*, expected rates in \(0, 1\]"):
        verification(GOOD, LABELS, fars)
