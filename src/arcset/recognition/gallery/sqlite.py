"""A gallery in one SQLite file, and its embeddings in memory.

    meta       dimension, model, scoring, calibration, …: see `Settings`
    subjects   names
    samples    whose, embedding (D little-endian float32, of length 1), source, image's SHA-256
    images     the image as a file, where it was stored

SQLite does what it is made for: a write-ahead log that is synced at every commit keeps what was
acknowledged, whatever happens; many processes read while one writes; numbers are AUTOINCREMENT, so
that none is given twice.

Memory follows the file. `PRAGMA data_version` changes when somebody else commits. New samples have
higher numbers than before; where samples were removed, merged or moved to another model, the
counter `changes` in meta was raised, and all are read again.

Deleted bytes are overwritten (`secure_delete`), but SQLite also leaves copies of rows that it once
moved between pages. So a removal ends with `VACUUM`, which writes the file anew, and an empty log.
"""

import os
import secrets
import sqlite3
import threading
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcset.errors import ArcsetError, DataError, OptionError
from arcset.files import one_line, sync
from arcset.recognition.gallery.base import Gallery
from arcset.recognition.gallery.index import Index, Numbers, Vectors
from arcset.recognition.gallery.samples import (
    Row,
    Sample,
    Subject,
    as_time,
    check_name,
    now,
    unit_rows,
)
from arcset.recognition.gallery.scoring import nearest_subjects
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress

__all__ = ["PATIENCE", "FileGallery"]

_APPLICATION = 0x41724753  # "ArGS"
_FORMAT = 2
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value NOT NULL) WITHOUT ROWID;
CREATE TABLE subjects (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    added INTEGER NOT NULL
);
CREATE TABLE samples (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    subject INTEGER NOT NULL REFERENCES subjects (id),
    added INTEGER NOT NULL,
    embedding BLOB NOT NULL,
    source TEXT,
    digest BLOB
);
CREATE INDEX samples_of_subject ON samples (subject);
CREATE TABLE images (id INTEGER PRIMARY KEY REFERENCES samples (id), image BLOB NOT NULL);
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
_SPARE = 1 << 24  # how far the numbers of subjects may exceed 64 times the number of samples

