"""Who is nearest: from the cosines of samples to those of subjects.

A subject of several samples scores, by the gallery's choice, its best cosine (`max`), the mean of
all (`mean`), or the mean of its best K (`top-K`; of all, where it has fewer).

Cosines of all samples are computed in float32, by BLAS or FAISS. Those that may matter are computed
once more in float64 and rounded as everywhere, so that the answer does not depend on how many
probes came together, or on the order of samples in memory. A float32 inner product of unit vectors
is off by at most D · 2⁻²⁴, a bit more where it is summed carelessly, so that twice as much decides
what may matter. Equal scores are ordered by the age of the subjects.
"""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from arcset.errors import OptionError
from arcset.evaluation.pairs import HALF_STEP, round_cosines
from arcset.recognition.gallery.index import Index, Numbers, Vectors

__all__ = ["Scores", "Scoring", "exact_cosines", "nearest_subjects", "slack"]

Scores = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_AT_ONCE = 4096  # rows that are computed once more at a time
_SINGLY = 8  # so many probes and more go to FAISS together


@dataclass(frozen=True)
class Scoring:
    """How a subject of several samples is scored: `max`, `mean`, or the mean of the `best` ones.

    >>> Scoring.of("top-3")
    Scoring(word='top-3', best=3)
    >>> Scoring.of("median")
    Traceback (most recent call last):
    arcset.errors.OptionError: scoring='median' is unknown, expected max, mean, or top-3 ...
    """

    word: str
    best: int | None

    @classmethod
    def of(cls, word: object) -> "Scoring":
        """From the word for it; raises `OptionError` for others."""
        if word == "max":
            return cls("max", 1)
        if word == "mean":
            return cls("mean", None)
        found = re.fullmatch(r"top-([1-9][0-9]{0,5})", word) if isinstance(word, str) else None
        if found is None:
            raise OptionError(
                f"scoring={word!r} is unknown, expected max, mean, or top-3 for the mean of the"
                " best three samples (or another number)"
            )
        return cls(str(word), int(found[1]))

    def score(self, cosines: Scores, subjects: Numbers) -> tuple[Numbers, Scores]:
        """The subjects among rows, rising, and the score of each from these rows' cosines (n,)."""
        order = np.lexsort((-cosines, subjects))  # by subject, falling within each
        sorted_subjects, values = subjects[order], cosines[order]
        starts = np.flatnonzero(np.r_[True, sorted_subjects[1:] != sorted_subjects[:-1]])
        found = sorted_subjects[starts]
        if self.best == 1:
            return found, values[starts]
        lengths = np.diff(np.r_[starts, len(values)])
        if self.best is not None:
            place = np.arange(len(values)) - np.repeat(starts, lengths)
            values = np.where(place < self.best, values, 0.0)
            lengths = np.minimum(lengths, self.best)
        return found, np.add.reduceat(values, starts) / lengths


def nearest_subjects(
    index: Index, probes: Vectors, wanted: int, scoring: Scoring
) -> tuple[Numbers, Scores]:
    """The subjects of highest score, falling, (n, k), and their scores, (n, k).

    probes: (n, D) unit rows. k is `wanted`, or as many subjects as there are.
    """
    wanted = min(wanted, index.subject_count)
    subjects = np.empty((len(probes), wanted), np.int64)
    scores = np.empty((len(probes), wanted))
    if not wanted:
        return subjects, scores
    first = _first_guess(index, wanted)
    together = len(probes) >= _SINGLY and scoring.best is not None and first < len(index)
    if together:
        cosines, rows = index.search(probes, first)  # (n, first), falling
    for number, probe in enumerate(probes):
        found = None
        if together:
            found = _best_of(
                index, probe, rows[number], cosines[number], wanted, scoring, len(index)
            )
        if found is None:
            found = _best(index, probe, wanted, scoring)
        subjects[number], scores[number] = found
    return subjects, scores


