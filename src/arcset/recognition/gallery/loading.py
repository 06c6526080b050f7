"""Embeddings from a gallery's file into memory."""

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from arcset.recognition.gallery.database import Database
from arcset.recognition.gallery.index import Index, Numbers, Vectors
from arcset.recognition.gallery.memory import provide
from arcset.recognition.gallery.schema import NOBODY

__all__ = ["Loader", "Part"]

_PART = 256  # rows at a time: few enough to stay in the processor's cache, from SQLite to the index
_SPARE = 1 << 24  # how far the numbers of subjects may exceed 64 times the number of samples
_OFF = 1e-3  # how far the square of an embedding's length may be from 1

Part = tuple[Numbers, Numbers, Vectors]  # samples, subjects and embeddings of some rows


class Loader:
    """Reads embeddings of `dim` numbers, and checks what it reads.

    To be used inside a transaction or `reading`. Raises `DataError` for whatever no gallery wrote.
    """

    def __init__(self, database: Database, dim: int) -> None:
        self._database = database
        self._dim = dim

    def all(self, count: int) -> Index:
        """Every sample, of which there are `count`."""
        index = Index(self._dim)
        if not 0 <= count * 4 * self._dim <= self._database.size():
            raise self._database.damaged(f"it has no room for the {count} samples it says to hold")
        provide(index.reserve(count))
        for part in self.after(0):
            if len(index) + len(part[0]) > count:
                raise self._database.damaged(f"it holds more than {count} samples")
            index.add(*part, count=False)
        if len(index) < count:
            raise self._database.damaged(f"it holds {len(index)} and not {count} samples")
        index.recount()
        return index

    def after(self, last: int) -> Iterator[Part]:
        """The samples of higher number than `last`, some at a time."""
        return map(self._part, self._rows(last))

    def _rows(self, last: int) -> Iterator[list[Any]]:
        found = self._database.execute(
            f"SELECT id, subject - {NOBODY}, embedding FROM samples"
            f" WHERE id > ? AND subject <> {NOBODY} ORDER BY id",
            (last,),
        )
        while rows := found.fetchmany(_PART):
            yield rows

    def _part(self, rows: list[Any]) -> Part:
        ids, owners, embeddings = zip(*rows, strict=True)
        try:
            samples = np.frombuffer(array("q", ids), np.int64)
            subjects = np.frombuffer(array("q", owners), np.int64)
            right = {*map(len, embeddings)} == {4 * self._dim}
            content = b"".join(embeddings)
        except (TypeError, OverflowError):
            right = False
        if not right:
            raise self._database.damaged("a number or an embedding in it is not a finite number")
        vectors = np.frombuffer(content, "<f4").reshape(len(rows), self._dim)
        self.check_numbers(samples, subjects)
        right = np.abs(np.einsum("nd,nd->n", vectors, vectors) - 1) < _OFF  # false for NaN
        if not right.all():
            wrong = samples[int(np.argmin(right))]
            raise self._database.damaged(f"the embedding of sample {wrong} is not of length 1")
        return samples, subjects, vectors

    def check_numbers(self, samples: Numbers, subjects: Numbers) -> None:
        """Raise `DataError` unless samples, and the subject of each, have numbers that can be."""
        # Counts are kept by a subject's number, so that this must not be without bound.
        most = _SPARE + 64 * int(samples.max())
        if samples.min() < 1 or subjects.min() < 1 or subjects.max() > most:
            raise self._database.damaged("a number in it is out of range")
