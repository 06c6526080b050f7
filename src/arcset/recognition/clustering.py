"""Groups of images that show the same, without anybody saying who is who."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice, check_number
from arcset.evaluation.arrays import Array, embedding_matrix, normalize_rows, refuse_zero_rows
from arcset.recognition.average_linkage import average_linkage
from arcset.recognition.connected import connected

__all__ = ["METHODS", "Clustering", "cluster"]

Numbers = npt.NDArray[np.int64]

#: From unit embeddings and a threshold to the group of each row.
METHODS: dict[str, Callable[[npt.NDArray[np.float32], float], Numbers]] = {
    "average": average_linkage,
    "connected": connected,
}


@dataclass(frozen=True, eq=False)
class Clustering:
    """Which rows belong together.

    Fields:
        groups: (N,) the group of each row, numbered from 0, the largest first. Whoever is like
            nobody is a group of one.
        threshold: the cosine from which on groups were joined.
        method: how.
    """

    groups: Numbers
    threshold: float
    method: str

    @property
    def sizes(self) -> Numbers:
        """How many rows each group has, falling."""
        return np.bincount(self.groups)

    def __len__(self) -> int:
        return len(self.sizes)

    def members(self, group: int) -> Numbers:
        """The rows of a group, rising."""
        return np.flatnonzero(self.groups == group)

    def by_typicality(self, embeddings: Array) -> list[Numbers]:
        """The rows of each group, the one nearest to the group's mean embedding first."""
        matrix = embedding_matrix(embeddings).astype(np.float64)
        normalize_rows(matrix)
        order = np.argsort(self.groups, kind="stable")
        found = []
        for rows in np.split(order, np.cumsum(self.sizes)[:-1]):
            likeness = matrix[rows] @ matrix[rows].mean(0)
            found.append(rows[np.argsort(-likeness, kind="stable")])
        return found

    def __str__(self) -> str:
        sizes = self.sizes
        several, alone = int((sizes > 1).sum()), int((sizes == 1).sum())
        return (
            f"{len(self.groups):,} images: {several:,} {'group' if several == 1 else 'groups'} of "
            f"several, {alone:,} alone; threshold {self.threshold:.4f}"
        )

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "groups": self.groups.tolist(),
            "threshold": self.threshold,
            "method": self.method,
        }


def cluster(embeddings: Array, *, threshold: float, method: str = "average") -> Clustering:
    """Put together what looks the same.

    Parameters:
        embeddings: (N, D), numpy or torch, of any length but no row all zero.
        threshold: a cosine in [−1, 1]; `clustering_threshold` finds one from a calibration.
        method: "average" joins two groups while the mean cosine over all pairs between them is at
            least the threshold. "connected" puts together whatever a chain of cosines of at least
            the threshold connects: good for finding copies, too eager for anything else.

    Both compare everything with everything: time grows with N², memory does not. The result does
    not depend on the order of the rows, except where cosines are equal.

    Raises `InputError` for embeddings that are none, `OptionError` for options out of range.

        >>> points = np.array([[1, 0.0], [1, 0.1], [0, 1], [0.1, 1], [0, 1.1], [-1, -1]])
        >>> found = cluster(points, threshold=0.9)
        >>> found.groups.tolist()
        [1, 1, 0, 0, 0, 2]
        >>> print(found)
        6 images: 2 groups of several, 1 alone; threshold 0.9000
    """
    check_choice("method", method, METHODS)
    threshold = check_number("threshold", threshold, -1, 1, closed="both")
    matrix = embedding_matrix(embeddings)
    refuse_zero_rows(matrix)
    unit = matrix.astype(np.float64)
    normalize_rows(unit)
    found = METHODS[method](unit.astype(np.float32), threshold)
    return Clustering(_numbered(found), threshold, method)


def _numbered(groups: Numbers) -> Numbers:
    """Numbers from 0, the largest group first; of equally large ones, the one that begins first."""
    _, first, places, sizes = np.unique(
        groups, return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.empty(len(first), np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(len(first))
    return rank[places]
