"""A table of images: CSV or Parquet with the columns path, label and, where it has one, split."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from arcset.data.sources.base import Entry, cell_text, printable
from arcset.data.sources.folder import FileSource
from arcset.errors import DataError
from arcset.files import reading
from arcset.registry import unknown_name

_COLUMNS = {  # what tools call a column, or an array of an npz file, in lower case
    "path": ("path", "paths", "file", "filename", "image"),
    "label": ("label", "labels", "identity", "identities", "class"),
    "split": ("split", "splits", "part", "parts", "subset"),
    "images": ("images", "x", "features", "feats", "embeddings", "embedding", "data"),
    "embeddings": ("embeddings", "embedding", "features", "feats", "x"),
    "trained_on": ("trained_on",),
}
_LABELS_OF_ARRAYS = ("targets", "y")  # beside paths of images, y is a coordinate

Rows = Iterator[tuple[Any, Any, Any]]


class TableSource(FileSource):
    """One image per row. Paths are absolute, or relative to the folder of the table.

    CSV: separated by comma, semicolon, tab or bar, whichever splits the header into the columns
    that are needed; UTF-8, with or without its mark, or UTF-16. Columns are found by name, whatever
    their case. Labels are text, whole numbers too. Rows without path or label are skipped; files
    that are not there are noticed when they are read. Raises `DataError` for a table that cannot be
    read, lacks a column, or has no row to use; and where the parts of a listing are asked for and a
    split is unknown.
    """

    def __init__(self, table: Path | str) -> None:
        self.name = str(table)
        self._table = Path(table)
        self.root = self._table.parent
        self.kind = "Parquet table" if _is_parquet(self._table) else "CSV table"

    def entries(self) -> Iterator[Entry]:
        empty = True
        rows = _parquet_rows if _is_parquet(self._table) else _csv_rows
        for number, row in enumerate(rows(self._table), 1):
            file, label, split = (cell_text(cell) for cell in row)
            name = printable(label)
            if not file:
                yield Entry(f"row {number}", name, why="has no path")
            elif not name:
                yield Entry(printable(file), "", file, why=f"has no label in row {number}")
            else:
                empty = False
                yield Entry(printable(file), name, file, split=split)
        if empty:
            raise DataError(f"{self.name} holds no row with a path and a label")


def read_table_column(table: Path, column: str) -> dict[str, str]:
    """What each path has in a further column, "" where it has nothing."""
    rows = (_parquet_rows if _is_parquet(table) else _csv_rows)(table, [column])
    return {printable(cell_text(path)): cell_text(cell) for path, _, cell in rows}


def _is_parquet(table: Path) -> bool:
    return table.suffix.lower() == ".parquet"


def _csv_rows(table: Path, further: Sequence[str] = ()) -> Rows:
    """Path, label, and a further column or the split."""
    try:
        with table.open("rb") as raw:
            wide = raw.read(2) in (b"\xff\xfe", b"\xfe\xff")
        with table.open(
            encoding="utf-16" if wide else "utf-8-sig",
            errors="strict" if wide else "surrogateescape",  # paths need not be Unicode
            newline="",
        ) as file:
            delimiter, header = _split_header(file.readline())
            columns = find_columns(header, ["path", "label"], ["split"], table, further)
            path, label = columns["path"], columns["label"]
            split = columns.get(*further or ["split"])
            for row in csv.DictReader(file, header, delimiter=delimiter, skipinitialspace=True):
                yield row[path], row[label], None if split is None else row[split]
    except (OSError, UnicodeError, csv.Error) as error:
        raise DataError(f"{table} is not a readable CSV file: {error}") from None


def _split_header(line: str) -> tuple[str, list[str]]:
    """The delimiter that finds the most known columns, then the most columns; and the columns."""
    known = {name for names in _COLUMNS.values() for name in names}
    headers = {
        delimiter: next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
        for delimiter in ",;\t|"
    }
    return max(
        headers.items(),
        key=lambda item: (len(known.intersection(map(_plain, item[1]))), len(item[1])),
    )


def _plain(column: str) -> str:
    return column.strip().lower()


def find_columns(
    header: Sequence[str],
    required: Sequence[str],
    optional: Sequence[str],
    source: Path,
    further: Sequence[str] = (),
) -> dict[str, str]:
    """What is wanted, as "label" → the column that holds it, whatever it is called and its case.

    further: columns by their very names. Raises `DataError` that lists what there is where a
    required one is missing, and `OptionError` for a further one.

        >>> find_columns(["File", "identity"], ["path", "label"], ["split"], Path("faces.csv"))
        {'path': 'File', 'label': 'identity'}
    """
    there = {_plain(column): column for column in reversed(header)}
    columns = {}
    for what in (*required, *optional):
        known = _COLUMNS[what]
        if what == "label" and "path" not in required:
            known += _LABELS_OF_ARRAYS
        names = [name for name in known if name in there]
        if names:
            columns[what] = there[names[0]]
        elif what in required:
            listed = printable(", ".join(column.strip() for column in header[:20])) or "nothing"
            raise DataError(
                f"{source} holds {listed}, expected {what} under one of the names "
                f"{', '.join(known)}"
            )
    for name in further:
        if name not in header:
            raise unknown_name(f"column of {source}", name, header)
        columns[name] = name
    return columns


def _parquet_rows(table: Path, further: Sequence[str] = ()) -> Rows:
    from pyarrow import parquet

    with reading(table, "Parquet file"), parquet.ParquetFile(table) as file:
        names = file.schema_arrow.names
        columns = find_columns(names, ["path", "label"], ["split"], table, further)
        split = columns.get(*further or ["split"])
        wanted = [columns["path"], columns["label"], *([split] if split else [])]
        for batch in file.iter_batches(columns=wanted):
            rows = [batch.column(name).to_pylist() for name in wanted]
            if split is None:
                rows.append([None] * len(batch))
            yield from zip(*rows, strict=True)
