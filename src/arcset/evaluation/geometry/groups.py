"""Distances between rows, and rows sorted by class with what each class says about itself.

Distances are float64 and not on the grid of `pairs`: they have no fixed range, and small ones
decide. Matrix products give their squares as |p|² + |q|² − 2p·q, which cancels where points nearly
coincide; such pairs are computed again from the differences, so that all keep some 12 digits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from arcset.errors import InputError
from arcset.evaluation.arrays import normalize_rows
from arcset.evaluation.pairs import Rows, product_blocks

__all__ = ["Centroids", "Groups", "squared_blocks"]

BLOCK = 4096  # rows handled at once, where a whole temporary copy would be too large
BLOCK_DISTANCES = 2**21  # held at once, 16 MB
NEAR = 1e-3  # a squared distance below this share of |p|² + |q|² is taken from p − q
CHUNK = 256  # pairs whose differences are held at once
CROWDED = 4  # above 1/4 of a block, computing all of its differences is the cheaper way

FloatMatrix = npt.NDArray[np.float64]

# Members as far from their centroid as the last one kept are kept too. Distances that are equal
# on paper (the two members of a pair, the corners of a square) differ by rounding.
TIE = 1e-9


def squared_blocks(
    rows: FloatMatrix, columns: FloatMatrix, own: Rows | None = None
) -> Iterator[tuple[slice, FloatMatrix]]:
    """Squared distances of rows (N, D) from all columns (M, D), some rows at a time.

    `own` (N, 2): for each row, from where to where its columns do not count; they get inf. Yields
    which rows, and their squared distances (b, M), which are overwritten by the next.

        >>> next(squared_blocks(np.array([[0.0], [3.0]]), np.array([[1.0]])))[1].tolist()
        [[1.0], [4.0]]
    """
    center = columns.mean(axis=0)  # far from the origin the products would cancel everywhere
    right = columns - center
    left = right if rows is columns else rows - center
    row_squares, column_squares = (np.einsum("nd,nd->n", side, side) for side in (left, right))
    for part, squared in product_blocks(left, right, BLOCK_DISTANCES):
        scale = row_squares[part, None] + column_squares
        squared *= -2
        squared += scale
        if own is not None:
            for row, (start, stop) in zip(squared, own[part].tolist(), strict=True):
                row[start:stop] = np.inf
        scale *= NEAR
        near = squared < scale
        i, j = np.nonzero(near)
        if len(i) > near.size // CROWDED:
            squared[near] = cdist(rows[part], columns, "sqeuclidean")[near]
        else:
            for first in range(0, len(i), CHUNK):
                some = i[first : first + CHUNK], j[first : first + CHUNK]
                difference = rows[part.start + some[0]] - columns[some[1]]
                squared[some] = np.einsum("nd,nd->n", difference, difference)
        yield part, squared


@dataclass(frozen=True)
class Centroids:
    """The centroid of class c is `anchor[c] + rest[c]`; both are (C, D).

    In two parts, because a sum would be rounded to the size of `anchor`: with embeddings far from
    the origin that is coarser than the classes are wide. `rest` is None where it would be zero.
    """

    anchor: FloatMatrix
    rest: FloatMatrix | None

    def joined(self) -> FloatMatrix:
        """The centroids as one (C, D) matrix, moved to lie around the origin."""
        if self.rest is None:
            return self.anchor
        moved: FloatMatrix = self.anchor - self.anchor.mean(axis=0)
        moved += self.rest
        return moved


@dataclass(frozen=True)
class Groups:
    """Float64 rows (N, D) sorted by class, and the class number of each, ascending from 0.

    `angular` says that rows are unit vectors and a centroid is the direction of their mean.
    Distances in here are Euclidean; between unit vectors that is the chord.
    """

    rows: FloatMatrix
    numbers: npt.NDArray[np.intp]
    distinct: npt.NDArray[Any]
    angular: bool

    @classmethod
    def sort(
        cls,
        matrix: npt.NDArray[Any],
        numbers: npt.NDArray[np.intp],
        distinct: npt.NDArray[Any],
        angular: bool,
    ) -> "Groups":
        """Copy `matrix` (N, D) into float64, sorted by class and brought near 1 in size."""
        order = np.argsort(numbers, kind="stable")
        rows = np.empty(matrix.shape)
        for start in range(0, len(rows), BLOCK):
            rows[start : start + BLOCK] = matrix[order[start : start + BLOCK]]
        if angular:
            normalize_rows(rows)
        else:
            # A power of two rounds nothing, and squares neither overflow nor vanish after it.
            exponent = int(np.frexp(max(rows.max(), -rows.min()))[1])
            np.ldexp(rows, -exponent, out=rows)
        return cls(rows, numbers[order], distinct, angular)

    @cached_property
    def starts(self) -> npt.NDArray[np.intp]:
        """The first row of each class, (C,)."""
        return np.flatnonzero(np.diff(self.numbers, prepend=-1))

    @cached_property
    def counts(self) -> npt.NDArray[np.intp]:
        """The number of rows of each class, (C,)."""
        return np.bincount(self.numbers)

    def take(self, rows: npt.NDArray[np.intp]) -> "Groups":
        """The same with only `rows`, given in ascending order; every class must keep one."""
        if len(rows) == len(self.rows):
            return self
        return Groups(self.rows[rows], self.numbers[rows], self.distinct, self.angular)

    def centroids(self) -> Centroids:
        """The mean of each class, or its direction if `angular`.

        Raises `InputError` where unit rows cancel out, so that their mean has no direction.
        """
        # Relative to a member of the class: exact for a class whose members are all equal, and
        # as fine as the class is wide however far it lies from the origin.
        anchor = self.rows[self.starts]  # (C, D)
        deviation = anchor[self.numbers]  # (N, D)
        np.subtract(self.rows, deviation, out=deviation)
        rest: FloatMatrix = np.add.reduceat(deviation, self.starts, axis=0)
        rest /= self.counts[:, None]
        if not self.angular:
            return Centroids(anchor, rest)
        turned = np.flatnonzero(rest.any(axis=1))  # the others are unit vectors already
        mean = anchor[turned] + rest[turned]
        length = np.sqrt(np.einsum("cd,cd->c", mean, mean))
        if length.size and length.min() < 16 * np.finfo(np.float64).eps:
            label = self.distinct[turned[int(np.argmin(length))]]
            raise InputError(
                f"the directions of class {label} cancel out, so that it has no mean direction;"
                " expected classes that do not surround the origin"
            )
        anchor[turned] = mean / length[:, None]
        return Centroids(anchor, None)

    def radii(self, centroids: Centroids) -> npt.NDArray[np.float64]:
        """The distance of each row from the centroid of its class, (N,)."""
        squared = np.empty(len(self.rows))
        for start in range(0, len(self.rows), BLOCK):
            numbers = self.numbers[start : start + BLOCK]
            deviation = self.rows[start : start + BLOCK] - centroids.anchor[numbers]
            if centroids.rest is not None:
                deviation -= centroids.rest[numbers]
            squared[start : start + BLOCK] = np.einsum("nd,nd->n", deviation, deviation)
        return np.sqrt(squared)

    def trim(self, share: float) -> "Groups":
        """Keep per class the members no farther from the centroid than the `share` quantile.

        The quantile is interpolated linearly between two neighbours in the sorted distances, so
        the members within it are those up to the nearer neighbour.
        """
        radii = self.radii(self.centroids())
        ascending = radii[np.lexsort((radii, self.numbers))]  # still sorted by class
        last = self.starts + np.floor((self.counts - 1) * share).astype(np.intp)
        limit = ascending[last] * (1 + TIE)
        return self.take(np.flatnonzero(radii <= limit[self.numbers]))
