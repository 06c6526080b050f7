"""Who is nearest: from the cosines of samples to the scores of subjects.

A subject of several samples scores, by the gallery's choice, its best cosine (`max`), the mean of
all (`mean`), or the mean of its best K (`top-K`; of all, where it has fewer).

Cosines with all samples are one product of matrices in float32. It tells which subjects can be
among the best; their cosines are computed once more in float64 and rounded as everywhere, so that
an answer depends neither on how many probes came together nor on the order of samples in memory.
Equal scores are ordered by the age of the subjects.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.evaluation.calibration.templates import Scoring
from arcset.evaluation.pairs import HALF_STEP, round_cosines

Numbers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Vectors = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]

_COSINES = 1 << 24  # computed at once: 64 MB
_ROWS = 4096  # taken up in float64 at once
_STRIDE = 64


class Index:
    """Unit embeddings (N, D), in the order of their samples' numbers.

    Parameters:
        dim: D. room: for how many rows there is memory at first.

    Attributes:
        last: the highest number of a sample; 0 until it is set.
    """

    def __init__(self, dim: int, room: int = 0) -> None:
        self.dim = dim
        self.last = 0
        self._count = 0
        self._counts: Numbers | None = None
        self._matrix, self._subjects = np.empty((room, dim), np.float32), np.empty(room, np.int64)

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

    def add(self, subjects: Numbers, vectors: Vectors) -> None:
        """Append the rows, (n,) and (n, D), of further samples."""
        stop = self._count + len(subjects)
        if stop > len(self._subjects):
            room = max(stop, 2 * self._count)
            self._matrix = _longer(self._matrix, room)
            self._subjects = _longer(self._subjects, room)
        self._matrix[self._count : stop] = vectors
        self._subjects[self._count : stop] = subjects
        self._count, self._counts = stop, None


def _longer(values: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    longer = np.empty((room, *values.shape[1:]), values.dtype)
    longer[: len(values)] = values
    return longer


def nearest_subjects(
    index: Index, probes: Vectors, wanted: int, scoring: Scoring
) -> tuple[Numbers, Scores]:
    """The subjects of highest score, falling, (n, k), and their scores, (n, k).

    probes: (n, D) unit rows. k is `wanted`, or as many subjects as there are.
    """
    wanted = min(wanted, index.subject_count)
    subjects, scores = np.empty((len(probes), wanted), np.int64), np.empty((len(probes), wanted))
    if not wanted:
        return subjects, scores
    contending_rows = _rows_by_mean if scoring.best is None else _rows_by_best
    step = max(1, _COSINES // len(index))
    for start in range(0, len(probes), step):
        block = probes[start : start + step] @ index.matrix.T  # (step, N)
        for number, cosines in enumerate(block, start):
            rows = contending_rows(index, cosines, wanted, scoring)
            exact = _exact_cosines_of(index, rows, probes[number])
            present, values = scoring.score(exact, index.subjects[rows])
            order = np.lexsort((present, -values))[:wanted]
            subjects[number], scores[number] = present[order], values[order]
    return subjects, scores


def _rows_by_best(index: Index, cosines: Vectors, wanted: int, scoring: Scoring) -> Rows:
    """The samples that decide who is best, looked for among the nearest samples, few at first.

    No subject scores more than its best sample. So if enough subjects score more than the last of
    the nearest samples, nobody else can be among the best. Where the best sample alone counts, it
    is among the nearest; else all samples of those who can be among the best are needed.
    """
    most_off = slack(index.dim)
    count = max(32, 4 * wanted * -(-len(index) // index.subject_count))
    while True:
        lowest = _lowest_of(cosines, count)
        rows = np.flatnonzero(cosines >= lowest)
        limit = lowest + 4 * most_off if len(rows) < len(index) else -np.inf
        if scoring.best != 1:
            rows = index.rows_of(index.subjects[rows])
        present, rough = scoring.score(cosines[rows].astype(np.float64), index.subjects[rows])
        if len(present) >= wanted:
            least = np.partition(rough, -wanted)[-wanted]
            if least > limit:
                least -= 2 * most_off
                if scoring.best == 1:
                    nearest: Rows = rows[cosines[rows] >= least]
                    return nearest
                return index.rows_of(present[rough >= least])
        count *= 8


def _lowest_of(cosines: Vectors, count: int) -> float:
    """A cosine that at least `count` reach, and hardly more; or all, if there are no more.

    Of many cosines only the best of every `_STRIDE` is looked at, in a third of the time.
    """
    if len(cosines) >= _STRIDE * 8 * count:
        cosines = cosines[: len(cosines) // _STRIDE * _STRIDE].reshape(_STRIDE, -1).max(axis=0)
    return float(np.partition(cosines, -count)[-count]) if count < len(cosines) else -np.inf


def _rows_by_mean(index: Index, cosines: Vectors, wanted: int, _: Scoring) -> Rows:
    """All samples of those who can be among the best, from the means of all."""
    present = np.flatnonzero(index.counts)
    sums = np.bincount(index.subjects, weights=cosines, minlength=len(index.counts))
    rough = sums[present] / index.counts[present]
    least = np.partition(rough, -wanted)[-wanted]
    return index.rows_of(present[rough >= least - 2 * slack(index.dim)])


def slack(dim: int) -> float:
    """More than a cosine computed in float32 is off from a rounded one.

    The inner product of two unit vectors is off by at most D · 2⁻²⁴, a bit more where it is summed
    carelessly, so that twice as much is allowed for.
    """
    return 2 * (dim + 8) * 2.0**-24 + 2 * HALF_STEP


def _exact_cosines_of(index: Index, rows: Rows, probe: Vectors) -> Scores:
    parts = [
        exact_cosines(index.matrix[rows[start : start + _ROWS]], probe)
        for start in range(0, len(rows), _ROWS)
    ]
    return np.concatenate(parts)


def exact_cosines(vectors: Vectors, probe: Vectors) -> Scores:
    """(n,) cosines in float64, rounded, each computed in the same way whatever the others are."""
    cosines = np.einsum("nd,d->n", vectors.astype(np.float64), probe.astype(np.float64))
    return round_cosines(cosines).astype(np.float64)
