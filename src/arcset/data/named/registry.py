"""The named datasets: each is one file of this package that enters itself here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from arcset.data.dataset import Dataset
from arcset.data.image import Reading
from arcset.data.own import load_own
from arcset.data.own.decoding import Watch
from arcset.data.own.listing import FORMS
from arcset.errors import OptionError
from arcset.registry import Registry, unknown_name

__all__ = [
    "DATASETS",
    "DatasetEntry",
    "dataset_entry",
    "dataset_names",
    "download_dataset",
    "load_dataset",
    "locate",
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
    if name not in DATASETS and _looks_like_a_path(name):
        there = "" if Path(name).exists() else ", which does not exist"
        raise OptionError(
            f"{name!r} is a path{there}, and a named dataset is asked for: "
            f"{', '.join(dataset_names())}"
        )
    return DATASETS[name]


def load_dataset(
    name: str | Path,
    *,
    reading: Reading | None = None,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    fit: str = "pad",
    invert: bool = False,
    watch: Watch | None = None,
    single: bool = False,
) -> Dataset:
    """Read a named dataset, or the user's own data.

    name: of a dataset; what is neither shipped nor on this machine is downloaded first. Or a path:
        a folder with a sub-folder of images per identity, a CSV or Parquet table with the columns
        path and label, arrays in an npz file, records (.rec), or a pack; `load_own` says more.
        A name goes before a folder that is called alike: write ./mnist for the folder.
    reading: how own images become arrays; found from the images if left out. Named datasets and
        arrays of features are what they are, whatever it says.
    size, channels, fit, invert: how they are read where no `reading` says so, see `load_own`.
    single: whether own data of a single identity will do.
    watch: called with the number of own images done and of all, from time to time.

    Raises `OptionError` for a name that is neither, and `DataError` where files are missing and
    cannot be downloaded, are damaged, or are not what their checksums say.

        >>> load_dataset("mnist-sample").train.images.shape
        (4000, 28, 28)
    """
    text = str(name)
    if isinstance(name, Path) or (text not in DATASETS and text and Path(text).exists()):
        return load_own(
            name,
            reading=reading,
            size=size,
            channels=channels,
            fit=fit,
            invert=invert,
            watch=watch,
            single=single,
        )
    if text in DATASETS:
        return DATASETS[text].load()
    if _looks_like_a_path(text):
        raise OptionError(
            f"{text!r} does not exist; name {FORMS}, or a dataset: {', '.join(dataset_names())}"
        )
    raise OptionError(f"{unknown_name('dataset', text, dataset_names())}, or {FORMS}")


def locate(name: str) -> str:
    """Where the dataset `name` would come from now, in words.

    >>> locate("mnist-sample")
    'shipped'
    """
    return dataset_entry(name).locate()


def download_dataset(name: str) -> str:
    """See to it that the dataset `name` is on this machine; says where, as `locate` does."""
    return dataset_entry(name).download()


def _looks_like_a_path(name: str) -> bool:
    if not name:
        return False
    path = Path(name)
    written = len(path.parts) > 1 or name.startswith((".", "~")) or path.suffix in _SUFFIXES
    return written or path.exists()