def _first_guess(index: Index, wanted: int) -> int:
    """So many of the nearest rows will most likely hold as many subjects as are wanted."""
    each = -(-len(index) // max(1, index.subject_count))
    return min(len(index), max(32, 4 * wanted * each))


def _best(index: Index, probe: Vectors, wanted: int, scoring: Scoring) -> tuple[Numbers, Scores]:
    cosines = index.matrix @ probe  # (N,)
    if scoring.best is None:
        return _best_mean(index, probe, cosines, wanted)
    count = _first_guess(index, wanted)
    while True:
        if count < len(index):
            rows = np.argpartition(cosines, len(index) - count)[len(index) - count :]
        else:
            rows = np.arange(len(index))
        found = _best_of(index, probe, rows, cosines[rows], wanted, scoring, len(index))
        if found is not None:
            return found
        count = min(len(index), 8 * count)


def _best_of(
    index: Index,
    probe: Vectors,
    rows: Rows,
    cosines: Vectors,
    wanted: int,
    scoring: Scoring,
    total: int,
) -> tuple[Numbers, Scores] | None:
    """The best subjects, looked for among the nearest rows; None where these are too few to tell.

    No subject scores more than its best sample. So if enough of these reach more than all other
    rows can, those are the best.
    """
    most_off = slack(index.dim)
    owners = index.subjects[rows]
    limit = float(cosines.min()) + most_off if len(rows) < total else -np.inf
    if scoring.best != 1:
        among = np.zeros(len(index.counts), bool)
        among[owners] = True
        rows = np.flatnonzero(among[index.subjects])  # all samples of these subjects
        owners = index.subjects[rows]
        found, scores = scoring.score(_exact(index, rows, probe), owners)
    else:
        if len(rows) > 4 * wanted:  # leave out what cannot be among the best
            found, rough = scoring.score(cosines.astype(np.float64), owners)
            if len(found) < wanted:
                return None
            least = np.partition(rough, len(rough) - wanted)[len(rough) - wanted]
            near = cosines >= least - 2 * most_off
            rows, owners = rows[near], owners[near]
        found, scores = scoring.score(_exact(index, rows, probe), owners)
    if len(found) < wanted:
        return None
    order = np.lexsort((found, -scores))[:wanted]
    if scores[order[-1]] <= limit:
        return None
    return found[order], scores[order]


def _best_mean(
    index: Index, probe: Vectors, cosines: Vectors, wanted: int
) -> tuple[Numbers, Scores]:
    present = np.flatnonzero(index.counts)
    sums = np.bincount(index.subjects, weights=cosines, minlength=len(index.counts))
    rough = sums[present] / index.counts[present]
    least = np.partition(rough, len(rough) - wanted)[len(rough) - wanted]
    among = np.zeros(len(index.counts), bool)
    among[present[rough >= least - 2 * slack(index.dim)]] = True
    rows = np.flatnonzero(among[index.subjects])
    found, scores = Scoring("mean", None).score(_exact(index, rows, probe), index.subjects[rows])
    order = np.lexsort((found, -scores))[:wanted]
    return found[order], scores[order]


def slack(dim: int) -> float:
    """More than a cosine computed in float32 is off from a rounded one."""
    return 2 * (dim + 8) * 2.0**-24 + 2 * HALF_STEP


def _exact(index: Index, rows: Rows, probe: Vectors) -> Scores:
    parts = [
        exact_cosines(index.matrix[rows[start : start + _AT_ONCE]], probe)
        for start in range(0, len(rows), _AT_ONCE)
    ]
    return np.concatenate(parts) if len(parts) != 1 else parts[0]


def exact_cosines(vectors: Vectors, probe: Vectors) -> Scores:
    """(n,) cosines in float64, rounded, each computed in the same way whatever the others are."""
    cosines = np.einsum("nd,d->n", vectors.astype(np.float64), probe.astype(np.float64))
    return round_cosines(cosines).astype(np.float64)
