"""The list of inputs in a file: written once, in one pass, and read shard by shard."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from arcset.data.sources.base import Entry, Source
from arcset.errors import DataError

__all__ = ["InputList", "Listed", "write_list"]

_AT_ONCE = 1 << 13  # entries of a row group, and whose files are looked at together
_LOOKERS = 16  # threads that wait for the file system
_COUNTED = 100_000  # identities that are told apart, where they come in no order
_DIGEST = "arcset.listed"
_SAME_FOLDER = "all processes must see the same folder under this name"


@dataclass(frozen=True)
class Listed:
    """What a list holds.

    inputs: how many. digest: of all about them, 64 hexadecimal digits.
    identities: how many these are of; None where there are more than are counted.
    """

    inputs: int
    digest: str
    identities: int | None


def write_list(source: Source, path: Path) -> Listed:
    """Write all entries of a source to a Parquet file, some at a time.

    The digest covers paths, labels, and the size of each file, so that a list is known again.
    Raises `DataError` where there is nothing to list.
    """
    from pyarrow import parquet

    found = hashlib.sha256(f"{source.kind}\n{source.stamp_of_all()}\n".encode())
    identities = _Identities(source.grouped)
    count = 0
    entries = source.entries()
    with (
        parquet.ParquetWriter(path, _schema(), write_statistics=False) as file,
        ThreadPoolExecutor(_LOOKERS, "list") as pool,
    ):
        while some := list(islice(entries, _AT_ONCE)):
            slices = [some[start::_LOOKERS] for start in range(_LOOKERS)]
            stamps = [0] * len(some)
            for start, part in enumerate(pool.map(source.stamp, slices)):
                stamps[start::_LOOKERS] = part
            for entry, stamp in zip(some, stamps, strict=True):
                line = "\0".join(
                    (
                        "\1" if entry.path is None else entry.path,
                        entry.label,
                        entry.file,
                        f"{entry.record} {stamp}",
                        entry.why,
                    )
                )
                found.update(_encoded(line) + b"\n")
                if not entry.why:
                    identities.add(entry.label)
            file.write_batch(_batch(some))
            count += len(some)
        file.add_key_value_metadata({_DIGEST: found.hexdigest()})
    if not count:
        raise DataError(f"{source.name} holds nothing to embed")
    return Listed(count, found.hexdigest(), identities.count)


class InputList:
    """A list that was written, from which entries are read by their places.

    digest: that of the list that is meant. Raises `DataError` where this one is another, as one of
    an earlier time on a machine that does not see what the first process has written.
    """

    def __init__(self, path: Path, digest: str) -> None:
        from pyarrow import ArrowException, parquet

        try:
            self._file = parquet.ParquetFile(path)
        except (OSError, ArrowException) as error:
            why = "is missing" if isinstance(error, FileNotFoundError) else f"is damaged: {error}"
            raise DataError(f"{path} {why}; {_SAME_FOLDER}") from None
        if (self._file.metadata.metadata or {}).get(_DIGEST.encode()) != digest.encode():
            raise DataError(f"{path} is not the list that was made for this call; {_SAME_FOLDER}")

    def entries(self, places: range) -> list[Entry]:
        """The entries at these places, which follow each other."""
        first, last = places.start // _AT_ONCE, (places.stop - 1) // _AT_ONCE
        table = self._file.read_row_groups(list(range(first, last + 1)))
        columns = table.slice(places.start - first * _AT_ONCE, len(places)).to_pydict()
        return [
            Entry(path, label, (path or "") if file is None else _decoded(file), record, why)
            for path, label, file, record, why in zip(*columns.values(), strict=True)
        ]


def _schema() -> Any:
    import pyarrow as arrow

    return arrow.schema(
        {
            "path": arrow.string(),
            "label": arrow.string(),
            "file": arrow.binary(),  # where it is not the path: names need not be Unicode
            "record": arrow.int64(),
            "why": arrow.string(),
        }
    )


def _batch(entries: list[Entry]) -> Any:
    import pyarrow as arrow

    columns = {
        "path": [entry.path for entry in entries],
        "label": [entry.label for entry in entries],
        "file": [
            None if entry.file == (entry.path or "") else _encoded(entry.file) for entry in entries
        ],
        "record": [entry.record for entry in entries],
        "why": [entry.why for entry in entries],
    }
    return arrow.record_batch(columns, schema=_schema())


def _encoded(text: str) -> bytes:
    """Names of files need not be Unicode: Python holds what is none as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


class _Identities:
    """Counts names; without remembering them, where those of one identity follow each other."""

    def __init__(self, grouped: bool) -> None:
        self._last: str | None = None
        self._changes = 0
        self._met: set[str] | None = None if grouped else set()
        self._grouped = grouped

    def add(self, name: str) -> None:
        if name == self._last:
            return
        self._last = name
        self._changes += 1
        if self._met is not None:
            self._met.add(name)
            if len(self._met) > _COUNTED:
                self._met = None

    @property
    def count(self) -> int | None:
        if self._grouped:
            return self._changes
        return None if self._met is None else len(self._met)
