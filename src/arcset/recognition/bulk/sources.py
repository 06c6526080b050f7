"""What is to be embedded: a list that streams, and the content of each of its entries.

The list is made by one process. Any process can then fetch any entry, without a list of its own.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data import ImageSet, load_dataset
from arcset.data.image import read_file
from arcset.data.insightface.records import RecordFile, RecordListing
from arcset.data.mapping import ClassMapping
from arcset.data.named.registry import DATASETS
from arcset.data.own import is_pack
from arcset.data.own.listing import FORMS, TABLES
from arcset.data.own.packs import LABELS, PATHS, open_pack
from arcset.data.own.streams import Entry, stream_table, stream_tree
from arcset.data.selection import counted
from arcset.errors import DataError, OptionError
from arcset.files import one_line

__all__ = ["Source", "array_source", "open_source"]

_LOOKED_AT = 256  # images of a pack that its digest looks at


class Source(ABC):
    """Samples that can be listed, and fetched one by one.

    name: what people call it. kind: in words.
    shape: (C, H, W) or (D,) of samples that are arrays; None for files that are yet to be decoded.
    features: whether the arrays are features of something else than pictures.
    grouped: whether the samples of an identity follow each other in the list.
    inverted: whether pictures were inverted when they became arrays; None: they are what they are.
    """

    name: str
    kind: str
    shape: tuple[int, ...] | None = None
    features: bool = False
    grouped: bool = False
    inverted: bool | None = False

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """All samples in order, always the same; raises `DataError` where there are none."""

    @abstractmethod
    def content(self, entry: Entry) -> bytes | npt.NDArray[Any]:
        """An image file, or an array; raises `DataError` that names the entry.

        Called from several threads at once.
        """

    def stamp(self, entries: list[Entry]) -> list[int]:
        """A number per entry that changes with its content, as the size of a file does."""
        return [0] * len(entries)

    def stamp_of_all(self) -> str:
        """The same for what no single entry tells."""
        return ""


class _Files(Source):
    """Image files: those below a folder, or those that a table names."""

    def __init__(self, place: Path) -> None:
        self.name = str(place)
        self._tree = self.grouped = place.is_dir()
        self.kind = "folder" if self._tree else "table"
        self._place = place
        self._root = place if self._tree else place.parent

    def entries(self) -> Iterator[Entry]:
        return stream_tree(self._place) if self._tree else stream_table(self._place)

    def content(self, entry: Entry) -> bytes:
        return read_file(self._root / entry.file, entry.path or entry.file)

    def stamp(self, entries: list[Entry]) -> list[int]:
        root = str(self._root)
        return [_size(root, entry.file) if entry.file else 0 for entry in entries]


class _Records(Source):
    """InsightFace's records; an entry says where in the file its own begins."""

    kind = "InsightFace records"

    def __init__(self, place: Path) -> None:
        self.name = str(place)
        self._place = place
        self._file = RecordFile(place / "train.rec" if place.is_dir() else place)

    def entries(self) -> Iterator[Entry]:
        listing = RecordListing(self._place)
        for index, offset in enumerate(listing.offsets.tolist()):
            yield Entry(listing.paths[index], listing.names[index], record=offset)

    def content(self, entry: Entry) -> bytes:
        key = int((entry.path or "").rpartition("#")[2])
        content = self._file.image(entry.record, key)
        if not content:
            raise DataError(f"{entry.path} holds no image")
        return content

    def stamp_of_all(self) -> str:
        return str(self._file.size)


