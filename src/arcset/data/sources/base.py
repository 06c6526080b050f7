"""What a user's data is: samples that are listed one after the other, and fetched one by one."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy.typing as npt

from arcset.errors import DataError

if TYPE_CHECKING:
    from arcset.data.dataset import Dataset

FORMS = "a folder, CSV, Parquet, npz or .rec"  # what a user's data may be, for messages
PACK_FILE = "pack.json"  # the file that makes a folder a pack

#: What a user's data may be.
Kind = Literal["folder", "table", "arrays", "records", "pack"]
_KIND_OF_SUFFIX: dict[str, Kind] = {
    ".csv": "table",
    ".tsv": "table",
    ".parquet": "table",
    ".npz": "arrays",
    ".rec": "records",
}
_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing"),
}
_PART = {word: part for part, words in _SPLITS.items() for word in words}


def kind_of(path: Path) -> Kind | None:
    """What a path holds, by its name and its manifest; None for any other file, as an image.

    A folder that holds `train.rec` is one of records. A Parquet or npz file may hold embeddings
    instead: see `arcset.data.embeddings.holds_embeddings`. Raises `DataError` where nothing is
    there.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist; name {FORMS}")
    if not path.is_dir():
        return _KIND_OF_SUFFIX.get(path.suffix.lower())
    if (path / PACK_FILE).is_file():
        return "pack"
    return "records" if (path / "train.rec").is_file() else "folder"


class Entry(NamedTuple):
    """One sample that is not read yet.

    path: where it is, as shown to people; None where not known. label: its identity.
    file: its name for the file system, relative to the folder, or to that of the table.
    record: where it is within a file of many; −1 for a file of its own.
    why: of what looks like a sample and cannot be one, the reason.
    split: the word that a table has for the part that it belongs to; "" where it has none.
    """

    path: str | None
    label: str
    file: str = ""
    record: int = -1
    why: str = ""
    split: str = ""


class Source(ABC):
    """Labelled samples that can be listed as a stream, and fetched in any order by any process.

    name: what people call it. kind: in words, as "folder tree".
    shape: (C, H, W) or (D,) of samples that are arrays; None for files that are yet to be decoded.
    features: whether the arrays are features of something else than pictures.
    inverted: whether pictures were inverted when they became arrays; None: they are what they are.
    """

    name: str
    kind: str
    shape: tuple[int, ...] | None = None
    features: bool = False
    inverted: bool | None = False

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """All samples, always in the same order; raises `DataError` where there are none.

        No more than the names in one folder, or some rows of a table, are held in memory, and for
        a folder two numbers per sub-folder.
        """

    @abstractmethod
    def content(self, entry: Entry) -> bytes | npt.NDArray[Any]:
        """An image file, or an array; raises `DataError` that names the entry.

        Called from several threads at once.
        """

    def picture(self, entry: Entry) -> bytes | npt.NDArray[Any]:
        """The same, with arrays that were inverted as the picture showed them."""
        content = self.content(entry)
        return 255 - content if self.inverted and not isinstance(content, bytes) else content

    def list_samples(self) -> "Listing":
        """All samples in memory, by number."""
        return Listing.of(self, self.entries())

    def as_dataset(self) -> "Dataset | None":
        """The dataset that the samples are already; None where they are yet to be decoded."""
        return None

    def stamp(self, entries: Sequence[Entry]) -> Sequence[int]:
        """A number per entry that changes with its content, as the size of a file does."""
        return [0] * len(entries)

    def stamp_of_all(self) -> str:
        """The same for what no single entry tells."""
        return ""


@dataclass(eq=False)
class Listing:
    """The N samples of a source by number, not decoded yet.

    entries: as the source has them. skipped: (path, why) of those that cannot be samples.
    notes: sentences about whatever else was passed over.
    """

    source: Source
    entries: list[Entry]
    skipped: list[tuple[str, str]]
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, source: Source, entries: Iterable[Entry]) -> "Listing":
        """Of all entries of a source, in this order."""
        samples, skipped = [], []
        for entry in entries:
            if entry.why:
                skipped.append((entry.path or "", entry.why))
            else:
                samples.append(entry)
        return cls(source, samples, skipped)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def names(self) -> list[str]:
        """The identity of each sample."""
        return [entry.label for entry in self.entries]

    @cached_property
    def paths(self) -> list[str]:
        """Where each sample is, as shown to people: always valid Unicode."""
        return [entry.path or f"sample {entry.record}" for entry in self.entries]

    @cached_property
    def parts(self) -> list[str] | None:
        """ "train", "validation" or "test" of each sample, where a table says so."""
        if not any(entry.split for entry in self.entries):
            return None
        return [part_of(entry.split, self.source.name) for entry in self.entries]

    @property
    def path(self) -> Path:
        """What the user named."""
        return Path(self.source.name)

    @property
    def kind(self) -> str:
        """In words, as "folder tree"."""
        return self.source.kind

    def content(self, number: int) -> bytes | npt.NDArray[Any]:
        """The image file of a sample, or its pixels; raises `DataError` that names the sample."""
        return self.source.picture(self.entries[number])


def printable(name: str) -> str:
    r"""A name from the file system as valid Unicode, bytes that are none written as \xff."""
    if name.isascii():
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def part_of(split: object, source: str) -> str:
    """ "train", "validation" or "test" for a word that means it; `DataError` for any other.

    >>> part_of("Val", "faces.csv")
    'validation'
    """
    word = cell_text(split)
    if (part := _PART.get(word.lower())) is None:
        raise DataError(
            f"{source} has a row with the split {printable(word)!r}, expected one of: "
            f"{', '.join(_PART)}"
        )
    return part


def cell_text(value: object) -> str:
    """A cell as text; whole numbers that came as floats, as a missing value makes them, as such."""
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape").strip()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()
