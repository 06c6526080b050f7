"""Where no threshold helps: a sample that lies nearer to another class than to its own.

All distances from one row after the other: fast, with a bound of their error, or exact.

Matrix products give squared distances as |p|² + |q|² − 2p·q, but that cancels where points nearly
coincide. So each row of them comes with a bound of its error, and whoever cannot decide with it
asks for that row once more, computed from differences.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice
from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    class_numbers,
    embedding_matrix,
)
from arcset.evaluation.pairs import cosine_blocks, unit_rows

__all__ = ["DistanceRows", "Distances", "NoThreshold", "no_threshold"]

BLOCK_DISTANCES = 2**21  # distances held at once, 16 MB
Distances = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DistanceRows:
    """Distances between the `points` (N, D), by the metric `euclidean` or `cosine` (1 − cos θ).

    Rows hold what is quick to compare: squared Euclidean distances of points divided by
    2^exponent, or 1 − cos θ, rounded as `pairs` says; `distance` turns either into distances.
    """

    points: npt.NDArray[Any]
    metric: str
    exponent: int

    @classmethod
    def of(cls, matrix: npt.NDArray[Any], metric: str) -> "DistanceRows":
        """Of a finite `matrix` (N, D); for cosine no row may be all zero."""
        if metric == "cosine":
            return cls(unit_rows(matrix), metric, 0)
        points = np.array(matrix, dtype=np.float64)
        # A power of two rounds nothing, and squares neither overflow nor vanish after it.
        exponent = int(np.frexp(max(points.max(), -points.min()))[1])
        return cls(np.ldexp(points, -exponent), metric, exponent)

    def __iter__(self) -> Iterator[tuple[int, Distances, float]]:
        """For each point its number, its row (N,), and how far two entries of it may both be off.

        The product form is off by at most γ(|p|² + |q|²), γ = 4(D + 8)ε: see `dunn`.
        """
        if self.metric == "cosine":
            for part, cosines in cosine_blocks(self.points, self.points):
                for i, row in enumerate(cosines, part.start):
                    yield i, 1.0 - row.astype(np.float64), 0.0
            return
        step = max(1, BLOCK_DISTANCES // len(self.points))
        centered = self.points - self.points.mean(axis=0)
        squares = np.einsum("nd,nd->n", centered, centered)
        errors = 8 * (centered.shape[1] + 8) * np.finfo(np.float64).eps * (squares + squares.max())
        for start in range(0, len(centered), step):
            block = -2 * centered[start : start + step] @ centered.T
            block += squares[start : start + step, None]
            block += squares
            for i, row in enumerate(block, start):
                yield i, row, float(errors[i])

    def exactly(self, point: int) -> Distances:
        """The row of one point without the error of the product form."""
        if self.metric == "cosine":
            _, cosines = next(cosine_blocks(self.points[point : point + 1], self.points))
            row: Distances = 1.0 - cosines[0].astype(np.float64)
            return row
        difference = self.points - self.points[point]
        squared: Distances = np.einsum("nd,nd->n", difference, difference)
        return squared

    def distance(self, row: Distances) -> Distances:
        """Distances from entries of a row."""
        if self.metric == "cosine":
            return row
        return np.ldexp(np.sqrt(np.maximum(row, 0.0)), self.exponent)


@dataclass(frozen=True)
class NoThreshold:
    """Triples (a, b, c), a and b of one class, c of another, with d(a, c) < d(a, b).

    A threshold on the distance that accepts a and b as the same accepts a and c as well, and one
    that rejects a and c rejects a and b: no threshold is right about both pairs. Without any such
    triple each anchor has a threshold that suits it, which need not be the same for all.

    Fields:
        metric: euclidean, or cosine for the distance 1 − cos θ.
        share: share of anchors a with such a triple, that is, whose nearest sample of another
            class is nearer than their farthest of the same class.
        triples_share: share of all triples (a, b, c) that are such.
        worst: rows a, b and c with the largest d(a, b) − d(a, c). The difference rather than the
            ratio: it is the widest range of thresholds that are all wrong, and a sample that
            coincides with one of another class does not decide it alone. If the difference is not
            positive, there is no such triple, and this is the one that comes nearest to it.
        same_distance, other_distance: d(a, b) and d(a, c) of the worst.
        anchors: samples with another of their class; the others cannot be an a.
        triples: all triples.
    """

    metric: str
    share: float
    triples_share: float
    worst: tuple[int, int, int]
    same_distance: float
    other_distance: float
    anchors: int
    triples: int

    @property
    def found(self) -> bool:
        """Whether there is such a triple at all."""
        return self.other_distance < self.same_distance

    def table(self) -> str:
        """The measures as aligned plain text."""
        a, b, c = self.worst
        return "\n".join(
            (
                f"distance                    {self.metric:>15}",
                f"anchors                     {self.anchors:>15,}",
                f"  no threshold is right     {self.share:>15.4%}",
                f"triples                     {self.triples:>15,}",
                f"  no threshold is right     {self.triples_share:>15.4%}",
                f"{'worst triple' if self.found else 'nearest to one':<28}{f'{a}, {b}, {c}':>15}",
                f"  to its own class          {self.same_distance:>15.6g}",
                f"  to the other class        {self.other_distance:>15.6g}",
            )
        )

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**asdict(self), "worst": list(self.worst)}


def no_threshold(embeddings: Array, labels: Array, metric: str = "euclidean") -> NoThreshold:
    """Count the triples about which no threshold on a distance can be right, and find the worst.

    Hand in the samples that the classifier names rightly to see what accuracy hides. All triples
    are counted, none are sampled; time grows as N² (D + log N), memory is some
    50 MB beyond the input.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type; for cosine no row all zero.
        labels: (N,) integers.
        metric: euclidean, or cosine.

    Euclidean distances are compared exactly, in float64; cosines are rounded as `pairs` says, so
    that pairs at the same angle are ties. A tie is no such triple.

    Raises `InputError` for embeddings that are not a finite (N, D) matrix, labels that are not N
    integers, fewer than two classes, and where no class has two samples. Raises `OptionError`
    for another metric.

        >>> line = no_threshold([[0.0], [3.0], [4.0], [9.0]], [0, 0, 1, 1])
        >>> line.share, line.triples_share, line.worst
        (0.5, 0.375, (2, 3, 1))
    """
    check_choice("metric", metric, ("euclidean", "cosine"))
    matrix = embedding_matrix(embeddings)
    distinct, numbers = class_numbers(labels, len(matrix))
    sizes = np.bincount(numbers)
    if len(distinct) < 2:
        raise InputError(
            f"labels name class {distinct[0]} only, expected two classes: without another one"
            " there is nothing to come too near"
        )
    if sizes.max() < 2:
        raise InputError(
            f"each of the {len(distinct)} classes has one sample, expected one with two at least"
        )
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(sizes)
    anchors = violated_anchors = violated = 0
    widest, worst = -np.inf, (0, 0, 0)
    rows = DistanceRows.of(matrix[order], metric)
    for anchor, row, error in rows:
        stop = int(ends[numbers[order[anchor]]])
        start = stop - int(sizes[numbers[order[anchor]]])
        if stop - start < 2:
            continue
        count = _inversions(*_split(row, anchor, start, stop), error)
        if count is None:  # too close to tell
            row = rows.exactly(anchor)
            count = _inversions(*_split(row, anchor, start, stop), 0.0)
        assert count is not None
        anchors += 1
        violated_anchors += count > 0
        violated += count
        same, other = _split(row, anchor, start, stop)
        far, near = int(np.argmax(same)), int(np.argmin(other))
        gap = float(rows.distance(same[far]) - rows.distance(other[near]))
        if gap > widest:
            widest = gap
            worst = (anchor, start + far, near if near < start else near + stop - start)
    a, b, c = worst
    to_all = rows.distance(rows.exactly(a))
    triples = int((sizes * (sizes - 1) * (len(matrix) - sizes)).sum())
    return NoThreshold(
        metric=metric,
        share=violated_anchors / anchors,
        triples_share=violated / triples,
        worst=(int(order[a]), int(order[b]), int(order[c])),
        same_distance=float(to_all[b]),
        other_distance=float(to_all[c]),
        anchors=anchors,
        triples=triples,
    )


def _split(row: Distances, anchor: int, start: int, stop: int) -> tuple[Distances, Distances]:
    """Copies of the distances within the anchor's class, its own as −inf, and to all others."""
    same = row[start:stop].copy()
    same[anchor - start] = -np.inf  # it is no b of its own
    return same, np.concatenate((row[:start], row[stop:]))


def _inversions(same: Distances, other: Distances, error: float) -> int | None:
    """The number of pairs, one of each, with other < same; None if `error` leaves it open."""
    same = same[same > other.min() - error]
    other = other[other < same.max(initial=-np.inf) + error]
    other.sort()
    same.sort()  # ascending needles keep the search within the cache
    surely = int(np.searchsorted(other, same - error, side="left").sum())
    if error == 0.0:
        return surely
    possibly = int(np.searchsorted(other, same + error, side="right").sum())
    return surely if surely == possibly else None
