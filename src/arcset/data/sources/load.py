"""Data of any kind as a dataset in memory, or as a source: what a user names, opened."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data.dataset import Dataset
from arcset.data.decode_many import Watch
from arcset.data.image import Fit, Pixels, Reading
from arcset.data.mapping import ClassMapping
from arcset.data.named.registry import DATASETS, dataset_names
from arcset.data.selection import evaluation_images
from arcset.data.sources.arrays import (
    ArraySource,
    DatasetSource,
    dataset_of_arrays,
    load_arrays,
)
from arcset.data.sources.base import FORMS, Entry, Listing, Source, kind_of
from arcset.data.sources.folder import FolderSource
from arcset.data.sources.insightface import RecordSource
from arcset.data.sources.pack import PackSource
from arcset.data.sources.samples import choose_reading, decode_samples
from arcset.data.sources.table import TableSource
from arcset.errors import DataError, OptionError
from arcset.registry import unknown_name

_MOST_MEMORY = 1 << 31  # bytes of pixels, 2 GiB


def load_dataset(
    data: str | Path | Source,
    *,
    reading: Reading | None = None,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    fit: Fit = "pad",
    invert: bool = False,
    watch: Watch | None = None,
    single: bool = False,
) -> Dataset:
    """Read a named dataset, or the user's own data.

    data: the name of a dataset; what is neither shipped nor on this machine is downloaded first. Or
        a path: a folder with a sub-folder of images per identity, a CSV or Parquet table with the
        columns path and label, arrays in an npz file, records (.rec), or a pack. Or any `Source`.
        A name goes before a folder that is called alike: write ./mnist for the folder.
    reading: how own images become arrays. Left out, it is found from size, channels, fit, invert
        and the headers of some images, as `choose_reading` says. Named datasets and arrays of
        features are what they are, whatever it says.
    single: whether own data of a single identity will do, as for images that are only embedded.
    watch: called with the number of own images done and of all, from time to time.

    Own files that cannot be read are in `Dataset.skipped`, with the reason, and so is an identity
    that loses all of its images for training. Every fifth image of an identity that has five or
    more is for testing, unless a table's column `split` says otherwise: then rows for validation or
    testing of an identity that others of its rows train on are test images, and identities without
    a row for training are `Dataset.apart`. See `for_testing`.

    Raises `OptionError` for impossible options and a name that is neither, and `DataError` where
    files are missing and cannot be downloaded, are damaged, or are not what their checksums say;
    where there are fewer than two identities, and where own images would take more than 2 GiB.

        >>> load_dataset("mnist-sample").train.images.shape
        (4000, 28, 28)
    """
    if isinstance(data, Source):
        source = data
    elif (named := _find_named(data)) is not None:
        return named
    else:
        source = _open_path(Path(data), labelled=True)
    dataset = source.as_dataset()
    if dataset is not None:
        if reading is None and (size, channels, invert) != (None, None, False):
            reading = _reading_of(dataset, size, channels, fit, invert)
        return dataset if reading is None else _read_again(dataset, reading, Path(source.name))
    listing = source.list_samples()
    if source.shape is not None and (source.features or len(source.shape) != 3):
        images = np.stack([source.content(entry) for entry in listing.entries])
        return dataset_of_arrays(images, listing.names, name=source.name)
    if source.shape is not None:
        channels, size = channels or source.shape[0], size or source.shape[1:]
    if reading is None:
        reading = choose_reading(listing, fit=fit, size=size, channels=channels, invert=invert)
    return _load_samples(listing, reading, watch, single)


def _load_samples(listing: Listing, reading: Reading, watch: Watch | None, single: bool) -> Dataset:
    _check_memory(len(listing), reading, listing.path)
    pixels = np.empty((len(listing), *reading.shape), np.uint8)
    count = 0

    def append(images: Pixels) -> None:
        nonlocal count
        pixels[count : count + len(images)] = images
        count += len(images)

    table = decode_samples(listing, reading, append, watch=watch, single=single)
    return table.dataset(pixels[:count], reading)


def _check_memory(count: int, reading: Reading, path: Path) -> None:
    """Raises `DataError` where the pixels of `count` images would take more than is granted."""
    needed = count * math.prod(reading.shape)
    if needed > _MOST_MEMORY:
        raise DataError(
            f"the {count:,} images of {path} would take {needed / 2**30:.3g} GiB in memory, "
            f"more than {_MOST_MEMORY / 2**30:.3g}: run `arcset data pack {path} --out PACK`, and "
            f"use the pack, which stays on disk"
        )


def _reading_of(
    dataset: Dataset,
    size: int | tuple[int, int] | None,
    channels: int | None,
    fit: Fit,
    invert: bool,
) -> Reading | None:
    """How pictures that are arrays already are read again; None for features."""
    if dataset.train.images.dtype != np.uint8:
        return None
    present, *shape = dataset.train.shape
    height, width = shape if size is None else (size, size) if isinstance(size, int) else size
    return Reading(channels or present, height, width, fit, invert or dataset.invert)


def _read_again(dataset: Dataset, reading: Reading, path: Path) -> Dataset:
    """The pictures of a dataset in the shape of `reading`; features stay as they are.

    Nothing is done, or copied, where they have this shape already.
    """
    again = replace(reading, invert=reading.invert != dataset.invert)
    images = dataset.train.images
    if images.dtype != np.uint8 or (images.shape[1:] == reading.shape and not again.invert):
        return dataset
    parts = [part for part in (dataset.train, dataset.test) if part is not None]
    _check_memory(sum(len(part) for part in parts), reading, path)
    train, *test = (
        replace(part, images=np.stack([again.read(image) for image in part.images]))
        for part in parts
    )
    test_part = test[0] if test else None
    return replace(dataset, train=train, test=test_part, fit=reading.fit, invert=reading.invert)


def open_source(
    data: str | Path, mapping: ClassMapping | None = None, *, labelled: bool = True
) -> Source:
    """A named dataset, a folder, a table (CSV, Parquet), records (.rec), a pack or arrays (.npz).

    data: a `Path` is never a dataset's name, as in `load_dataset`.
    mapping: what identities are called from now on. labelled: whether images that lie in no
        sub-folder are left out.
    Raises `DataError` where nothing is there or it cannot be read, and `OptionError` where it is
    none of these.
    """
    if (named := _find_named(data)) is not None:
        images = evaluation_images(named, everything=True)
        source: Source = ArraySource(images, str(data), "named dataset")
    else:
        source = _open_path(Path(data), labelled)
    return source if mapping is None else _Renamed(source, mapping)


def _find_named(data: str | Path) -> Dataset | None:
    """The dataset of this name; None for a path, which a `Path` always is.

    Raises `OptionError` for a text that is neither.
    """
    text = str(data)
    if isinstance(data, Path) or (text and text not in DATASETS and Path(text).exists()):
        return None
    if text in DATASETS:
        return DATASETS[text].load()
    raise OptionError(
        f"{unknown_name('dataset', text, dataset_names())}; and there is no such path ({FORMS})"
    )


def _open_path(path: Path, labelled: bool) -> Source:
    match kind_of(path):
        case "folder":
            return FolderSource(path, labelled=labelled)
        case "table":
            return TableSource(path)
        case "records":
            return RecordSource(path)
        case "pack":
            return PackSource(path)
        case "arrays":
            return DatasetSource(load_arrays(path), str(path), "arrays")
    raise DataError(f"{path} cannot be read; name {FORMS}")


class _Renamed(Source):
    """Another source, under the names that a mapping gives; those that it removes are left out."""

    def __init__(self, source: Source, mapping: ClassMapping) -> None:
        self._source, self._mapping = source, mapping
        self.name, self.kind, self.shape = source.name, source.kind, source.shape
        self.features, self.inverted = source.features, source.inverted

    def entries(self) -> Iterator[Entry]:
        names = self._mapping.names
        for entry in self._source.entries():
            label = names.get(entry.label, entry.label)
            if label is not None:
                yield entry._replace(label=label)

    def content(self, entry: Entry) -> bytes | npt.NDArray[Any]:
        return self._source.content(entry)

    def stamp(self, entries: Sequence[Entry]) -> Sequence[int]:
        return self._source.stamp(entries)

    def stamp_of_all(self) -> str:
        return self._source.stamp_of_all()
