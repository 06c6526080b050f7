from pathlib import Path
from typing import Any

import numpy as np

from arcset.data import load_dataset, locate


def check(dataset: Any) -> None:
    assert dataset.name == "mnist"
    assert dataset.class_names == tuple("0123456789")
    assert dataset.train.images.shape == (60_000, 28, 28)
    assert dataset.test.images.shape == (10_000, 28, 28)
    assert dataset.train.labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(dataset.test.labels).tolist() == counts


def test_the_full_set_from_arcset_data(full_mnist: Path) -> None:
    assert locate("mnist") == str(full_mnist)
    check(load_dataset("mnist"))
