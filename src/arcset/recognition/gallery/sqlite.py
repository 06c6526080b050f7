"""A gallery in one SQLite file, and its embeddings in memory.

    meta       dimension, model, scoring, calibration, …: see `Settings`
    subjects   names
    samples    subject, embedding (D little-endian float32, of length 1), source, image's SHA-256
    images     the image as a file, where it was stored

SQLite does what it is made for: a write-ahead log that is synced at every commit keeps what was
acknowledged, whatever happens; many processes read while one writes; samples go with their subject,
and images with their sample. A sample's number is above all that are there and, by `last_removed`
in meta, all that were (AUTOINCREMENT would write a further page at every commit).

Memory follows the file. New samples have higher numbers than before, and are read in addition;
where others were removed, renamed, merged or moved to another model, the counter `changes` in meta
was raised, and all are read again. `PRAGMA data_version` tells when anybody else wrote.

Deleted bytes are overwritten (`secure_delete`), but SQLite also leaves copies of rows that it once
moved between pages. So a removal ends with `VACUUM`, which writes the file anew, and an empty log.
"""

import json
import os
import secrets
import sqlite3
import threading
import warnings
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcset.errors import ArcsetError, DataError, OptionError
from arcset.files import one_line, sync
from arcset.recognition.gallery.base import Gallery, model_location
from arcset.recognition.gallery.samples import Row, Subject, as_time, check_name, now, unit_rows
from arcset.recognition.gallery.scoring import Index, Vectors, nearest_subjects
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress

_APPLICATION = 0x41724753  # "ArGS"
_FORMAT = 4
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value NOT NULL) WITHOUT ROWID;
CREATE TABLE subjects (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    added INTEGER NOT NULL
);
CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    subject INTEGER NOT NULL REFERENCES subjects (id) ON DELETE CASCADE,
    added INTEGER NOT NULL,
    embedding BLOB NOT NULL,
    source TEXT,
    digest BLOB
);
CREATE INDEX samples_of_subject ON samples (subject);
CREATE TABLE images (
    id INTEGER PRIMARY KEY REFERENCES samples (id) ON DELETE CASCADE,
    image BLOB NOT NULL
);
"""

# Per connection. FULL: a commit returns when the log is on the disk; fullfsync: on macOS, too.
# trusted_schema, cell_size_check: a file made to do harm is an error and no more.
_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA checkpoint_fullfsync = ON;
PRAGMA secure_delete = ON;
PRAGMA foreign_keys = ON;
PRAGMA trusted_schema = OFF;
PRAGMA cell_size_check = ON;
"""

#: Seconds that a writer waits for another one.
PATIENCE = 10.0

_REWRITTEN = 100_000_000  # bytes; a larger file is written anew only by `compact`
_ROWS = 256  # at a time: few enough for the processor's cache; of images, for memory
_OFF = 1e-3  # how far the square of an embedding's length may be from 1
_SPARE = 1 << 26  # how far the numbers of subjects may exceed 64 times the number of samples

_SUBJECT = "INSERT OR IGNORE INTO subjects (name, added) VALUES (?, ?)"
_SAMPLE = (
    "INSERT INTO samples VALUES (1 + max(?, (SELECT ifnull(max(id), 0) FROM samples)),"
    " (SELECT id FROM subjects WHERE name = ?), ?, ?, ?, ?)"
)
_LISTED = "(SELECT value FROM json_each(?))"  # of a list as JSON
_IS_STORED = "CASE WHEN images.id IS NOT NULL THEN x'' END"

# The second is raised where SQLite's own message quotes bytes of a damaged file.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_DISK_ERRORS = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
)


