"""The named datasets: each is one file of this package that enters itself here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from arcset.data.dataset import Dataset
from arcset.registry import Registry

__all__ = [
    "DATASETS",
    "DatasetEntry",
    "dataset_entry",
    "dataset_names",
    "download_dataset",
    "locate",
    "looks_like_path",
]


@dataclass(frozen=True)
class DatasetEntry:
    """What is known about a named dataset before it is read.

    name: what users write. title: one line for listings. licence: as its publisher states it.
    classes, train, test: how many classes, training images and test images it has.
    locate: where it would come from now, in words; touches no network.
    load: read it, and download it first if need be.
    download: see to it that it is on this machine, and say where.
    """

    name: str
    title: str
    licence: str
    classes: int
    train: int
    test: int
    locate: Callable[[], str]
    load: Callable[[], Dataset]
    download: Callable[[], str]


_SUFFIXES = {".csv", ".tsv", ".npz", ".parquet", ".rec"}

# In a module of its own, because the dataset files import it and it imports them (late).
DATASETS: Registry[DatasetEntry] = Registry("dataset", "arcset.data.named")


def dataset_names() -> list[str]:
    """Every named dataset, sorted.

    >>> dataset_names()
    ['lfw-sample', 'mnist', 'mnist-sample', 'omniglot', 'orl']
    """
    return DATASETS.names()


def dataset_entry(name: str) -> DatasetEntry:
    """What is known about the dataset `name`; raises `OptionError` for a name that is not known.

    >>> entry = dataset_entry("mnist-sample")
    >>> entry.classes, entry.train, entry.test
    (10, 4000, 1000)
    """
    return DATASETS[name]


def locate(name: str) -> str:
    """Where the dataset `name` would come from now, in words.

    >>> locate("mnist-sample")
    'shipped'
    """
    return dataset_entry(name).locate()


def download_dataset(name: str) -> str:
    """See to it that the dataset `name` is on this machine; says where, as `locate` does."""
    return dataset_entry(name).download()


def looks_like_path(name: str) -> bool:
    """Whether a name that is no dataset's is meant as a path, be it there or not."""
    if not name:
        return False
    path = Path(name)
    written = len(path.parts) > 1 or name.startswith((".", "~")) or path.suffix in _SUFFIXES
    return written or path.exists()