# The second is raised where SQLite's own message quotes bytes of a damaged file.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


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
        self._version = -1  # of the file's state that `_known_settings` are from
        self._index: Index | None = None  # read when it is first needed
        self._index_changes, self._is_index_due = -1, True
        with _explained(path):
            self._connection = _connect(path, is_writable=is_writable)
            try:
                self._connection.executescript(_PRAGMAS)
                if self.read_only:
                    self._connection.execute("PRAGMA query_only = ON")
                _check_format(self._connection, path)
                self._known_settings = self._read_settings()
            except BaseException:
                self._connection.close()
                raise
        self.dim = self._known_settings.dim

    @classmethod
    def _connect(cls, path: Path, *, read_only: bool) -> Self | None:
        if not path.exists():
            return None
        gallery = cls(path, read_only=read_only)
        if gallery._settings.erase_due and not gallery.read_only and not gallery._is_large:
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
    def _changing(self) -> Iterator[None]:
        """A transaction: all of it is on the disk when the block ends, or nothing."""
        with self._lock:
            self._check_writable()
            before = self._known_settings
            try:
                self._execute("BEGIN IMMEDIATE")
                self._follow_settings()
                before = self._known_settings
                yield
                self._connection.commit()
            except BaseException as error:
                with suppress(sqlite3.Error):
                    self._connection.rollback()
                self._known_settings = before
                if isinstance(error, _SQLITE_ERRORS):
                    raise DataError(f"{_sentence(error, self.path)}; nothing was changed") from None
                raise
            finally:
                self._version = -1  # to be looked at again; what is in memory is of before

    def _check_open(self) -> None:
        if self._is_closed or os.getpid() != self._process:
            what = "was closed" if self._is_closed else "was opened by the process before this one"
            raise DataError(f"{self.path} {what}: open it again")

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise DataError(f"{self.path} is open for reading only; nothing was changed")

    def _follow_settings(self) -> None:
        """Read the settings where somebody committed since; raise if another model is in use."""
        (version,) = self._ask("PRAGMA data_version")
        if version == self._version:
            return
        before, settings = self._known_settings, self._read_settings()
        if settings.dim != self.dim or before.model_digest not in ("", settings.model_digest):
            raise DataError(
                f"{self.path} was moved to the model {settings.model_name!r} by another process:"
                " open it again, with that model"
            )
        self._known_settings, self._version, self._is_index_due = settings, version, True

    def _read_settings(self) -> Settings:
        found = self._execute("SELECT key, value FROM meta WHERE key <> 'thresholds'")
        return Settings.of(dict(found.fetchall()), self.path)

    def _follow_index(self) -> Index:
        """All embeddings, inside a transaction."""
        index, changes = self._index, self._settings.changes
        if index is not None and not self._is_index_due:
            return index
        if index is None:
            (count,) = self._ask("SELECT count(*) FROM samples")
            if count * 4 * self.dim > self.byte_count:
                raise self._damaged(f"it has no room for {count:,} samples")
            index = Index(self.dim, count)
        elif changes != self._index_changes:
            index.keep(*self._read_owners())
        found = self._execute(
            "SELECT id, subject, embedding FROM samples WHERE id > ? ORDER BY id", (index.last,)
        )
        while rows := found.fetchmany(_ROWS):
            index.add(*self._check_rows(rows, len(index)))
        self._index, self._index_changes, self._is_index_due = index, changes, False
        return index

    def _read_owners(self) -> tuple[Numbers, Numbers]:
        """The number of each sample, rising, and its subject; from an index of the table alone."""
        found = self._execute("SELECT id, subject FROM samples INDEXED BY samples_of_subject")
        with self._checking():
            pairs = np.array(found.fetchall(), np.int64).reshape(-1, 2)
        pairs = pairs[np.argsort(pairs[:, 0])]
        return pairs[:, 0], pairs[:, 1]

    def _check_rows(self, rows: list[Any], count: int) -> tuple[Numbers, Numbers, Vectors]:
        """Rows of the file as arrays; raise `DataError` for what no gallery wrote."""
        ids, owners, embeddings = zip(*rows, strict=True)
        with self._checking():
            samples, subjects = (np.frombuffer(array("q", one), np.int64) for one in (ids, owners))
            lengths = {*map(len, embeddings)}
            content = b"".join(embeddings)
        if lengths != {4 * self.dim}:
            raise self._damaged(f"not every embedding in it has {self.dim} numbers")
        if samples[0] < 1 or subjects.min() < 1 or subjects.max() > _SPARE + 64 * (count + 1):
            raise self._damaged("a number in it is out of range")
        vectors = np.frombuffer(content, "<f4").reshape(len(rows), self.dim)
        is_unit = np.abs(np.einsum("nd,nd->n", vectors, vectors) - 1) < _OFF  # false for NaN
        if not is_unit.all():
            wrong = samples[int(np.argmin(is_unit))]
            raise self._damaged(f"the embedding of sample {wrong} is not of length 1")
        return samples, subjects, vectors

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
        except (TypeError, ValueError, OverflowError, OSError) as error:  # arcset's own among them
            raise self._damaged(one_line(error)) from None

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self.path} is damaged: {why}; restore it from a copy or an export")

    # Asking

    def _search(
        self, probes: Embeddings, k: int
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        with self.together():
            index = self._follow_index()
            numbers, scores = nearest_subjects(index, probes, k, self._settings.scoring)
            names = self._names(np.unique(numbers).tolist())
        return [tuple(names[one] for one in row) for row in numbers.tolist()], scores

    def _names(self, numbers: Iterable[int]) -> dict[int, str]:
        sql = "SELECT max(name) FROM subjects WHERE id = ?"  # max: None where there is none
        with self._checking():
            return {number: check_name(*self._ask(sql, number)) for number in numbers}

    def _embeddings_of(self, name: str) -> Embeddings:
        with self.together():
            index = self._follow_index()
            return index.matrix[index.rows_of(np.array([self._known(name)]))]

    # Changing

    def _add(self, batches: Iterable[Sequence[Row]], **settings: str) -> list[int]:
        made: list[int] = []
        with self._changing():
            self._set(**settings)
            for rows in batches:
                made += self._insert(rows)
        return made

    def _insert(self, rows: Sequence[Row]) -> list[int]:
        moment, first_new = now(), self._next_number("subjects")
        subjects = {name: self._number(name) for name in dict.fromkeys(row.name for row in rows)}
        people: list[tuple[int, str, int]] = []
        samples, images = [], []
        for sample, row in enumerate(rows, self._next_number("samples")):
            added = moment if row.added is None else row.added
            subject = subjects[row.name]
            if subject is None:
                subject = subjects[row.name] = first_new + len(people)
                people.append((subject, row.name, added))
            samples.append((sample, subject, added, row.embedding, row.source, row.digest))
            if row.image is not None:
                images.append((sample, row.image))
        self._connection.executemany("INSERT INTO subjects VALUES (?, ?, ?)", people)
        self._connection.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?)", samples)
        self._connection.executemany("INSERT INTO images VALUES (?, ?)", images)
        return [sample[0] for sample in samples]

    def _next_number(self, table: str) -> int:
        """Above all that were ever given."""
        sql = "SELECT coalesce(max(CAST(seq AS INT)), 0) + 1 FROM sqlite_sequence WHERE name = ?"
        return int(self._ask(sql, table)[0])

    def remove(self, name: str) -> int:
        """Remove a subject, and return how many samples it had.

        Name, embeddings and images are in none of the gallery's files any more when this returns;
        of a gallery above 100 MB, a warning says that `compact` has to erase the last copies.
        Raises `OptionError` where nobody is called so. Raises `DataError` where another process or
        a full disk keeps the bytes from being erased; it says whether the subject was removed.
        """
        with self._erasing(f"{name!r} was removed from {self.path}"):
            subject = self._known(name)
            self._execute(
                "DELETE FROM images WHERE id IN (SELECT id FROM samples WHERE subject = ?)",
                (subject,),
            )
            removed = self._execute("DELETE FROM samples WHERE subject = ?", (subject,)).rowcount
            self._execute("DELETE FROM subjects WHERE id = ?", (subject,))
        return removed

    def remove_sample(self, sample: int) -> None:
        with self._erasing(f"sample {sample} was removed from {self.path}"):
            subject = self._owner(sample)
            self._execute("DELETE FROM images WHERE id = ?", (int(sample),))
            self._execute("DELETE FROM samples WHERE id = ?", (int(sample),))
            if self._ask("SELECT 1 FROM samples WHERE subject = ?", subject) is None:
                self._execute("DELETE FROM subjects WHERE id = ?", (subject,))

    def _rename(self, old: str, new: str) -> None:
        with self._erasing(f"{old!r} was renamed to {new!r} in {self.path}"):
            subject = self._known(old)
            if new in self:
                raise OptionError(f"{new!r} is enrolled already: merge {old!r} into that subject")
            self._execute("UPDATE subjects SET name = ? WHERE id = ?", (new, subject))

    def _merge(self, source: str, into: str) -> None:
        with self._erasing(f"{source!r} was merged into {into!r} in {self.path}"):
            subjects = self._known(into), self._known(source)
            self._execute("UPDATE samples SET subject = ? WHERE subject = ?", subjects)
            self._execute("DELETE FROM subjects WHERE id = ?", subjects[1:])

    def migrate(self, recognizer: ImageEmbedder, progress: Progress | None = None) -> None:
        """Move to another model: embed all images anew, all of them or none.

        Other processes can read, but not write, for so long; they have to open the gallery again
        when it is done. A calibration of its own is lost. Raises `OptionError` where the images of
        some samples were not stored, and `DataError` for one that the model cannot embed.
        """
        with self._lock:
            with self._changing():
                self._embed_anew(recognizer, progress)
                self._set(dim=str(recognizer.dim), model=recognizer.name, digest=recognizer.digest)
                self._set(model_path=None, faces=None, thresholds=None, calibrated=None)
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

    def _write(self, **values: str | None) -> None:
        with self._changing():
            self._set(**values)

    def _set(self, **values: str | None) -> None:
        for key, value in values.items():
            self._execute("DELETE FROM meta WHERE key = ?", (key,))
            if value is not None:
                self._execute("INSERT INTO meta VALUES (?, ?)", (key, value))
        if values:
            self._known_settings = self._read_settings()

    # Erasing

    @contextmanager
    def _erasing(self, what: str) -> Iterator[None]:
        """A transaction that takes something away, and the end of its bytes; `what` was done."""
        with self._lock:
            with self._changing():
                yield
                self._note_removal()
            self._erase(what)

    def _note_removal(self) -> None:
        self._set(changes=str(self._settings.changes + 1), erase_due="yes")

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
        self._write(erase_due=None)
        self._empty_log()

    def _empty_log(self) -> None:
        """Move the log into the file; raise `DataError` where that cannot be done."""
        with _explained(self.path):
            (is_busy, _, _) = self._ask("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:
            raise DataError(f"another process is still reading an older state of {self.path}")

    # Listing

    def __len__(self) -> int:
        with self.together():
            return int(self._ask("SELECT count(*) FROM subjects")[0])

    def __contains__(self, name: object) -> bool:
        with self.together():
            return isinstance(name, str) and self._number(name) is not None

    @property
    def sample_count(self) -> int:
        with self.together():
            return int(self._ask("SELECT count(*) FROM samples")[0])

    @property
    def byte_count(self) -> int:
        return self.path.stat().st_size + _log_size(self.path)

    def subjects(self) -> tuple[Subject, ...]:
        with self.together(), self._checking():
            found = self._execute(
                "SELECT name, count(samples.id), subjects.added FROM subjects"
                " LEFT JOIN samples ON subject = subjects.id GROUP BY subjects.id"
            )
            return tuple(Subject(check_name(name), n, as_time(added)) for name, n, added in found)

    def samples(self, name: str) -> tuple[Sample, ...]:
        with self.together():
            found = self._execute(
                "SELECT samples.id, source, digest, added, images.id IS NOT NULL FROM samples"
                " LEFT JOIN images USING (id) WHERE subject = ? ORDER BY samples.id",
                (self._known(name),),
            )
            with self._checking():
                return tuple(_sample(*values) for values in found)

    def image(self, sample: int) -> bytes | None:
        with self.together():
            self._owner(sample)
            found = self._ask("SELECT image FROM images WHERE id = ?", int(sample))
        if found is None:
            return None
        if not isinstance(found[0], bytes):
            raise self._damaged(f"the image of sample {sample} is not an image")
        return found[0]

    def labelled(self) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
        with self.together():
            index = self._follow_index()
            order = np.argsort(index.ids)
            names = self._names(np.unique(index.subjects).tolist())
            return index.matrix[order], tuple(names[n] for n in index.subjects[order].tolist())

    def repeated(self, most: int) -> tuple[npt.NDArray[np.float32], Numbers]:
        with self.together():  # a million rows are not copied for the sake of a few thousand
            index = self._follow_index()
            several = np.flatnonzero(index.counts > 1)
            if len(several) > most:
                several = several[np.linspace(0, len(several) - 1, most).round().astype(int)]
            rows = index.rows_of(several)
            return index.matrix[rows], index.subjects[rows]

    def _rows(self, images: bool) -> Iterator[Sequence[Row]]:
        found = self._execute(
            f"SELECT name, embedding, source, digest, {'image' if images else 'NULL'},"
            " samples.added, samples.id FROM samples JOIN subjects ON subjects.id = subject"
            f" {'LEFT JOIN images ON images.id = samples.id' if images else ''}"
            " ORDER BY samples.id"
        )
        while rows := [Row(*values) for values in found.fetchmany(_ROWS)]:
            with self._checking():
                for row in rows:
                    row.check(self.dim)
            yield rows

    # Within

    @property
    def _settings(self) -> Settings:
        return self._known_settings

    def _calibration(self) -> str | None:
        found = self._ask("SELECT value FROM meta WHERE key = 'thresholds'")
        return None if found is None else found[0]

    def _number(self, name: str) -> int | None:
        """The number of a subject; None where nobody is called so."""
        found = self._ask("SELECT id FROM subjects WHERE name = ?", name)
        return None if found is None else int(found[0])

    def _known(self, name: str) -> int:
        number = self._number(name)
        if number is None:
            raise OptionError(f"nobody called {name!r} is enrolled in {self.path}")
        return number

    def _owner(self, sample: int) -> int:
        """The number of a sample's subject."""
        fits = isinstance(sample, int | np.integer) and 0 < sample < 2**63
        found = self._ask("SELECT subject FROM samples WHERE id = ?", int(sample)) if fits else None
        if found is None:
            raise OptionError(f"there is no sample {sample!r} in {self.path}")
        with self._checking():
            return int(found[0])


def _sample(number: int, source: Any, digest: Any, added: Any, has_image: int) -> Sample:
    if not isinstance(source, str | None) or not isinstance(digest, bytes | None):
        raise TypeError(f"sample {number} has a source or digest of a wrong type")
    return Sample(
        number, source, None if digest is None else digest.hex(), as_time(added), bool(has_image)
    )


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
    """Make an empty gallery, whole or not at all; False where one is there already."""
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
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            if path.exists():
                return False
            part.rename(path)
        sync(path.parent)
        return True
    except OSError as error:
        raise DataError(f"{path} cannot be made: {error.strerror}") from None
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
    if code == sqlite3.SQLITE_FULL:
        return f"there is no room left on the disk for {path}"
    if code == sqlite3.SQLITE_IOERR:
        return f"{path} cannot be read or written ({error}): is the disk full?"
    if code == sqlite3.SQLITE_READONLY:
        return f"{path} cannot be written: the file or its folder is read-only"
    if code == sqlite3.SQLITE_CANTOPEN:
        return f"{path} cannot be opened ({error})"
    if code == sqlite3.SQLITE_TOOBIG:
        return f"an image is too large for {path}"
    if code == sqlite3.SQLITE_NOTADB:
        return f"{path} is not a gallery: it is no SQLite file"
    return f"{path} is damaged ({one_line(error)}): restore it from a copy or an export"
