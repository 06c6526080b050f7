"""Embeddings from a gallery's file into memory."""

import sys
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from arcset.errors import DataError
from arcset.recognition.gallery.database import Database
from arcset.recognition.gallery.index import Index, Numbers, Vectors
from arcset.recognition.gallery.schema import NOBODY

__all__ = ["Loader", "Part"]

_PART = 512  # rows at a time
_SPARE = 1 << 24  # how far the numbers of subjects may exceed 64 times the number of samples
_OFF = 1e-3  # how far the square of an embedding's length may be from 1

Part = tuple[Numbers, Numbers, Vectors]  # samples, subjects and embeddings of some rows


class Loader:
    """Reads embeddings of `dim` numbers, and checks what it reads.

    To be used inside `reading` or `writing`. Raises `DataError` for whatever no gallery wrote.
    """

    def __init__(self, database: Database, dim: int) -> None:
        self._database = database
        self._dim = dim

    def all(self, count: int) -> Index:
        """Every sample, of which there are `count`."""
        index = Index(self._dim)
        if not 0 <= count * 4 * self._dim <= self._database.size():
            raise self._damaged(f"it says to hold {count} samples")  # that it has no room for
        index.reserve(count)
        rows = self._rows(0)
        while len(index) < count:
            samples, subjects = self._take(islice(rows, _PART), index.room()[:_PART])
            if not len(samples):
                raise self._damaged(f"it holds {len(index)} and not {count} samples")
            index.take(samples, subjects, count=False)
        index.recount()
        if next(rows, None) is not None:
            raise self._damaged(f"it holds more than {count} samples")
        return index

    def after(self, last: int) -> Iterator[Part]:
        """The samples of higher number than `last`, some at a time."""
        rows = self._rows(last)
        while part := list(islice(rows, _PART)):
            vectors = np.empty((len(part), self._dim), np.float32)
            yield *self._take(part, vectors), vectors

    def _rows(self, last: int) -> Iterator[tuple[Any, Any, Any]]:
        return self._database.execute(
            f"SELECT id, subject - {NOBODY}, embedding FROM samples"
            f" WHERE id > ? AND subject <> {NOBODY} ORDER BY id",
            (last,),
        )

    def _take(self, rows: Iterable[tuple[Any, Any, Any]], out: Vectors) -> tuple[Numbers, Numbers]:
        """Write the embeddings of at most as many rows as `out` has; samples and subjects.

        Each goes straight to its place: there it is copied once, while it is in the processor's
        cache, which decides how long it takes to open a large gallery.
        """
        samples, subjects = array("q"), array("q")
        memory, size = memoryview(out.data).cast("B"), 4 * self._dim
        start = 0
        try:
            for sample, subject, embedding in rows:
                memory[start : start + size] = embedding
                samples.append(sample)
                subjects.append(subject)
                start += size
        except (TypeError, ValueError, OverflowError):
            raise self._damaged("a number or an embedding in it is none") from None
        numbers = np.frombuffer(samples, np.int64), np.frombuffer(subjects, np.int64)
        self._check(*numbers, out[: len(samples)])
        return numbers

    def _check(self, samples: Numbers, subjects: Numbers, vectors: Vectors) -> None:
        if not len(samples):
            return
        if sys.byteorder == "big":
            vectors.byteswap(inplace=True)
        # Counts are kept by a subject's number, so that this must not be without bound.
        most = _SPARE + 64 * int(samples[-1])
        if samples[0] < 1 or subjects.min() < 1 or subjects.max() > most:
            raise self._damaged("a number in it is out of range")
        right = np.abs(np.einsum("nd,nd->n", vectors, vectors) - 1) < _OFF  # false for NaN
        if not right.all():
            wrong = samples[int(np.argmin(right))]
            raise self._damaged(f"the embedding of sample {wrong} is not of length 1")

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self._database.path} is damaged: {why}; restore it from a copy or an export"
        )
