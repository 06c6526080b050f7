"""All embeddings of a gallery in memory: a flat index of FAISS, and whose they are."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Index", "Numbers", "Vectors"]

Numbers = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


class Index:
    """Unit embeddings (N, D) in rows of no particular order.

    Attributes:
        flat: faiss.IndexFlatIP, which owns the embeddings.
        matrix: (N, D), the same memory as numpy sees it; until the next change only.
        ids, subjects: (N,) of each row, the numbers of its sample and its subject.
        counts: (highest subject + 1,) how many samples each subject has.
        subject_count: how many subjects have any.
    """

    def __init__(self, dim: int) -> None:
        import faiss  # heavy, and not needed where no gallery is opened

        self.dim = dim
        self.flat: Any = faiss.IndexFlatIP(dim)
        self._view = faiss.rev_swig_ptr
        self._ids = np.empty(0, np.int64)
        self._subjects = np.empty(0, np.int64)
        self.counts = np.zeros(0, np.int64)
        self.subject_count = 0
        self._matrix: Vectors | None = None

    def __len__(self) -> int:
        return int(self.flat.ntotal)

    @property
    def ids(self) -> Numbers:
        """(N,) the number of each row's sample."""
        return self._ids[: len(self)]

    @property
    def subjects(self) -> Numbers:
        """(N,) the number of each row's subject."""
        return self._subjects[: len(self)]

    @property
    def matrix(self) -> Vectors:
        """(N, D), the memory of FAISS as numpy sees it; to be asked for anew after a change."""
        if self._matrix is None:
            size = len(self) * self.dim
            memory = self._view(self.flat.get_xb(), size) if size else np.empty(0, np.float32)
            self._matrix = memory.reshape(-1, self.dim)
        return self._matrix

    def add(self, ids: Numbers, subjects: Numbers, vectors: Vectors) -> None:
        """Append rows, (n,), (n,) and (n, D)."""
        start, stop = len(self), len(self) + len(ids)
        if stop > len(self._ids):
            room = max(stop, 2 * start)
            self._ids = _longer(self._ids, room)
            self._subjects = _longer(self._subjects, room)
        self._ids[start:stop] = ids
        self._subjects[start:stop] = subjects
        self._matrix = None
        self.flat.add(np.ascontiguousarray(vectors, np.float32))
        self._count(subjects, 1)

    def fill(self, parts: Iterator[tuple[Numbers, Numbers, Vectors]], count: int) -> None:
        """Put `count` rows into an empty index, which come in parts, without copying them twice."""
        self._ids = np.empty(count, np.int64)
        self._subjects = np.empty(count, np.int64)
        self._resize(count)
        start = stop = 0
        for ids, subjects, vectors in parts:
            stop = start + len(ids)
            if stop > count:
                break
            self._ids[start:stop] = ids
            self._subjects[start:stop] = subjects
            self.matrix[start:stop] = vectors
            start = stop
        if stop != count:
            raise ValueError(f"there are not {count} samples, as it says")
        self._count(self._subjects, 1)

    def remove(self, ids: Numbers) -> None:
        """Take out the rows of these samples, as far as they are here."""
        gone = np.flatnonzero(np.isin(self.ids, ids))
        if not len(gone):
            return
        self._count(self.subjects[gone], -1)
        keep = len(self) - len(gone)
        holes = gone[gone < keep]
        last = np.setdiff1d(np.arange(keep, len(self)), gone, assume_unique=True)
        for rows in (self.matrix, self._ids, self._subjects):
            rows[holes] = rows[last]  # the last rows move up
        self.matrix[keep:] = 0  # what was removed does not stay in memory either
        self._resize(keep)

    def move(self, ids: Numbers, subjects: Numbers) -> None:
        """Give samples to other subjects."""
        order = np.argsort(ids)
        rows = np.flatnonzero(np.isin(self.ids, ids))
        self._count(self.subjects[rows], -1)
        place = np.searchsorted(ids, self.ids[rows], sorter=order)
        self._subjects[rows] = subjects[order[place]]
        self._count(self.subjects[rows], 1)

    def rows_of(self, subject: int) -> npt.NDArray[np.intp]:
        """Where a subject's samples are."""
        return np.flatnonzero(self.subjects == subject)

    def _resize(self, rows: int) -> None:
        self._matrix = None
        self.flat.codes.resize(rows * self.dim * 4)
        self.flat.ntotal = rows

    def _count(self, subjects: Numbers, sign: int) -> None:
        if not len(subjects):
            return
        highest = int(subjects[0] if len(subjects) == 1 else subjects.max())
        if highest >= len(self.counts):
            longer = np.zeros(max(highest + 1, 2 * len(self.counts)), np.int64)
            longer[: len(self.counts)] = self.counts
            self.counts = longer
        if len(subjects) == 1:  # nearly always, and quick
            before = self.counts[highest]
            self.counts[highest] = after = before + sign
            self.subject_count += int(after > 0) - int(before > 0)
        else:
            np.add.at(self.counts, subjects, sign)
            self.subject_count = int(np.count_nonzero(self.counts))


def _longer(values: Numbers, room: int) -> Numbers:
    longer = np.empty(room, np.int64)
    longer[: len(values)] = values
    return longer
