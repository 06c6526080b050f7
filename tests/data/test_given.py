"""Data in memory: sources and arrays become datasets as files do."""

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

from arcset.data import ImageSet, load_dataset
from arcset.data.dataset import Dataset
from arcset.data.sources.arrays import dataset_of_arrays, hold_back_tests
from arcset.data.torch_dataset import is_repeatable
from arcset.errors import DataError
from support import small_data


def same(one, other):
    for part in ("train", "test"):
        first, second = getattr(one, part), getattr(other, part)
        assert np.array_equal(first.images, second.images)
        assert np.array_equal(first.labels, second.labels)
        assert first.class_names == second.class_names


def test_arrays_are_read_as_an_npz_file_of_them(tmp_path):
    path = small_data.images(tmp_path / "images.npz")
    with np.load(path) as arrays:
        dataset = dataset_of_arrays(arrays["images"], arrays["labels"])
    same(dataset, load_dataset(path))


@pytest.mark.parametrize("labels", [[1.5, 2.5], [1], [[1], [2]], [None, "a"]], ids=str)
def test_labels_that_are_none_are_refused(labels):
    with pytest.raises(DataError, match="labels"):
        dataset_of_arrays(np.zeros((2, 4, 4), np.uint8), labels)


def test_a_test_part_that_is_there_stays():
    images = ImageSet(np.zeros((12, 4, 4), np.uint8), np.arange(12) % 2, ("a", "b"))
    whole = Dataset("whole", train=images, test=None, licence="unknown")
    divided = hold_back_tests(whole)
    assert (len(divided.train), len(divided.test)) == (10, 2)
    assert hold_back_tests(divided) is divided


class Noisy(TensorDataset):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image + torch.rand(()), label


class Stream(IterableDataset):
    def __iter__(self):
        yield from ((np.zeros(3), number) for number in range(20))


def test_a_dataset_that_draws_does_not_repeat_itself():
    tensors = torch.zeros(20, 1, 4, 4), torch.arange(20)
    assert is_repeatable(TensorDataset(*tensors))
    assert not is_repeatable(Noisy(*tensors))
    assert is_repeatable(Stream())
