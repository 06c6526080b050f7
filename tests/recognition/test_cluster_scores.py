import math

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import pair_confusion_matrix

from arcset import InputError
from arcset.recognition.clustering import score_clusters


@pytest.mark.parametrize("seed", range(8))
def test_pairs_and_information_as_scikit_learn_counts_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 80))
    groups, labels = rng.integers(0, rng.integers(1, 30, 2)[:, None], (2, count))
    found = score_clusters(groups, labels)
    (_, false_pairs), (missed, together) = pair_confusion_matrix(labels, groups)
    if together + false_pairs:
        assert found.precision == pytest.approx(together / (together + false_pairs))
    if together + missed:
        assert found.recall == pytest.approx(together / (together + missed))
    assert found.nmi == pytest.approx(normalized_mutual_info_score(labels, groups))
    assert (found.samples, found.groups, found.identities) == (
        count,
        len(set(groups.tolist())),
        len(set(labels.tolist())),
    )


@pytest.mark.parametrize("seed", range(5))
def test_b_cubed_sample_by_sample(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, labels = rng.integers(0, 8, (2, 40))
    precision, recall = [], []
    for row in range(40):
        group, identity = groups == groups[row], labels == labels[row]
        precision.append((group & identity).sum() / group.sum())
        recall.append((group & identity).sum() / identity.sum())
    found = score_clusters(groups, labels)
    mean, other = np.mean(precision), np.mean(recall)
    assert found.bcubed_precision == pytest.approx(mean)
    assert found.bcubed_recall == pytest.approx(other)
    assert found.bcubed_f == pytest.approx(2 * mean * other / (mean + other))


def test_perfect_all_together_and_all_alone() -> None:
    perfect = score_clusters([4, 4, 1, 1, 9], ["b", "b", "a", "a", "c"]).json()
    assert {perfect[name] for name in ("precision", "recall", "f", "bcubed_f", "nmi", "pure")} == {
        1
    }
    labels = ["a", "a", "b", "b"]
    together, alone = score_clusters([0] * 4, labels), score_clusters(range(4), labels)
    assert (together.recall, together.precision) == (1, pytest.approx(1 / 3))
    assert (together.pure, alone.recall) == (0, 0)
    assert math.isnan(alone.precision)
    assert alone.json()["precision"] is None
    assert "0.000" in str(alone)


def test_unequal_numbers_are_refused() -> None:
    for groups, labels in (([0, 1], [0]), ([], [])):
        with pytest.raises(InputError):
            score_clusters(groups, labels)
