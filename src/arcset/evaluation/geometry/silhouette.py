"""The silhouette: how much nearer a sample lies to its own class than to the next."""

import numpy as np
import numpy.typing as npt
import torch

from arcset.checks import check_choice
from arcset.errors import InputError
from arcset.evaluation.arrays import Array, class_numbers, embedding_matrix, refuse_zero_rows
from arcset.evaluation.geometry.groups import Groups

__all__ = ["silhouette"]

BLOCK_DISTANCES = 2**21  # distances held at once, 16 MB
CHUNK = 256  # pairs whose differences are held at once
CROWDED = 4  # above 1/4 of a block, computing all of its differences is the cheaper way

# Below this share of |p|² + |q|² a squared distance is taken from the difference p − q instead of
# |p|² + |q|² − 2p·q, so that it keeps 12 digits.
NEAR = 1e-3

Floats = npt.NDArray[np.float64]


def silhouette(embeddings: Array, labels: Array, metric: str = "euclidean") -> float:
    """The mean silhouette of all samples, from −1 to 1; high where classes are apart.

    With a the mean distance of a sample from the others of its class, and b the smallest, over the
    other classes, of its mean distances from their samples:

        silhouette = mean over samples of (b − a) / max(a, b)

    A sample alone in its class, and one with a = b = 0, counts 0. P. J. Rousseeuw, "Silhouettes: a
    graphical aid to the interpretation and validation of cluster analysis" (1987).

    Parameters:
        embeddings: (N, D), numpy or torch, any float type; computed in float64.
        labels: (N,) integers with at least two distinct values, one of them twice.
        metric: `euclidean`, or `cosine`, 1 − cos θ.

    Distances of near-duplicates are as precise as others. Time N²·D; memory is two float64 copies
    of the embeddings and a few blocks, never all distances.

    Raises `InputError` for embeddings that are not a finite (N, D) matrix, labels that are not N
    integers, fewer than two classes, no class of two samples, and for cosine a row of zeros.
    Raises `OptionError` for another metric.

        >>> silhouette([[0.0], [2.0], [8.0], [10.0]], [0, 0, 1, 1], metric="euclidean")
        0.746031746031746
    """
    check_choice("metric", metric, ("euclidean", "cosine"))
    matrix = embedding_matrix(embeddings)
    distinct, numbers = class_numbers(labels, len(matrix))
    if len(distinct) < 2:
        raise InputError(f"labels hold the one class {distinct[0]}, expected at least two classes")
    if len(distinct) == len(matrix):
        raise InputError(
            f"each of the {len(distinct)} classes has one sample, expected one with two at least"
        )
    if metric == "cosine":
        refuse_zero_rows(matrix)
    groups = Groups.sort(matrix, numbers, distinct, angular=metric == "cosine")
    own, other = _to_own(groups, metric), _to_next(groups, metric)
    larger = np.maximum(own, other)
    scores = np.divide(other - own, larger, out=np.zeros_like(own), where=larger > 0)
    scores[groups.counts[groups.numbers] == 1] = 0.0
    return float(scores.mean())


def _to_own(groups: Groups, metric: str) -> Floats:
    """The mean distance of each row from the others of its class, (N,); 0 if there are none."""
    means = np.zeros(len(groups.rows))
    for start, count in zip(groups.starts, groups.counts, strict=True):
        if count < 2:
            continue
        members = groups.rows[start : start + count]
        centered = members - members.mean(axis=0)  # so that a tight class far out keeps its digits
        squares = np.einsum("nd,nd->n", centered, centered)
        for part in _blocks(count):
            distances = _distances(centered, squares, part, [], metric)
            rows = np.arange(len(distances))
            distances[rows, part.start + rows] = 0.0
            means[start + part.start : start + part.stop] = distances.sum(axis=1) / (count - 1)
    return means


def _to_next(groups: Groups, metric: str) -> Floats:
    """The smallest of the mean distances of each row from another class, (N,)."""
    smallest = np.empty(len(groups.rows))
    centered = groups.rows - groups.rows.mean(axis=0)
    squares = np.einsum("nd,nd->n", centered, centered)
    ends = groups.starts + groups.counts
    for part in _blocks(len(centered)):
        own = []
        for number in range(groups.numbers[part.start], groups.numbers[part.stop - 1] + 1):
            columns = slice(groups.starts[number], ends[number])
            rows = slice(max(columns.start - part.start, 0), columns.stop - part.start)
            own.append((rows, columns))
        distances = _distances(centered, squares, part, own, metric)
        sums = np.add.reduceat(distances, groups.starts, axis=1)  # (B, C), inf for the own class
        smallest[part] = (sums / groups.counts).min(axis=1)
    return smallest


def _blocks(count: int) -> list[slice]:
    """Parts of `count` rows such that their distances from all of them fit into a block."""
    step = max(1, BLOCK_DISTANCES // count)
    return [slice(first, min(first + step, count)) for first in range(0, count, step)]


def _distances(
    points: Floats,
    squares: Floats,
    part: slice,
    without: list[tuple[slice, slice]],
    metric: str,
) -> Floats:
    """Distances of a part of the points from all, (B, N); inf in the rectangles `without`.

    `squares` (N,) are the squared lengths of the points.
    """
    scale = squares[part, None] + squares
    squared: Floats = points[part] @ points.T
    squared *= -2
    squared += scale
    for rows, columns in without:
        squared[rows, columns] = np.inf
    scale *= NEAR
    near = squared < scale
    if np.count_nonzero(near) > near.size // CROWDED:
        left, right = torch.from_numpy(points[part]), torch.from_numpy(points)
        direct = torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist").numpy()
        squared[near] = direct[near] ** 2
    else:
        i, j = np.nonzero(near)
        for first in range(0, len(i), CHUNK):
            some = i[first : first + CHUNK], j[first : first + CHUNK]
            difference = points[part.start + some[0]] - points[some[1]]
            squared[some] = np.einsum("nd,nd->n", difference, difference)
    if metric == "cosine":  # between unit vectors 1 − cos θ is half the squared chord
        squared /= 2
        return squared
    return np.sqrt(squared, out=squared)