class FileGallery(Gallery):
    """A gallery in one SQLite file and in memory.

    What a method that changes something has done is on the disk when it returns. Several processes
    may have the same gallery open: one writes at a time, and each sees what the others did at its
    next call.
    """

    path: Path

    def __init__(self, path: Path, *, read_only: bool) -> None:
        is_writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        self.path, self.read_only = path, read_only or not is_writable
        self._lock, self._process, self._is_closed = threading.RLock(), os.getpid(), False
        self._version = -1  # of the file's state that `_latest` is from
        self._counted: tuple[Any, tuple[int, int]] | None = None  # of which state, and the sizes
        self._index: Index | None = None  # read when it is first needed
        self._index_changes, self._index_state = -1, (-1, -1)
        with _explained(path):
            self._connection = _connect(path, is_writable=is_writable)
            try:
                self._connection.executescript(_PRAGMAS)
                if self.read_only:
                    self._connection.execute("PRAGMA query_only = ON")
                _check_format(self._connection, path)
                self._latest = self._read_settings()
            except BaseException:
                self._connection.close()
                raise
        self.dim = self._latest.dim

    @classmethod
    def _connect(cls, path: Path, *, read_only: bool) -> Self | None:
        if not path.exists():
            return None
        gallery = cls(path, read_only=read_only)
        if gallery._latest.erase_due and not gallery.read_only and not gallery._is_large:
            with suppress(DataError):  # others are in the way, or the disk is full: next time
                gallery.compact()
        return gallery

    @classmethod
    def _create(cls, path: Path, settings: dict[str, str]) -> Self:
        is_new = _make_file(path, settings)
        try:
            return cls(path, read_only=False)
        except DataError:  # as on a disk that had just enough room for the file itself
            if is_new:
                path.unlink()
            raise

    @staticmethod
    def _drop(path: Path) -> None:
        for end in ("", "-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if os.getpid() == self._process:  # a child that closes would harm its parent's locks
                with _explained(self.path):
                    self._connection.close()

    # Transactions

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._lock, _explained(self.path):
            self._check_open()
            if self._connection.in_transaction:  # within another question, or a change
                yield
                return
            self._execute("BEGIN")
            try:
                self._follow_settings()
                yield
            finally:
                self._connection.rollback()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All that is changed in the block is on the disk when it ends, or nothing."""
        with self._lock:
            self._check_writable()
            before = self._latest
            try:
                self._execute("BEGIN IMMEDIATE")
                self._follow_settings()
                yield
                self._connection.commit()
            except BaseException as error:
                self._latest, self._version, self._counted = before, -1, None
                with suppress(sqlite3.Error):
                    self._connection.rollback()
                if isinstance(error, _SQLITE_ERRORS):
                    raise DataError(f"{_sentence(error, self.path)}; nothing was changed") from None
                raise

    @contextmanager
    def _changing(self, what: str) -> Iterator[None]:
        """A transaction that takes something away, and the end of its bytes."""
        with self._lock:
            with self._transaction():
                yield
                self._note_removal()
            self._erase(what)

    def _check_open(self) -> None:
        if self._is_closed or os.getpid() != self._process:
            what = "was closed" if self._is_closed else "was opened by the process before this one"
            raise DataError(f"{self.path} {what}: open it again")

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise DataError(f"{self.path} is open for reading only; nothing was changed")

    def _execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        return self._connection.execute(sql, values)

    def _ask(self, sql: str, *values: Any) -> Any:
        """The first row of an answer, or None."""
        return self._connection.execute(sql, values).fetchone()

    @contextmanager
    def _checking(self) -> Iterator[None]:
        """Values of another type or beyond all range, which no gallery wrote, are damage."""
        try:
            yield
        except (TypeError, ValueError, OverflowError, OSError, MemoryError) as error:
            raise self._damaged(one_line(error)) from None

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self.path} is damaged: {why}; restore it from a copy or an export")

    # Settings

    @property
    def _settings(self) -> Settings:
        with self.together():
            return self._latest

    @property
    def _state(self) -> tuple[int, int]:
        """Another one after every change: of others, and of this connection."""
        return self._version, self._connection.total_changes

    def _read_settings(self) -> Settings:
        return Settings.of(dict(self._execute("SELECT key, value FROM meta").fetchall()), self.path)

    def _follow_settings(self) -> None:
        """Read the settings where somebody committed since; raise if another model is in use."""
        (version,) = self._ask("PRAGMA data_version")
        if version == self._version:
            return
        settings, digest = self._read_settings(), self._latest.model_digest
        if settings.dim != self.dim or digest not in ("", settings.model_digest):
            raise DataError(
                f"{self.path} was moved to the model {settings.model_name!r} by another process:"
                " open it again, with that model"
            )
        self._latest, self._version = settings, version

    def _write(self, **values: str | None) -> None:
        with self._transaction():
            self._set(**values)

    def _set(self, **values: str | None) -> None:
        for key, value in values.items():
            if value is None:
                self._execute("DELETE FROM meta WHERE key = ?", (key,))
            else:
                self._execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
        if values:
            self._latest = self._read_settings()

    # Reading

    def _rows(
        self,
        names: Collection[str] | None = None,
        *,
        sample: int | None = None,
        images: bool = False,
    ) -> Iterator[Sequence[Row]]:
        where, values = "", list[Any]()
        if sample is not None:
            where, values = "WHERE samples.id = ?", [sample]
        elif names is not None:
            where = f"WHERE subject IN (SELECT id FROM subjects WHERE name IN {_LISTED})"
            values = [json.dumps([*names])]
        cursor = self._execute(
            "SELECT name, embedding, source, digest,"
            f" {'image' if images else _IS_STORED}, samples.added, samples.id FROM samples"
            " LEFT JOIN subjects ON subjects.id = subject"
            " LEFT JOIN images ON images.id = samples.id"
            f" {where} ORDER BY samples.id",
            values,
        )
        while part := cursor.fetchmany(_ROWS):
            with self._checking():
                owners, embeddings, *columns = zip(*part, strict=True)
                vectors = self._unit_vectors(embeddings)
                rows = [*map(Row, owners, vectors, *columns)]
                for row in rows:
                    row.check()
            yield rows

    def _unit_vectors(self, embeddings: Sequence[bytes]) -> Vectors:
        """(n, D) from a column of the file; raises for what no gallery wrote."""
        if {*map(len, embeddings)} != {4 * self.dim}:
            raise self._damaged(f"not every embedding in it has {self.dim} numbers")
        vectors = np.frombuffer(b"".join(embeddings), "<f4").reshape(len(embeddings), self.dim)
        is_unit = np.abs(np.einsum("nd,nd->n", vectors, vectors) - 1) < _OFF  # false for NaN
        if not is_unit.all():
            raise self._damaged("an embedding in it is not of length 1")
        return vectors

    def subjects(self) -> tuple[Subject, ...]:
        with self.together(), self._checking():
            rows = self._execute(
                "SELECT name, count(samples.id), subjects.added FROM subjects"
                " LEFT JOIN samples ON subject = subjects.id GROUP BY subjects.id"
            )
            return tuple(Subject(check_name(name), n, as_time(added)) for name, n, added in rows)

    def _sizes(self) -> tuple[int, int]:
        with self.together():
            if self._counted is None or self._counted[0] != self._state:
                sql = "SELECT (SELECT count(*) FROM subjects), (SELECT count(*) FROM samples)"
                self._counted = self._state, self._ask(sql)
            return self._counted[1]

    def _image_counts(self) -> dict[int, int]:
        with self.together(), self._checking():
            sql = "SELECT count(*) AS n FROM samples GROUP BY subject"
            return dict(self._execute(f"SELECT n, count(*) FROM ({sql}) GROUP BY n"))

    def _holds_images(self) -> bool:
        return bool(self._ask("SELECT EXISTS (SELECT 1 FROM images)")[0])

    @property
    def byte_count(self) -> int:
        return self.path.stat().st_size + _log_size(self.path)

    # Searching

    def _search(
        self, probes: Embeddings, k: int
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        with self.together():
            index = self._follow_index()
            numbers, scores = nearest_subjects(index, probes, k, self._latest.scoring)
            sql = "SELECT max(name) FROM subjects WHERE id = ?"  # max: None where there is none
            with self._checking():  # one by one, which is quicker than all of them by one list
                names = {n: check_name(*self._ask(sql, n)) for n in {*numbers.ravel().tolist()}}
        return [tuple(names[one] for one in row) for row in numbers.tolist()], scores

    def _follow_index(self) -> Index:
        """All embeddings, inside a transaction."""
        if self._index is not None and self._index_state == self._state:
            return self._index
        index, self._index = self._index, None  # for good, where reading fails
        with self._checking():
            if index is None or self._latest.changes != self._index_changes:
                index = None  # before the next one takes as much memory
                (count,) = self._ask("SELECT count(*) FROM samples")
                index = Index(self.dim, count)
            # Each column takes a tenth of the time. So the last number is asked for afterwards.
            sql = "SELECT subject, embedding FROM samples WHERE id > ? ORDER BY id"
            rows = self._execute(sql, (index.last,))
            while part := rows.fetchmany(_ROWS):
                owners, embeddings = zip(*part, strict=True)
                subjects = np.array(array("q", owners))
                if subjects.min() < 1 or subjects.max() > _SPARE + 64 * (len(index) + 1):
                    raise self._damaged("a number in it is out of range")
                index.add(subjects, self._unit_vectors(embeddings))
            (index.last,) = self._ask("SELECT ifnull(max(id), 0) FROM samples")
        self._index, self._index_state = index, self._state
        self._index_changes = self._latest.changes
        return index

    # Changing

    def _add(self, batches: Iterable[Sequence[Row]], **settings: str) -> list[int]:
        ids: list[int] = []
        with self._transaction():
            self._set(**settings)
            for rows in batches:
                ids += self._insert(rows)
        return ids

    def _insert(self, rows: Sequence[Row]) -> Iterator[int]:
        moment, last_removed = now(), self._latest.last_removed
        for row in rows:
            name, added = row.name, row.added or moment
            self._execute(_SUBJECT, (name, added))
            embedding = row.embedding.astype("<f4", copy=False).tobytes()
            columns = last_removed, name, added, embedding, row.source, row.digest
            sample = self._execute(_SAMPLE, columns).lastrowid or 0
            if row.image is not None:
                self._execute("INSERT INTO images VALUES (?, ?)", (sample, row.image))
            yield sample

    def _delete(self, rows: Sequence[Row]) -> None:
        last_removed = max(self._latest.last_removed, *(row.id for row in rows))
        self._set(last_removed=str(last_removed))
        samples = [(row.id,) for row in rows]
        self._connection.executemany("DELETE FROM samples WHERE id = ?", samples)
        self._execute(
            f"DELETE FROM subjects WHERE name IN {_LISTED}"
            " AND NOT EXISTS (SELECT 1 FROM samples WHERE subject = subjects.id)",
            (json.dumps([*{row.name for row in rows}]),),
        )

    def _move(self, rows: Sequence[Row], name: str) -> None:
        names = {"old": rows[0].name, "new": name}
        self._execute("UPDATE OR IGNORE subjects SET name = :new WHERE name = :old", names)
        # Where the name was free, nobody has the old one any more, and the rest changes nothing.
        self._execute(
            "UPDATE samples SET subject = (SELECT id FROM subjects WHERE name = :new)"
            " WHERE subject = (SELECT id FROM subjects WHERE name = :old)",
            names,
        )
        self._execute("DELETE FROM subjects WHERE name = :old", names)

    def migrate(self, recognizer: ImageEmbedder, progress: Progress | None = None) -> None:
        """Move to another model: embed all images anew, all of them or none.

        Other processes can read, but not write, for so long; they have to open the gallery again
        when it is done. A calibration of its own is lost. Raises `OptionError` where the images of
        some samples were not stored, and `DataError` for one that the model cannot embed.
        """
        with self._lock:
            with self._transaction():
                self._embed_anew(recognizer, progress)
                self._set(dim=str(recognizer.dim), model=recognizer.name, digest=recognizer.digest)
                location = {"model_path": None, "faces": None, **model_location(recognizer)}
                self._set(thresholds=None, **location)
                self._note_removal()
            self._recognizer, self.dim, self._index = recognizer, recognizer.dim, None
            self._erase(f"{self.path} was moved to the model {recognizer.name!r}")

    def _embed_anew(self, recognizer: ImageEmbedder, progress: Progress | None) -> None:
        (total,) = self._ask("SELECT count(*) FROM samples")
        (stored,) = self._ask("SELECT count(*) FROM images")
        if stored < total:
            raise OptionError(
                f"{total - stored:,} of {total:,} samples in {self.path} have no image to embed"
                f" anew: enroll them again, in a gallery for {recognizer.name} that keeps images"
            )
        done, last = 0, 0
        sql = "SELECT id, image FROM images WHERE id > ? ORDER BY id LIMIT ?"
        while images := dict(self._execute(sql, (last, _ROWS)).fetchall()):
            vectors = _embed(recognizer, images).astype("<f4", copy=False)
            rows = [(vector.tobytes(), id) for vector, id in zip(vectors, images, strict=True)]
            self._connection.executemany("UPDATE samples SET embedding = ? WHERE id = ?", rows)
            done, last = done + len(images), max(images)
            if progress is not None:
                progress(done, total)

    def compact(self) -> None:
        """Write the file anew, so that nothing is left in it of what was removed.

        Meanwhile it takes room for a second copy of the file.
        """
        with self._lock:
            self._check_writable()
            try:
                self._rewrite()
            except DataError as error:
                raise DataError(f"{self.path} could not be compacted: {error}") from None

    # Erasing

    def _note_removal(self) -> None:
        self._set(changes=str(self._latest.changes + 1), erase_due="yes")

    def _erase(self, what: str) -> None:
        try:
            self._empty_log()
            if not self._is_large:
                self._rewrite()
                return
        except DataError as error:
            raise DataError(
                f"{what}, but its bytes could not be erased yet: {error}; make room or let other"
                f" processes finish, then run `arcset gallery compact {self.path}`"
            ) from None
        warnings.warn(
            f"{what}; run `arcset gallery compact {self.path}` to erase it from the file",
            stacklevel=5,
        )

    @property
    def _is_large(self) -> bool:
        return self.byte_count >= _REWRITTEN

    def _rewrite(self) -> None:
        with _explained(self.path):
            self._execute("VACUUM")
        self._empty_log()
        self._write(erase_due=None)

    def _empty_log(self) -> None:
        """Move the log into the file; raise `DataError` where that cannot be done."""
        with _explained(self.path):
            (is_busy, _, _) = self._ask("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:
            raise DataError(f"another process is still reading an older state of {self.path}")


def _embed(recognizer: ImageEmbedder, images: dict[int, Any]) -> Embeddings:
    try:
        return unit_rows(recognizer.embed(list(images.values())), recognizer.dim)
    except ArcsetError:
        for number, image in images.items():
            try:
                recognizer.embed([image])
            except ArcsetError as error:
                raise DataError(
                    f"{recognizer.name} cannot embed the image of sample {number}: {error};"
                    " nothing was changed"
                ) from None
        raise


# The file


def _connect(path: Path, *, is_writable: bool) -> sqlite3.Connection:
    mode = "mode=rw"
    if not is_writable:
        if _log_size(path):
            raise DataError(
                f"{path} cannot be opened where nothing can be written, because {path.name}-wal"
                " holds changes that are not in it yet: copy both"
            )
        # Nobody can write there, and SQLite is told so: it then needs no files beside this one.
        mode = "mode=ro&immutable=1"
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,  # a gallery lets in one thread at a time
    )


def _log_size(path: Path) -> int:
    """Bytes in the log that SQLite keeps beside a file, of what is not yet in the file itself."""
    log = Path(f"{path.resolve()}-wal")
    return log.stat().st_size if log.exists() else 0


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `DataError` unless the file has just the tables of a gallery: no view, no trigger."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise DataError(f"{path} is not a gallery, but an SQLite file of another kind")
    if version != _FORMAT:
        raise DataError(
            f"{path} is a gallery of format {version}, and this version of arcset reads {_FORMAT}"
        )
    (pages,), (size,) = map(connection.execute, ("PRAGMA page_count", "PRAGMA page_size"))
    if pages[0] * size[0] > path.stat().st_size and not _log_size(path):
        raise DataError(f"{path} is damaged: it is cut short; restore a copy or an export")
    tables = "SELECT type, name, sql FROM sqlite_master"
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(_TABLES)
        expected = {*fresh.execute(tables)}
    for kind, name, _ in expected.symmetric_difference(connection.execute(tables)):
        raise DataError(f"{path} is not a gallery: its {kind} {name!r} is not a gallery's")


def _make_file(path: Path, settings: dict[str, str]) -> bool:
    """Create an empty gallery, whole or not at all; False where one is there already."""
    part = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _explained(path), closing(sqlite3.connect(part)) as connection:
            connection.execute(f"PRAGMA page_size = {_page_size(int(settings['dim']))}")
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
            connection.executescript(_TABLES)
            with connection:
                connection.executemany("INSERT INTO meta VALUES (?, ?)", settings.items())
            connection.execute("PRAGMA journal_mode = WAL")
        sync(part)
        try:
            os.link(part, path)  # unlike a rename, never takes the place of another
        except FileExistsError:  # even if it is a link to nothing
            return False
        except OSError:  # a file system without links
            if path.exists():
                return False
            part.rename(path)
        sync(path.parent)
        return True
    except OSError as error:
        raise DataError(f"{path} cannot be created: {error.strerror}") from None
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):  # the disk may refuse this, too, and then has nothing of it
                Path(f"{part}{end}").unlink(missing_ok=True)


def _page_size(dim: int) -> int:
    """Bytes of a page: it holds at least three samples, so that not too much of it lies idle."""
    sample = 4 * dim + 200  # source and all
    return min(max(4096, 1 << (3 * sample - 1).bit_length()), 65536)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say in a sentence what SQLite says in a word."""
    try:
        yield
    except _SQLITE_ERRORS as error:
        raise DataError(_sentence(error, path)) from None


def _sentence(error: Exception, path: Path) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the finer distinctions
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path} has been in use by another process for {PATIENCE:g} seconds: try again"
    if code in _DISK_ERRORS:
        return f"{path} cannot be read or written ({error}): is the disk full or read-only?"
    if code == sqlite3.SQLITE_NOTADB:
        return f"{path} is not a gallery: it is no SQLite file"
    return f"{path} is damaged ({one_line(error)}): restore it from a copy or an export"
