"""The tables of a gallery's file, and the check that a file has these and nothing else.

    subjects   a name, and zeros where it was removed or given up for another
    samples    subject, embedding (D little-endian float32, of length 1), source, image's SHA-256
    images     the image as a file, where it was kept
    journal    samples that were removed, or moved to another subject: what a process that has the
               gallery in memory must look at again. New samples are those of higher number.
    meta       dimension, model, scoring, calibration, …

Whatever tells about a person stands in the first three, which only ever grow at their end. SQLite
moves rows of a full or sparse page to other pages when a row is put in between, grows or is
deleted. It leaves copies in the unused part of a page, and does not overwrite these when the row
goes later, secure_delete or not. So these rows are neither deleted nor changed in size: removing
one overwrites its bytes with as many zeros, in place, and gives it to nobody. The room is used
again when the file is written anew, see `compacting`.
"""

import sqlite3
from pathlib import Path

from arcset.errors import DataError

__all__ = [
    "APPLICATION_ID",
    "CREATE",
    "NOBODY",
    "VERSION",
    "check_file",
    "check_schema",
    "log_size",
    "page_size",
]

APPLICATION_ID = 0x41724753  # "ArGS"
VERSION = 1

#: The subject of removed samples. Those of others are higher, and below 2⁴⁷: SQLite writes all of
#: them in six bytes, so that a row keeps its size when it is given to another subject.
NOBODY = 1 << 32

CREATE = (
    """CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value NOT NULL
) WITHOUT ROWID""",
    """CREATE TABLE subjects (
    id INTEGER PRIMARY KEY,
    name NOT NULL,
    added INTEGER NOT NULL
)""",
    """CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    subject INTEGER NOT NULL REFERENCES subjects (id),
    added INTEGER NOT NULL,
    embedding BLOB NOT NULL,
    source,
    digest BLOB
)""",
    """CREATE TABLE images (
    id INTEGER PRIMARY KEY REFERENCES samples (id),
    image BLOB NOT NULL
)""",
    """CREATE TABLE journal (
    revision INTEGER PRIMARY KEY,
    sample INTEGER NOT NULL
)""",
)

_MAGIC = b"SQLite format 3\x00"


def page_size(dim: int) -> int:
    """Bytes of a page: it holds at least three samples, so that not too much of it lies idle.

    A commit writes whole pages, so that it takes longer with larger ones.
    """
    sample = 4 * dim + 200  # source and all
    return min(max(4096, 1 << (3 * sample - 1).bit_length()), 65536)


def log_size(path: Path) -> int:
    """Bytes in the log that SQLite keeps beside a file, of what is not yet in the file itself."""
    log = Path(f"{path.resolve()}-wal")
    return log.stat().st_size if log.exists() else 0


def check_file(path: Path) -> None:
    """Raise `DataError` unless a file begins like a gallery and is as long as it says.

    This looks at bytes alone, before SQLite opens the file.
    """
    try:
        with path.open("rb") as file:
            header = file.read(100)
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if header[:16] != _MAGIC or len(header) < 100:
        raise DataError(f"{path} is not a gallery: it is no SQLite file")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise DataError(f"{path} is not a gallery, but the SQLite file of another program")
    version = int.from_bytes(header[60:64], "big")
    if version != VERSION:
        raise DataError(
            f"{path} is a gallery of format {version}, and this version of arcset reads {VERSION}"
        )
    if log_size(path):
        return  # a write was interrupted, and what is missing here stands there
    page = int.from_bytes(header[16:18], "big")
    whole = int.from_bytes(header[28:32], "big") * (65536 if page == 1 else page)
    if size < whole:
        raise DataError(
            f"{path} is cut: it has {size:,} of {whole:,} bytes; restore a copy or an export"
        )


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `DataError` unless a file has just the tables of a gallery: no view, no trigger."""
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if sorted(sql or "" for _, _, sql in found) == sorted(CREATE):
        return
    wanted = set(CREATE)
    for kind, name, sql in found:
        if sql not in wanted:
            raise DataError(f"{path} is not a gallery: it has a {kind} {name!r} that none has")
    raise DataError(f"{path} is not a gallery: it lacks tables that every gallery has")
