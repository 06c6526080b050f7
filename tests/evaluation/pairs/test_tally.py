"""Large sets: counted cosines, against the definitions on these very cosines.

These go with the cells that cosines are counted in; what large sets come to is held by the recorded
measures of tests/contract.
"""

import importlib
from unittest import mock

import numpy as np
import pytest
import torch

from arcset.evaluation import pairs, verification
from arcset.evaluation.pairs import SortedRows
from evaluation.pairs.references import (
    FARS,
    check_against_the_definitions,
    random_case,
)

pytestmark = pytest.mark.long

verifying = importlib.import_module("arcset.evaluation.verification")  # not the function


@pytest.fixture(autouse=True)
def everything_is_large():
    with mock.patch.object(verifying, "KEPT_EMBEDDINGS", 0):
        yield


def rounded_scores(embeddings, labels):
    """The cosines that large sets are judged by: float32 products, rounded."""
    rows = SortedRows.build(embeddings, labels, torch.float32)
    products = (rows.units @ rows.units.T).double().numpy()
    cosines = np.clip(np.round(products * 2**21) / 2**21, -1, 1)
    genuine, impostor = [], []
    for i in range(len(cosines)):
        for j in range(i + 1, len(cosines)):
            same = rows.numbers[i] == rows.numbers[j]
            (genuine if same else impostor).append(cosines[i, j])
    return np.array(genuine), np.array(impostor)


@pytest.mark.parametrize("block", [pairs.COUNTED_BLOCK, (3, 4), (1, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_definitions(block, seed):
    """Rows of length 1, 2 and 4, whose products are exact: many tie, whatever the block."""
    rng = np.random.default_rng(seed)
    embeddings = rng.choice([-1.0, 1.0], (20, 16))
    for row, length in zip(embeddings, rng.choice([1, 4, 16], 20), strict=True):
        row[rng.permutation(16)[length:]] = 0.0
    labels = rng.integers(0, 4, 20)
    with mock.patch.object(pairs, "COUNTED_BLOCK", block):
        found = verification(embeddings, labels, FARS)
    check_against_the_definitions(found, *rounded_scores(embeddings, labels))


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_the_counting(threads):
    embeddings, labels = random_case(count=50)
    with (
        mock.patch.object(pairs, "COUNTED_BLOCK", (20, 64)),
        mock.patch.object(torch, "get_num_threads", return_value=threads),
    ):
        found = verification(embeddings, labels, FARS)
    check_against_the_definitions(found, *rounded_scores(embeddings, labels))


@pytest.mark.parametrize("classes", [2, 40])
def test_near_what_small_sets_get(classes):
    """Thresholds differ by the rounding, rates by the few pairs that fall in between."""
    embeddings, labels = random_case(count=1500, dim=64, classes=classes, noise=2.0)
    large = verification(embeddings, labels)
    with mock.patch.object(verifying, "KEPT_EMBEDDINGS", 1500):
        small = verification(embeddings, labels)
    assert (large.genuine, large.impostor) == (small.genuine, small.impostor)
    assert large.auc == pytest.approx(small.auc, abs=large.auc_error + 1e-6)
    assert large.eer == pytest.approx(small.eer, abs=large.eer_error + 1e-5)
    assert 0 < large.auc_error < 1e-5
    assert large.eer_error < 1e-4
    for far, tar in small.tar_at_far.items():
        assert large.tar_at_far[far] == pytest.approx(tar, abs=1e-4, nan_ok=True)
        threshold = small.threshold_at_far[far]
        assert large.threshold_at_far[far] == pytest.approx(threshold, abs=1e-4, nan_ok=True)


def test_duplicates_and_opposites_stay_within_the_cells():
    """Cosines of ±1, which float32 products miss by some bits."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5, 300))
    embeddings = np.concatenate((rows, rows * 3, -rows))
    found = verification(embeddings, np.tile(np.arange(5), 3), [0.5])
    assert found.genuine == 15
    assert found.curve.tar[found.curve.threshold <= 1.0 - 2**-22][0] == pytest.approx(1 / 3)
    assert found.curve.threshold.min() == -1.0


def test_cells_are_multiples_of_the_step():
    cosines = torch.linspace(-1.0, 1.0, 100_001)
    values = pairs.cell_values()[pairs.to_cells(cosines.clone()).numpy()]
    assert np.abs(values - cosines.numpy()).max() <= 2**-22
    assert np.array_equal(values * 2**21, np.round(values * 2**21))
    beyond = torch.tensor([-1.0 - 5e-6, 1.0 + 5e-6])
    assert pairs.cell_values()[pairs.to_cells(beyond).numpy()].tolist() == [-1.0, 1.0]
