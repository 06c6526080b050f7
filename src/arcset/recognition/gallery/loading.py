"""Embeddings from a gallery's file into memory."""

from collections.abc import Iterator, Sequence

import numpy as np

from arcset.errors import DataError
from arcset.recognition.gallery.database import Database
from arcset.recognition.gallery.index import Index, Numbers, Vectors
from arcset.recognition.gallery.schema import NOBODY

__all__ = ["Loader", "Part"]

_PART = 1024  # rows read at a time: they stay in the processor's cache until they are copied
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
        # So many would need more room than the file has.
        if not 0 <= count * 4 * self._dim <= self._database.size():
            raise self._damaged(f"it says to hold {count} samples")
        try:
            index.fill(self.after(0), count)
        except ValueError as error:
            raise self._damaged(str(error)) from None
        return index

    def after(self, last: int) -> Iterator[Part]:
        """The samples of higher number than `last`, some at a time."""
        rows = self._database.execute(
            f"SELECT id, subject - {NOBODY}, embedding FROM samples"
            f" WHERE id > ? AND subject <> {NOBODY} ORDER BY id",
            (last,),
        )
        while part := rows.fetchmany(_PART):
            samples, subjects, blobs = zip(*part, strict=True)
            try:
                numbers = np.array(samples, np.int64), np.array(subjects, np.int64)
            except (TypeError, ValueError, OverflowError):
                raise self._damaged("a number in it is none") from None
            # Counts are kept by a subject's number, so that this must not be without bound.
            if min(subjects) < 1 or max(subjects) > _SPARE + 64 * samples[-1] or samples[0] < 1:
                raise self._damaged("a number in it is out of range")
            yield *numbers, self._vectors(blobs, numbers[0])

    def _vectors(self, blobs: Sequence[bytes], samples: Numbers) -> Vectors:
        try:
            joined = b"".join(blobs)
            lengths = set(map(len, blobs))
        except TypeError:
            raise self._damaged("an embedding is none") from None
        if lengths != {4 * self._dim}:
            raise self._damaged(f"not all embeddings are {self._dim} numbers")
        vectors = np.frombuffer(joined, "<f4").reshape(-1, self._dim)
        with np.errstate(over="ignore", invalid="ignore"):
            right = np.abs(np.einsum("nd,nd->n", vectors, vectors) - 1) < _OFF  # false for NaN
        if not right.all():
            wrong = samples[int(np.argmin(right))]
            raise self._damaged(f"the embedding of sample {wrong} is not of length 1")
        return vectors

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self._database.path} is damaged: {why}; restore it from a copy or an export"
        )
