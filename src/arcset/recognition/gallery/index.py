"""All embeddings of a gallery in memory, and whose they are."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Index", "Numbers", "Rows", "Vectors"]

Numbers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Vectors = npt.NDArray[np.float32]

_ROWS = 4096  # moved at once


class Index:
    """Unit embeddings (N, D), in the order of their samples' numbers.

    Parameters:
        dim: D. room: for how many rows there is memory at first.

    Attributes:
        last: the highest number of a sample that was ever added.
    """

    def __init__(self, dim: int, room: int = 0) -> None:
        self.dim = dim
        self.last = 0
        self._count = 0
        self._counts: Numbers | None = None
        self._matrix = np.empty((room, dim), np.float32)
        self._ids, self._subjects = np.empty((2, room), np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def matrix(self) -> Vectors:
        """(N, D) the embeddings."""
        return self._matrix[: self._count]

    @property
    def subjects(self) -> Numbers:
        """(N,) the number of each row's subject."""
        return self._subjects[: self._count]

    @property
    def counts(self) -> Numbers:
        """(highest subject + 1,) how many samples each subject has."""
        if self._counts is None:
            self._counts = np.bincount(self.subjects).astype(np.int64, copy=False)
            self._subject_count = int(np.count_nonzero(self._counts))
        return self._counts

    @property
    def subject_count(self) -> int:
        """How many subjects have any samples."""
        return self._subject_count if len(self.counts) else 0

    def rows_of(self, subjects: Numbers) -> Rows:
        """The rows that belong to any of these subjects, rising."""
        among = np.zeros(len(self.counts), bool)
        among[subjects] = True
        return np.flatnonzero(among[self.subjects])

    def add(self, ids: Numbers, subjects: Numbers, vectors: Vectors) -> None:
        """Append rows, (n,), (n,) and (n, D), of samples with rising numbers above `last`."""
        stop = self._count + len(ids)
        if stop > len(self._ids):
            room = max(stop, 2 * self._count)
            self._matrix = _longer(self._matrix, room)
            self._ids, self._subjects = _longer(self._ids, room), _longer(self._subjects, room)
        self._matrix[self._count : stop] = vectors
        self._ids[self._count : stop] = ids
        self._subjects[self._count : stop] = subjects
        self._count, self.last, self._counts = stop, int(ids[-1]), None

    def keep(self, ids: Numbers, subjects: Numbers) -> None:
        """Keep only the rows of these samples, (n,) rising, and give them to these subjects.

        Rows move up block by block, which spares a copy of all.
        """
        rows = np.flatnonzero(np.isin(self._ids[: self._count], ids, assume_unique=True))
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            self._matrix[start : start + len(part)] = self._matrix[part]
        self._matrix[len(rows) : self._count] = 0  # what was removed is not left in memory either
        self._ids[: len(rows)] = self._ids[rows]
        self._count, self._counts = len(rows), None
        self.subjects[:] = subjects[np.searchsorted(ids, self._ids[: self._count])]


def _longer(values: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    longer = np.empty((room, *values.shape[1:]), values.dtype)
    longer[: len(values)] = values
    return longer
