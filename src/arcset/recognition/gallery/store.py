"""What is done to a gallery's tables, and how memory follows them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import numpy as np

from arcset.errors import DataError
from arcset.recognition.gallery.database import Database
from arcset.recognition.gallery.index import Index, Numbers, Vectors

__all__ = ["Row", "Store"]

_PART = 1024  # rows read at a time: they stay in the processor's cache until copied
_KEPT_JOURNAL = 100_000  # a process that missed more reads everything anew
_HIGHEST = 1 << 24  # subject numbers may exceed the number of samples by so much, and 64 times it


class Row(NamedTuple):
    """A sample to be enrolled."""

    subject: int
    vector: bytes
    source: str | None
    digest: bytes | None
    image: bytes | None


class Store:
    """The file and the index, kept equal.

    All methods are to be called by one thread at a time; those that change the file inside
    `changing`. The index always follows the file, whoever changed it: `refresh` reads what is new,
    and what the journal names.
    """

    def __init__(self, database: Database, dim: int) -> None:
        self.database = database
        self.dim = dim
        self.index = Index(dim)
        self._names: dict[str, int] = {}
        self._last_subject = 0  # of those in _names
        self._last_sample = 0  # of those in the index
        self._revision = 0
        self._epoch = -1
        self._seen = -1

    # Following the file

    def refresh(self) -> None:
        """Bring the index to the state of the file; inside `reading` or `writing`."""
        seen = self.database.data_version()
        if seen == self._seen:
            return
        self._seen = -1  # until all of it is done
        epoch = int(self.meta("epoch"))
        oldest, newest = self.database.execute(
            "SELECT (SELECT min(revision) FROM journal), (SELECT max(revision) FROM journal)"
        ).fetchone()
        if epoch != self._epoch or (oldest is not None and oldest > self._revision + 1):
            self._load()
        else:
            self._catch_up()
        self._epoch, self._revision = epoch, newest or 0
        self._seen = seen

    def follow(self) -> bool:
        """Take in what other processes committed since the last call; whether there was any."""
        with self.database.explained():
            if self.database.data_version() == self._seen:
                return False
        with self.database.reading():
            self.refresh()
        return True

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A transaction on the newest state; memory follows when it is on the disk."""
        with self.database.writing():
            self.refresh()
            self._seen = -1  # so that memory is found wanting whatever happens from here on
            yield
        with self.database.reading():
            self.refresh()

    def meta(self, key: str) -> str:
        """A value that every gallery has; raises `DataError` otherwise."""
        found = self.database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if found is None:
            raise DataError(f"{self.database.path} is damaged: it does not say its {key}")
        return str(found[0])

    def _load(self) -> None:
        index = Index(self.dim)
        self._names, self._last_subject = {}, 0
        ids, owners = self._owners(0)
        if len(ids):
            index.fill(self._parts(0, ids, owners), len(ids))
        self.index = index
        self._last_sample = self._highest("contents")

    def _catch_up(self) -> None:
        """What is new, and what the journal says was changed."""
        changed = [
            number
            for (number,) in self.database.execute(
                "SELECT DISTINCT sample FROM journal WHERE revision > ?", (self._revision,)
            )
        ]
        self.reread(changed)
        ids, owners = self._owners(self._last_sample)
        for part in self._parts(self._last_sample, ids, owners):
            self.index.add(*part)
        self._last_sample = self._highest("contents")

    def reread(self, samples: Sequence[int]) -> None:
        """Take these samples' subjects from the file; those that are gone go."""
        gone, moved, subjects = [], [], []
        for number in samples:
            found = self.database.execute(
                "SELECT subject FROM samples WHERE id = ?", (number,)
            ).fetchone()
            if found is None:
                gone.append(number)
            else:
                moved.append(number)
                subjects.append(found[0])
        if gone:
            self.index.remove(np.array(gone, np.int64))
        if moved:
            self.index.move(np.array(moved, np.int64), np.array(subjects, np.int64))

    def _owners(self, after: int) -> tuple[Numbers, Numbers]:
        """The numbers of all samples above one, rising, and their subjects."""
        cursor = self.database.execute(
            "SELECT id, subject FROM samples WHERE id > ? ORDER BY id", (after,)
        )
        pairs = np.fromiter(chain.from_iterable(cursor), np.int64).reshape(-1, 2)
        ids, owners = pairs[:, 0].copy(), pairs[:, 1].copy()
        most = _HIGHEST + 64 * (len(ids) + len(self.index))
        if len(ids) and not (ids[0] > 0 and owners.min() > 0 and owners.max() < most):
            raise DataError(f"{self.database.path} is damaged: a number in it is out of range")
        return ids, owners

    def _parts(
        self, after: int, ids: Numbers, owners: Numbers
    ) -> Iterator[tuple[Numbers, Numbers, Vectors]]:
        """The embeddings of these samples, all above one, some at a time."""
        cursor = self.database.execute(
            "SELECT id, embedding FROM contents WHERE id > ? ORDER BY id", (after,)
        )
        start = 0
        while rows := cursor.fetchmany(_PART):
            numbers, blobs = zip(*rows, strict=True)
            here = np.array(numbers, np.int64)
            stop = start + len(here)
            if not np.array_equal(ids[start:stop], here):  # some were removed
                stop = start + int(np.searchsorted(ids[start:], here[-1], side="right"))
                kept = np.isin(here, ids[start:stop])
                blobs = tuple(blob for blob, keep in zip(blobs, kept, strict=True) if keep)
                here = here[kept]
            if len(here) != stop - start:
                break
            if len(here):
                yield here, owners[start:stop], self._vectors(blobs, here)
            start = stop
        if start != len(ids):
            raise DataError(f"{self.database.path} is damaged: samples without content")

    def _vectors(self, blobs: Sequence[bytes], ids: Numbers) -> Vectors:
        try:
            joined = b"".join(blobs)
            if {len(blob) for blob in blobs} != {4 * self.dim}:
                raise TypeError
        except TypeError:
            raise DataError(
                f"{self.database.path} is damaged: embeddings are not {self.dim} numbers"
            ) from None
        vectors = np.frombuffer(joined, "<f4").reshape(-1, self.dim)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.einsum("nd,nd->n", vectors, vectors)
        right = np.abs(lengths - 1) < 1e-3  # false for what is not finite
        if not right.all():
            raise DataError(
                f"{self.database.path} is damaged: the embedding of sample"
                f" {ids[int(np.argmin(right))]} is not of length 1"
            )
        return vectors

    def _highest(self, table: str) -> int:
        return int(self.database.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0)

    # Names

    def subject(self, name: str) -> int | None:
        """The number of a subject, or None where nobody is called so."""
        self._read_names()
        number = self._names.get(name)
        if number is not None and self.name(number) != name:  # removed or renamed by another
            del self._names[name]
            return None
        return number

    def name(self, number: int) -> str | None:
        """The name of a subject, or None where it is gone."""
        found = self.database.execute(
            "SELECT name FROM subjects WHERE id = ?", (number,)
        ).fetchone()
        return found[0] if found is not None and isinstance(found[0], str) else None

    def names(self, numbers: Iterable[int]) -> dict[int, str | None]:
        """The names of several."""
        with self.database.explained():
            return {number: self.name(number) for number in numbers}

    def _read_names(self) -> None:
        for number, name in self.database.execute(
            "SELECT id, name FROM subjects WHERE id > ? ORDER BY id", (self._last_subject,)
        ):
            self._last_subject = number
            if isinstance(name, str):
                self._names[name] = number

    # Changing the file

    def add_subject(self, name: str, now: int) -> int:
        """A new subject's number."""
        return int(
            self.database.execute(
                "INSERT INTO subjects (name, added) VALUES (?, ?)", (name, now)
            ).lastrowid
            or 0
        )

    def add_samples(self, rows: Sequence[Row], now: int) -> list[int]:
        """New samples' numbers, in the order of the rows."""
        first = self._last_sample + 1
        ids = range(first, first + len(rows))
        self.database.execute_many(
            "INSERT INTO contents (id, embedding, source, digest) VALUES (?, ?, ?, ?)",
            ((id_, row.vector, row.source, row.digest) for id_, row in zip(ids, rows, strict=True)),
        )
        self.database.execute_many(
            "INSERT INTO samples (id, subject, added) VALUES (?, ?, ?)",
            ((id_, row.subject, now) for id_, row in zip(ids, rows, strict=True)),
        )
        images = [(id_, row.image) for id_, row in zip(ids, rows, strict=True) if row.image]
        if images:
            self.database.execute_many("INSERT INTO images (id, image) VALUES (?, ?)", images)
        return list(ids)

    def remove_samples(self, ids: Sequence[int]) -> None:
        """Overwrite the samples' content and forget them."""
        rows = [(number,) for number in ids]
        self.database.execute_many("DELETE FROM samples WHERE id = ?", rows)
        self.database.execute_many(
            "UPDATE contents SET embedding = zeroblob(length(embedding)),"
            " source = zeroblob(length(CAST(source AS BLOB))), digest = zeroblob(length(digest))"
            " WHERE id = ?",
            rows,
        )
        self.database.execute_many(
            "UPDATE images SET image = zeroblob(length(image)) WHERE id = ?", rows
        )
        self._journal(ids)

    def remove_subject(self, number: int) -> None:
        """Overwrite the name of a subject that has no samples any more."""
        self.database.execute(
            "UPDATE subjects SET name = zeroblob(length(CAST(name AS BLOB))) WHERE id = ?",
            (number,),
        )

    def move_samples(self, ids: Sequence[int], subject: int) -> None:
        """Give samples to another subject."""
        self.database.execute_many(
            "UPDATE samples SET subject = ? WHERE id = ?", [(subject, number) for number in ids]
        )
        self._journal(ids)

    def _journal(self, ids: Sequence[int]) -> None:
        self.database.execute_many(
            "INSERT INTO journal (sample) VALUES (?)", [(number,) for number in ids]
        )
        newest = self.database.execute("SELECT max(revision) FROM journal").fetchone()[0]
        self.database.execute("DELETE FROM journal WHERE revision <= ?", (newest - _KEPT_JOURNAL,))
