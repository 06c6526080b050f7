"""Embeddings from a gallery's file into memory."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from arcset.errors import DataError
from arcset.recognition.gallery.database import Database
from arcset.recognition.gallery.index import Index, Numbers, Vectors

__all__ = ["Loader"]

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

    def all(self) -> Index:
        """Every sample."""
        index = Index(self._dim)
        samples, subjects = self._owners(0)
        if len(samples):
            index.fill(self._parts(0, samples, subjects), len(samples))
        return index

    def after(self, last: int) -> Iterator[Part]:
        """The samples of higher number than `last`, some at a time."""
        samples, subjects = self._owners(last)
        return self._parts(last, samples, subjects) if len(samples) else iter(())

    def _owners(self, last: int) -> tuple[Numbers, Numbers]:
        """The numbers of these samples, rising, and those of their subjects."""
        rows = self._database.execute(
            "SELECT id, subject FROM samples WHERE id > ? ORDER BY id", (last,)
        )
        try:
            pairs = np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, 2)
        except (TypeError, ValueError, OverflowError):
            raise self._damaged("a number in it is none") from None
        samples, subjects = pairs[:, 0].copy(), pairs[:, 1].copy()
        if len(samples):
            # Counts are kept by a subject's number, so that this must not be without bound.
            if subjects.min() < 1 or subjects.max() > _SPARE + 64 * samples[-1]:
                raise self._damaged("the number of a subject is out of range")
            if samples[0] < 1:
                raise self._damaged("the number of a sample is out of range")
        return samples, subjects

    def _parts(self, last: int, samples: Numbers, subjects: Numbers) -> Iterator[Part]:
        rows = self._database.execute(
            "SELECT id, embedding FROM contents WHERE id > ? ORDER BY id", (last,)
        )
        start = 0
        while part := rows.fetchmany(_PART):
            numbers, blobs = zip(*part, strict=True)
            here = np.array(numbers, np.int64)
            stop = start + len(here)
            if not np.array_equal(samples[start:stop], here):  # some of these were removed
                stop = start + int(np.searchsorted(samples[start:], here[-1], side="right"))
                kept = np.isin(here, samples[start:stop])
                blobs = tuple(blob for blob, keep in zip(blobs, kept, strict=True) if keep)
                here = here[kept]
            if len(here) != stop - start:
                break
            if len(here):
                yield here, subjects[start:stop], self._vectors(blobs, here)
            start = stop
        if start != len(samples):
            raise self._damaged("a sample has no embedding")

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
