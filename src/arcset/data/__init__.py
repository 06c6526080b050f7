"""Datasets, class selection and batches.

dataset = load_dataset("mnist-sample")
selection = select(dataset, "0-4")            # train on five digits, hold five out
images, labels = to_tensors(selection.train)
"""

from arcset.data.batches import as_float, batch_count, epoch_seed, shuffled_batches, to_tensors
from arcset.data.dataset import Dataset, ImageSet
from arcset.data.registry import (
    DATASETS,
    DatasetEntry,
    dataset_entry,
    dataset_names,
    download_dataset,
    load_dataset,
    locate,
)
from arcset.data.selection import Selection, parse_classes, select

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetEntry",
    "ImageSet",
    "Selection",
    "as_float",
    "batch_count",
    "dataset_entry",
    "dataset_names",
    "download_dataset",
    "epoch_seed",
    "load_dataset",
    "locate",
    "parse_classes",
    "select",
    "shuffled_batches",
    "to_tensors",
]
