"""A table of images: CSV or Parquet with the columns path, label and, where it has one, split."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from arcset.data.image import read_file
from arcset.data.own.listing import Listing
from arcset.data.own.trees import shown
from arcset.errors import DataError
from arcset.files import reading

__all__ = ["TableListing", "cell_text", "part_of", "table_rows"]

_COLUMNS = {  # what a column may be called; the first is what messages ask for
    "path": ("path", "file", "filename", "image"),
    "label": ("label", "identity", "class"),
    "split": ("split", "part", "subset"),
}
_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing"),
}
_PART = {word: part for part, words in _SPLITS.items() for word in words}
_DELIMITERS = ",;\t|"

Rows = Iterator[tuple[Any, Any, Any]]


class TableListing(Listing):
    """One image per row. Paths are absolute, or relative to the folder of the table.

    CSV: separated by comma, semicolon, tab or bar, whichever splits the header into the columns
    that are needed; UTF-8, with or without its mark, or UTF-16. Columns are found by name, whatever
    their case. Labels are text, whole numbers too. Rows without path or label are skipped; files
    that are not there are noticed when they are read. Raises `DataError` for a table that cannot be
    read, lacks a column, names an unknown split, or has no row.
    """

    def __init__(self, place: Path | str) -> None:
        self.place = Path(place)
        parquet = self.place.suffix.lower() == ".parquet"
        self.kind = "Parquet table" if parquet else "CSV table"
        self._files: list[str] = []
        self.names: list[str] = []
        splits: list[Any] = []
        skipped: list[tuple[str, str]] = []
        for number, (path, label, split) in enumerate(table_rows(self.place), 1):
            if not (file := cell_text(path)):
                skipped.append((f"row {number}", "has no path"))
            elif not (name := shown(cell_text(label))):
                skipped.append((shown(file), f"has no label in row {number}"))
            else:
                self._files.append(file)
                self.names.append(name)
                splits.append(split)
        if not self.names:
            raise DataError(f"{self.place} holds no row with a path and a label")
        self.paths = [shown(file) for file in self._files]
        self.skipped = skipped
        if any(cell_text(split) for split in splits):
            self.parts = [part_of(split, str(self.place)) for split in splits]

    def content(self, index: int) -> bytes:
        """See `Listing`."""
        return read_file(self.place.parent / self._files[index], self.paths[index])


def table_rows(place: Path) -> Rows:
    """Path, label and split, None where there is no such column, of each row as it stands there."""
    return _parquet_rows(place) if place.suffix.lower() == ".parquet" else _csv_rows(place)


def part_of(split: object, source: str) -> str:
    """ "train", "validation" or "test" for a word that means it; `DataError` for any other.

    >>> part_of("Val", "faces.csv")
    'validation'
    """
    word = cell_text(split)
    if (part := _PART.get(word.lower())) is None:
        raise DataError(
            f"{source} has a row with the split {shown(word)!r}, expected one of: "
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


def _csv_rows(place: Path) -> Rows:
    try:
        with place.open("rb") as raw:
            wide = raw.read(2) in (b"\xff\xfe", b"\xfe\xff")
        with place.open(
            encoding="utf-16" if wide else "utf-8-sig",
            errors="strict" if wide else "surrogateescape",  # paths need not be Unicode
            newline="",
        ) as file:
            delimiter, header = _split_header(file.readline())
            path, label, split = _places(header, place)
            for row in csv.reader(file, delimiter=delimiter, skipinitialspace=True):
                if row:
                    row += [""] * (len(header) - len(row))
                    yield row[path], row[label], None if split is None else row[split]
    except (OSError, UnicodeError, csv.Error) as error:
        raise DataError(f"{place} is not a readable CSV file: {error}") from None


def _split_header(line: str) -> tuple[str, list[str]]:
    """The delimiter that finds the most known columns, then the most columns; and the columns."""
    known = {name for names in _COLUMNS.values() for name in names}

    def found(delimiter: str) -> tuple[int, int]:
        columns = _cells(line, delimiter)
        return sum(_plain(column) in known for column in columns), len(columns)

    delimiter = max(_DELIMITERS, key=found)
    return delimiter, _cells(line, delimiter)


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])


def _plain(column: str) -> str:
    return column.strip().lower()


def _places(header: Sequence[str], source: Path) -> tuple[int, int, int | None]:
    """Where path, label and, if there is one, split stand in the header."""
    columns = [_plain(column) for column in header]
    found = {
        what: next((columns.index(name) for name in names if name in columns), None)
        for what, names in _COLUMNS.items()
    }
    path, label = found["path"], found["label"]
    if path is None or label is None:
        missing = " and ".join(what for what in ("path", "label") if found[what] is None)
        named = shown(", ".join(column.strip() for column in header[:20])) or "none"
        raise DataError(f"{source} has no column called {missing}; its columns are: {named}")
    return path, label, found["split"]


def _parquet_rows(place: Path) -> Rows:
    from pyarrow import parquet

    with reading(place, "Parquet file"), parquet.ParquetFile(place) as file:
        header = file.schema_arrow.names
        path, label, split = _places(header, place)
        wanted = [header[at] for at in (path, label, split) if at is not None]
        for batch in file.iter_batches(columns=wanted):
            rows = [batch.column(name).to_pylist() for name in wanted]
            if split is None:
                rows.append([None] * len(batch))
            yield from zip(*rows, strict=True)
