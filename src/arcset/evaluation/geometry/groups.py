"""Embeddings sorted by class, and the distances between them: what every measure of shape needs.

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
from arcset.evaluation.arrays import (
    Array,
    class_numbers,
    embedding_matrix,
    normalize_rows,
    refuse_zero_rows,
)
from arcset.evaluation.pairs import Rows, product_blocks

__all__ = ["BLOCK_DISTANCES", "Floats", "Groups", "squared_blocks"]

BLOCK_DISTANCES = 2**21  # held at once, 16 MB
NEAR = 1e-3  # a squared distance below this share of |p|² + |q|² is taken from p − q

Floats = npt.NDArray[np.float64]


def squared_blocks(
    rows: Floats, columns: Floats, own: Rows | None = None
) -> Iterator[tuple[slice, Floats]]:
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
        near = squared <= NEAR * scale
        for i in np.flatnonzero(near.any(axis=1)):
            point = rows[part.start + i]
            squared[i, near[i]] = cdist(point[None], columns[near[i]], "sqeuclidean")[0]
        yield part, squared


@dataclass(frozen=True)
class Groups:
    """Embeddings sorted by class, in float64.

    Fields:
        rows: (N, D), all moved by the same vector so that they lie around the origin; or, if
            `angular`, unit vectors, of which the Euclidean distance is the chord.
        numbers: (N,) the class of each row, ascending from 0.
        order: (N,) the row that each was before.
        distinct: (C,) the labels of the classes.
        angular: whether a centroid is the direction of the mean.
    """

    rows: Floats
    numbers: Rows
    order: Rows
    distinct: npt.NDArray[Any]
    angular: bool

    @classmethod
    def build(
        cls, embeddings: Array, labels: Array, *, angular: bool, classes: int = 2
    ) -> "Groups":
        """Of embeddings (N, D) and labels (N,).

        Raises `InputError` for bad ones, fewer than two classes unless `classes` is 1, and if
        `angular` for a row of zeros.
        """
        matrix = embedding_matrix(embeddings)
        distinct, numbers = class_numbers(labels, len(matrix))
        if len(distinct) < classes:
            raise InputError(
                f"labels hold the one class {distinct[0]}, expected at least two classes"
            )
        order = np.argsort(numbers, kind="stable")
        rows = matrix[order].astype(np.float64, copy=False)
        if angular:
            refuse_zero_rows(matrix)
            normalize_rows(rows)
        else:
            rows -= rows.mean(axis=0)
        return cls(rows, numbers[order], order, distinct, angular)

    @cached_property
    def starts(self) -> Rows:
        """The first row of each class, (C,)."""
        return np.flatnonzero(np.diff(self.numbers, prepend=-1))

    @cached_property
    def counts(self) -> Rows:
        """The number of rows of each class, (C,)."""
        return np.bincount(self.numbers)

    def blocks_within(self) -> Iterator[tuple[slice, Floats]]:
        """Squared distances of rows from all n members of their class: which rows, and (b, n)."""
        for start, count in zip(self.starts.tolist(), self.counts.tolist(), strict=True):
            members = self.rows[start : start + count]
            for part, squared in squared_blocks(members, members):
                yield slice(start + part.start, start + part.stop), squared

    def blocks_between(self) -> Iterator[tuple[slice, Floats]]:
        """Squared distances of rows from all rows, inf in their own class: which, and (b, N)."""
        own = np.stack((self.starts, self.starts + self.counts), axis=1)[self.numbers]
        return squared_blocks(self.rows, self.rows, own)

    def centroids(self) -> Floats:
        """The mean of each class, or its direction if `angular`, (C, D).

        Raises `InputError` where unit rows cancel out, so that their mean has no direction.
        """
        # Relative to a member of the class: exact for a class whose members are all equal.
        means = self.rows[self.starts]
        rest = np.add.reduceat(self.rows - means[self.numbers], self.starts, axis=0)  # (C, D)
        means += rest / self.counts[:, None]
        if not self.angular:
            return means
        lengths = np.linalg.norm(means, axis=1)
        if lengths.min() < 16 * np.finfo(np.float64).eps:
            raise InputError(
                f"the directions of class {self.distinct[np.argmin(lengths)]} cancel out, so that"
                " it has no mean direction; expected classes that do not surround the origin"
            )
        moved = rest.any(axis=1)  # the others are unit vectors already
        means[moved] /= lengths[moved, None]
        return means

    def radii(self) -> Floats:
        """The distance of each row from the centroid of its class, (N,)."""
        radii: Floats = np.linalg.norm(self.rows - self.centroids()[self.numbers], axis=1)
        return radii

    def trim(self, share: float) -> "Groups":
        """Keep per class the members no farther from the centroid than the `share` quantile.

        The quantile is interpolated linearly between two neighbours in the sorted distances, so
        the members within it are those up to the nearer neighbour. Those as far out as the last
        one but for rounding (1e-9), such as the other member of a pair, stay too.
        """
        radii = self.radii()
        ascending = radii[np.lexsort((radii, self.numbers))]  # still sorted by class
        last = self.starts + np.floor((self.counts - 1) * share).astype(np.intp)
        limit = ascending[last] * (1 + 1e-9)
        inside = radii <= limit[self.numbers]
        return Groups(
            self.rows[inside],
            self.numbers[inside],
            self.order[inside],
            self.distinct,
            self.angular,
        )
