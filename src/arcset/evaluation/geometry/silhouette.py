"""The silhouette: how much nearer a sample lies to its own class than to the next."""

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice
from arcset.errors import InputError
from arcset.evaluation.arrays import Array, class_numbers, embedding_matrix, refuse_zero_rows
from arcset.evaluation.geometry.groups import Groups, squared_blocks

__all__ = ["silhouette"]

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
        members, own = groups.rows[start : start + count], means[start : start + count]
        for part, squared in squared_blocks(members, members):
            own[part] = _distances(squared, metric).sum(axis=1) / (count - 1)
    return means


def _to_next(groups: Groups, metric: str) -> Floats:
    """The smallest of the mean distances of each row from another class, (N,)."""
    smallest = np.empty(len(groups.rows))
    ranges = np.stack((groups.starts, groups.starts + groups.counts), axis=1)[groups.numbers]
    for part, squared in squared_blocks(groups.rows, groups.rows, ranges):
        distances = _distances(squared, metric)
        sums = np.add.reduceat(distances, groups.starts, axis=1)  # (B, C), inf for the own class
        smallest[part] = (sums / groups.counts).min(axis=1)
    return smallest


def _distances(squared: Floats, metric: str) -> Floats:
    """From squared distances, which are overwritten; 1 − cos θ is half the squared chord."""
    if metric == "cosine":
        squared /= 2
        return squared
    return np.sqrt(squared, out=squared)
