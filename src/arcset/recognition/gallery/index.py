"""All embeddings of a gallery in memory, to be searched by FAISS, and whose they are."""

import numpy as np
import numpy.typing as npt

__all__ = ["Index", "Numbers", "Vectors"]

Numbers = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


class Index:
    """Unit embeddings (N, D) in rows of no particular order.

    `search` is FAISS's flat search by inner product, as its IndexFlatIP does, on memory that numpy
    owns: so embeddings are held once, and rows can be overwritten.

    Attributes:
        dim: D.
        counts: (highest subject + 1,) how many samples each subject has.
        subject_count: how many subjects have any.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.counts = np.zeros(0, np.int64)
        self.subject_count = 0
        self._count = 0
        self._matrix = np.empty((0, dim), np.float32)  # with room for more rows, as those below
        self._ids = np.empty(0, np.int64)
        self._subjects = np.empty(0, np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def matrix(self) -> Vectors:
        """(N, D) the embeddings; to be asked for anew after a change."""
        return self._matrix[: self._count]

    @property
    def ids(self) -> Numbers:
        """(N,) the number of each row's sample."""
        return self._ids[: self._count]

    @property
    def subjects(self) -> Numbers:
        """(N,) the number of each row's subject."""
        return self._subjects[: self._count]

    def search(self, probes: Vectors, count: int) -> tuple[Vectors, Numbers]:
        """Cosines, falling, and rows of the `count` nearest samples of each probe: (n, count)."""
        import faiss  # heavy, and not needed where one probe comes at a time

        found: tuple[Vectors, Numbers] = faiss.knn(
            probes, self.matrix, count, metric=faiss.METRIC_INNER_PRODUCT
        )
        return found

    def add(self, ids: Numbers, subjects: Numbers, vectors: Vectors, *, count: bool = True) -> None:
        """Append rows, (n,), (n,) and (n, D).

        count: whether subjects are counted now; if not, `recount` is to be called in the end.
        """
        stop = self._count + len(ids)
        self.reserve(stop, spare=2)
        self._matrix[self._count : stop] = vectors
        self._ids[self._count : stop] = ids
        self._subjects[self._count : stop] = subjects
        self._count = stop
        if count:
            self._tally(subjects, 1)

    def recount(self) -> None:
        """Count all samples of all subjects."""
        self.counts = np.bincount(self.subjects).astype(np.int64, copy=False)
        self.subject_count = int(np.count_nonzero(self.counts))

    def remove(self, ids: Numbers) -> None:
        """Take out the rows of these samples, as far as they are here."""
        gone = np.flatnonzero(np.isin(self.ids, ids))
        if not len(gone):
            return
        self._tally(self.subjects[gone], -1)
        keep = self._count - len(gone)
        holes = gone[gone < keep]
        last = np.setdiff1d(np.arange(keep, self._count), gone, assume_unique=True)
        for rows in (self._matrix, self._ids, self._subjects):
            rows[holes] = rows[last]  # the last rows move up
        self._matrix[keep : self._count] = 0  # what was removed does not stay in memory either
        self._count = keep

    def move(self, ids: Numbers, subjects: Numbers) -> None:
        """Give samples to other subjects."""
        order = np.argsort(ids)
        rows = np.flatnonzero(np.isin(self.ids, ids))
        self._tally(self.subjects[rows], -1)
        place = np.searchsorted(ids, self.ids[rows], sorter=order)
        self._subjects[rows] = subjects[order[place]]
        self._tally(self.subjects[rows], 1)

    def rows_of(self, subject: int) -> npt.NDArray[np.intp]:
        """Where a subject's samples are."""
        return np.flatnonzero(self.subjects == subject)

    def reserve(self, rows: int, spare: int = 1) -> Vectors:
        """Make room for so many rows; where there is too little, for `spare` times as many.

        Returns the memory of all rows, (at least `rows`, D), those that come and those that are.
        """
        if rows <= len(self._ids):
            return self._matrix
        room = max(rows, spare * self._count)
        matrix = np.empty((room, self.dim), np.float32)
        matrix[: self._count] = self.matrix
        self._matrix = matrix
        self._ids, self._subjects = _longer(self._ids, room), _longer(self._subjects, room)
        return matrix

    def _tally(self, subjects: Numbers, sign: int) -> None:
        if not len(subjects):
            return
        highest = int(subjects[0] if len(subjects) == 1 else subjects.max())
        if highest >= len(self.counts):
            self.counts = _longer(self.counts, max(highest + 1, 2 * len(self.counts)))
        if len(subjects) == 1:  # often, and quick
            before = int(self.counts[highest])
            self.counts[highest] = before + sign
            self.subject_count += int(before + sign > 0) - int(before > 0)
            return
        which, times = np.unique(subjects, return_counts=True)
        known = np.count_nonzero(self.counts[which])
        self.counts[which] += sign * times
        self.subject_count += int(np.count_nonzero(self.counts[which]) - known)


def _longer(values: Numbers, room: int) -> Numbers:
    longer = np.zeros(room, np.int64)
    longer[: len(values)] = values
    return longer
