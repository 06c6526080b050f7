"""Datasets, class selection and batches.

dataset = load_dataset("mnist-sample")
selection = select(dataset, "0-4")            # train on five digits, hold five out
split = make_split(dataset.class_names, (0.6, 0.2, 0.2), data="mnist-sample")
selection = select(dataset, None, split)      # six digits to train on, two to tune, two to judge
images, labels = to_tensors(selection.train)
"""

from typing import TYPE_CHECKING

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.image import Reading
from arcset.data.named.registry import (
    DATASETS,
    DatasetEntry,
    dataset_entry,
    dataset_names,
    download_dataset,
    locate,
)
from arcset.data.selection import Selection, parse_classes, select
from arcset.data.sources.base import Listing, Source
from arcset.data.sources.load import load_dataset, open_source
from arcset.data.sources.pack import Pack, load_pack, pack
from arcset.data.split import Split, make_split, overlap
from arcset.lazy import import_later

if TYPE_CHECKING:
    from arcset.data.batches import (
        Samples,
        as_float,
        batch_count,
        epoch_seed,
        shuffled_batches,
        to_tensors,
    )
    from arcset.data.torch_dataset import IdentitySampler, TorchImages, from_torch, to_loader

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetEntry",
    "IdentitySampler",
    "ImageSet",
    "Listing",
    "Pack",
    "Reading",
    "Samples",
    "Selection",
    "Source",
    "Split",
    "TorchImages",
    "as_float",
    "batch_count",
    "dataset_entry",
    "dataset_names",
    "download_dataset",
    "epoch_seed",
    "from_torch",
    "load_dataset",
    "load_pack",
    "locate",
    "make_split",
    "open_source",
    "overlap",
    "pack",
    "parse_classes",
    "select",
    "shuffled_batches",
    "to_loader",
    "to_tensors",
]

# What needs torch, which galleries and the service do without.
__getattr__ = import_later(
    __name__,
    {
        "arcset.data.batches": [
            "Samples",
            "as_float",
            "batch_count",
            "epoch_seed",
            "shuffled_batches",
            "to_tensors",
        ],
        "arcset.data.torch_dataset": ["IdentitySampler", "TorchImages", "from_torch", "to_loader"],
    },
)
