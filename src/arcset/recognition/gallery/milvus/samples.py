"""The samples of a gallery in Milvus."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from arcset.errors import InputError
from arcset.recognition.gallery.index import Vectors
from arcset.recognition.gallery.milvus.collections import LONGEST_TEXT, Collections, stored_dim
from arcset.recognition.gallery.milvus.connection import Connection, Record
from arcset.recognition.gallery.milvus.subjects import listed
from arcset.recognition.gallery.samples import Row

__all__ = ["Hit", "Samples"]

_ALL = ("id", "subject", "embedding", "added", "source", "digest")
_AT_ONCE = 1_000  # numbers in one question
_ANSWER = 48 << 20  # bytes of embeddings in one answer, for which Milvus has 64 MB


class Hit(NamedTuple):
    """The samples that are nearest to a probe: subjects (n,), embeddings (n, D), cosines (n,)."""

    subjects: list[int]
    vectors: Vectors
    cosines: list[float]


class Samples:
    """The rows of all samples, with embeddings of `dim` numbers."""

    def __init__(self, connection: Connection, collections: Collections, dim: int) -> None:
        self._connection, self._name, self._dim = connection, collections.samples, dim
        self._index, self._size = collections.index, 4 * stored_dim(dim)

    @property
    def longest_answer(self) -> int:
        """So many samples come in one answer, of all probes together."""
        return max(1, _ANSWER // self._size)

    def count(self, subjects: Iterable[int] | None = None) -> int:
        """How many there are, or these subjects have."""
        condition = "" if subjects is None else f"subject in {listed(subjects)}"
        return self._connection.count(self._name, condition)

    def add(
        self,
        numbers: Sequence[int],
        subjects: Sequence[int],
        rows: Sequence[Row],
        added: Sequence[int],
    ) -> None:
        """Write new samples."""
        longest = max((len(row.source or "") for row in rows), default=0)
        self._connection.insert(
            self._name,
            [
                {
                    "id": number,
                    "subject": subject,
                    "embedding": self._padded(np.frombuffer(row.embedding, "<f4")),
                    "added": moment,
                    "source": row.source,
                    "digest": None if row.digest is None else row.digest.hex(),
                }
                for number, subject, row, moment in zip(numbers, subjects, rows, added, strict=True)
            ],
            self._size + longest,
        )

    def take_away(self, numbers: Sequence[int]) -> None:
        """Remove samples."""
        self._connection.delete(self._name, list(numbers))

    def move(self, subjects: Sequence[int], into: int) -> None:
        """Give all samples of some subjects to another one."""
        condition = f"subject in {listed(subjects)}"
        rows = self._connection.query(self._name, condition, _ALL, self._size)
        self._connection.upsert(self._name, [{**row, "subject": into} for row in rows], self._size)

    def numbers_of(self, subjects: Iterable[int]) -> list[int]:
        """The numbers of all samples of some subjects, rising."""
        condition = f"subject in {listed(subjects)}"
        rows = self._connection.query(self._name, condition, ["id"])
        return sorted(int(row["id"]) for row in rows)

    def subject_of(self, number: int) -> int | None:
        """The number of a sample's subject; None where there is no such sample."""
        rows = self._connection.query(self._name, f"id == {number}", ["subject"])
        return int(rows[0]["subject"]) if rows else None

    def told(self, subjects: Iterable[int]) -> list[Record]:
        """All samples of some subjects, rising, without their embeddings."""
        fields = ("id", "added", "source", "digest")
        rows = self._connection.query(self._name, f"subject in {listed(subjects)}", fields)
        return sorted(rows, key=lambda row: int(row["id"]))

    def embeddings(self, subjects: Sequence[int]) -> tuple[list[int], Vectors]:
        """Of all samples of some subjects: the subject's number and the embedding, (n, D)."""
        rows: list[Record] = []
        for start in range(0, len(subjects), _AT_ONCE):
            condition = f"subject in {listed(subjects[start : start + _AT_ONCE])}"
            fields = ("id", "subject", "embedding")
            rows += self._connection.query(self._name, condition, fields, self._size)
        rows.sort(key=lambda row: int(row["id"]))
        return [int(row["subject"]) for row in rows], self.vectors(rows)

    def parts(self, fields: Sequence[str] = _ALL) -> Iterator[list[Record]]:
        """All samples, rising by number, some at a time."""
        size = self._size if "embedding" in fields else 0
        return self._connection.parts(self._name, "id > 0", fields, size)

    def nearest(self, probes: Vectors, limit: int) -> list[Hit]:
        """So many samples that are nearest to each probe, falling; exact if the index is flat."""
        fields = ("subject", "embedding")
        parameters = {"HNSW": {"ef": max(2 * limit, 256)}, "DISKANN": {"search_list": 2 * limit}}
        chosen = (
            {"nprobe": 64} if self._index == "ivf_flat" else parameters.get(self._index.upper(), {})
        )
        found = self._connection.search(
            self._name, [self._padded(probe) for probe in probes], limit, fields, chosen
        )
        return [
            Hit(
                [int(row["subject"]) for row in rows],
                self.vectors(rows),
                [float(row["distance"]) for row in rows],
            )
            for rows in found
        ]

    def vectors(self, rows: Sequence[Record]) -> Vectors:
        """(n, D) the embeddings of rows."""
        found = np.array([row["embedding"] for row in rows], np.float32)
        return found.reshape(len(rows), stored_dim(self._dim))[:, : self._dim]

    def _padded(self, vector: Vectors) -> Vectors:
        return np.pad(vector, (0, stored_dim(self._dim) - self._dim))


def check_sources(rows: Sequence[Row]) -> None:
    """Raise `InputError` for a source that is too long for Milvus."""
    for row in rows:
        if row.source is not None and len(row.source.encode()) > LONGEST_TEXT:
            raise InputError(
                f"the source {row.source[:20]!r}… is longer than the {LONGEST_TEXT:,} bytes that"
                " Milvus keeps of a text"
            )
