"""All distances from one row after the other: fast, with a bound of their error, or exact.

Matrix products give squared distances as |p|² + |q|² − 2p·q, but that cancels where points nearly
coincide. So each row of them comes with a bound of its error, and whoever cannot decide with it
asks for that row once more, computed from differences.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.evaluation.arrays import normalize_rows, refuse_zero_rows

__all__ = ["DistanceRows", "Distances"]

BLOCK_DISTANCES = 2**21  # distances held at once, 16 MB

Distances = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DistanceRows:
    """Distances between the `points` (N, D), by the metric `euclidean` or `cosine` (1 − cos θ).

    Rows hold what is quick to compare: squared Euclidean distances of points divided by
    2^exponent, or cosine distances rounded to 2⁻⁴⁰; `distance` turns either into distances.
    """

    points: Distances
    metric: str
    exponent: int

    @classmethod
    def of(cls, matrix: npt.NDArray[Any], metric: str) -> "DistanceRows":
        """Of a finite `matrix` (N, D); for cosine no row may be all zero."""
        points = np.array(matrix, dtype=np.float64)
        if metric == "cosine":
            refuse_zero_rows(points)
            normalize_rows(points)
            return cls(points, metric, 0)
        # A power of two rounds nothing, and squares neither overflow nor vanish after it.
        exponent = int(np.frexp(max(points.max(), -points.min()))[1])
        return cls(np.ldexp(points, -exponent), metric, exponent)

    def __iter__(self) -> Iterator[tuple[int, Distances, float]]:
        """For each point its number, its row (N,), and how far two entries of it may both be off.

        The product form is off by at most γ(|p|² + |q|²), γ = 4(D + 8)ε: see `pairwise`.
        """
        step = max(1, BLOCK_DISTANCES // len(self.points))
        if self.metric == "cosine":
            for start in range(0, len(self.points), step):
                block = self._cosine(self.points[start : start + step])
                yield from ((start + i, row, 0.0) for i, row in enumerate(block))
            return
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
            row: Distances = self._cosine(self.points[point : point + 1])[0]
            return row
        difference = self.points - self.points[point]
        squared: Distances = np.einsum("nd,nd->n", difference, difference)
        return squared

    def distance(self, row: Distances) -> Distances:
        """Distances from entries of a row."""
        if self.metric == "cosine":
            return row
        return np.ldexp(np.sqrt(np.maximum(row, 0.0)), self.exponent)

    def _cosine(self, points: Distances) -> Distances:
        cosines = points @ self.points.T
        cosines += 4096.0  # next to which float64 has steps of 2⁻⁴⁰
        cosines -= 4096.0
        return 1.0 - cosines.clip(-1, 1)