class _Pack(Source):
    """A pack; its images stay in their file, and an entry says which row is its own."""

    kind = "pack"

    def __init__(self, place: Path) -> None:
        self.name = str(place)
        self._place = place
        said, self._images = open_pack(place)
        self.shape = (said.reading.channels, said.reading.height, said.reading.width)
        self.inverted = said.reading.invert
        self._sha256 = said.sha256

    def entries(self) -> Iterator[Entry]:
        from pyarrow import parquet

        said, _ = open_pack(self._place)
        try:
            labels = np.load(self._place / LABELS, mmap_mode="r", allow_pickle=False)
            row = 0
            with parquet.ParquetFile(self._place / PATHS) as file:
                for batch in file.iter_batches(columns=["path"]):
                    for path in batch["path"].to_pylist():
                        if labels[row] < 0 or not isinstance(path, str):
                            raise ValueError(f"image {row} has no path or no identity")
                        yield Entry(path, said.class_names[labels[row]], record=row)
                        row += 1
            if row != len(self._images):
                raise ValueError(f"{PATHS} names {row:,} of its {len(self._images):,} images")
        except Exception as error:  # numpy and Arrow raise errors of many types at damaged files
            raise DataError(f"{self._place} is no complete pack: {one_line(error)}") from error

    def content(self, entry: Entry) -> npt.NDArray[Any]:
        return np.asarray(self._images[entry.record])

    def stamp_of_all(self) -> str:
        """The checksums of its lists, and some of its pixels."""
        rows = np.linspace(0, len(self._images) - 1, min(_LOOKED_AT, len(self._images)))
        found = hashlib.sha256(repr(sorted(self._sha256.items())).encode())
        found.update(np.ascontiguousarray(self._images[rows.astype(np.int64)]).data)
        return found.hexdigest()


class _Arrays(Source):
    """Arrays in memory: of a named dataset, of an npz file, or of a part of a run's own data."""

    def __init__(self, images: ImageSet, name: str, kind: str, inverted: bool | None) -> None:
        self.name, self.kind = name, kind
        self._images = images
        self.shape = images.shape
        self.features = images.images.dtype != np.uint8
        self.inverted = inverted

    def entries(self) -> Iterator[Entry]:
        names, paths = self._images.class_names, self._images.paths
        for row, label in enumerate(self._images.labels.tolist()):
            yield Entry(None if paths is None else paths[row], names[label], record=row)

    def content(self, entry: Entry) -> npt.NDArray[Any]:
        return np.asarray(self._images.images[entry.record])

    def stamp_of_all(self) -> str:
        found = hashlib.sha256(repr((self._images.images.shape, self.shape)).encode())
        for start in range(0, len(self._images), 1024):
            part = np.asarray(self._images.images[start : start + 1024])
            found.update(np.ascontiguousarray(part).data)
        return found.hexdigest()


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

    def stamp(self, entries: list[Entry]) -> list[int]:
        return self._source.stamp(entries)

    def stamp_of_all(self) -> str:
        return self._source.stamp_of_all()


def open_source(data: str, mapping: ClassMapping | None = None) -> Source:
    """A named dataset, a folder, a table (CSV, Parquet), records (.rec), a pack or arrays (.npz).

    mapping: what identities are called from now on. Raises `DataError` where nothing is there or it
    cannot be read, and `OptionError` where it is none of these.
    """
    found = _opened(data)
    return found if mapping is None else _Renamed(found, mapping)


def _opened(data: str) -> Source:
    place = Path(data)
    if data in DATASETS or not data or not place.exists() or place.suffix.lower() == ".npz":
        dataset = load_dataset(data, single=True)  # or the sentence that says what it is not
        images = counted(dataset, everything=True)
        if data in DATASETS:
            return array_source(images, data, "named dataset")
        return _Arrays(images, data, "arrays", dataset.invert)
    if is_pack(place):
        return _Pack(place)
    if place.suffix.lower() == ".rec" or (place / "train.rec").is_file():
        return _Records(place)
    if place.is_dir() or place.suffix.lower() in TABLES:
        return _Files(place)
    raise OptionError(f"{data} is none of what is embedded here; name {FORMS}, or a pack")


def array_source(images: ImageSet, name: str, kind: str) -> Source:
    """Samples that are in memory already, or mapped from a file, and are what they are."""
    return _Arrays(images, name, kind, None)


def _size(root: str, file: str) -> int:
    """In bytes; −1 where there is no such file. Without paths' objects: it is asked of millions."""
    try:
        return os.stat(os.path.join(root, file)).st_size  # noqa: PTH116, PTH118
    except (OSError, ValueError):  # noticed when it is read
        return -1
