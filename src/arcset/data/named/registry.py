"""The named datasets: each is one file of this package that enters itself here."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from arcset.data.dataset import Dataset
from arcset.registry import Registry


@dataclass(frozen=True, kw_only=True)
class DatasetEntry(ABC):
    """A named dataset: what is known before it is read, and how it is found and read.

    name: what users write. title: one line for listings. licence: as its publisher states it.
    classes, train, test: how many classes, training images and test images it has.
    """

    name: str
    title: str
    licence: str
    classes: int
    train: int
    test: int

    @abstractmethod
    def locate(self) -> str:
        """Where it would come from now, in words; touches no network."""

    @abstractmethod
    def load(self) -> Dataset:
        """Read it, and download it first if need be; raises `DataError` where that fails."""

    @abstractmethod
    def download(self) -> str:
        """See to it that it is on this machine; says where, as `locate` does."""


# In a module of its own, because the dataset files import it and it imports them (late).
DATASETS: Registry[DatasetEntry] = Registry("dataset", "arcset.data.named")


def dataset_names() -> list[str]:
    """Every named dataset, sorted.

    >>> {"mnist", "orl"} <= set(dataset_names())
    True
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
