"""The Dunn index: how far classes stand apart, measured in their own size."""

import math
from numbers import Real

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import (
    Array,
    check_choice,
    class_numbers,
    embedding_matrix,
    refuse_zero_rows,
)
from arcset.evaluation.geometry.groups import Groups
from arcset.evaluation.geometry.pairwise import farthest_within, nearest_between

__all__ = ["BETWEEN", "METRICS", "WITHIN", "dunn_index"]

BETWEEN = ("centroid", "single")
WITHIN = ("mean_radius", "max_radius", "diameter")
METRICS = ("euclidean", "cosine", "angle")


def dunn_index(
    embeddings: Array,
    labels: Array,
    trim: float | None = 0.95,
    between: str = "centroid",
    within: str = "mean_radius",
    metric: str = "euclidean",
) -> float:
    """The smallest distance between two classes, divided by the largest size of a class.

        Dunn = min over a ≠ b of between(a, b)  /  max over a of within(a)

    Above 1 the classes stand farther apart than they are wide. The index goes back to J. C. Dunn,
    "A fuzzy relative of the ISODATA process" (1973), who used `single` and `diameter`.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type; computed in float64.
        labels: (N,) integers with at least two distinct values.
        trim: per class keep the members whose distance from the class centroid is at most the
            linearly interpolated quantile of that share, then take the centroid anew from those;
            a few mislabelled images then no longer decide. In (0, 1], or None to keep all.
            Members as far out as the last one kept (but for rounding, 1e-9) are kept too.
        between: `centroid`, the distance of the two centroids, or `single`, that of the two
            nearest members.
        within: `mean_radius` or `max_radius`, the mean or largest distance of a member from the
            centroid, or `diameter`, the largest distance of two members.
        metric: `euclidean`; `cosine`, 1 − cos θ; or `angle`, θ in radians. The last two are taken
            on normalized rows, from the chord d as d²/2 and 2·arcsin(d/2), which is precise for
            tiny angles; a centroid is the direction of the mean of the normalized rows.

    Returns a float ≥ 0. Where every class is a single point (within 0) it is inf, and NaN if two
    of these points coincide as well (0/0). Classes with one member have size 0.

    Memory: about two float64 copies of the embeddings, and a few blocks. Time: N·D for the
    centroid variants (C²·D with C classes), N²·D for `single`, the sum of n²·D over classes of n
    members for `diameter`.

    Raises `InputError` for embeddings that are not a finite (N, D) matrix, labels that are not N
    integers, fewer than two classes; with `cosine` and `angle` also for a row of zeros and, where
    a centroid is needed, for a class whose directions cancel out. Raises `OptionError` for an
    unknown word or a `trim` out of range.

        >>> points = [[0, 0], [0, 2], [8, 0], [8, 2]]
        >>> dunn_index(points, [0, 0, 1, 1])
        8.0
        >>> dunn_index(points, [0, 0, 1, 1], between="single", within="diameter")
        4.0
    """
    check_choice("between", between, BETWEEN)
    check_choice("within", within, WITHIN)
    check_choice("metric", metric, METRICS)
    if trim is not None and not (isinstance(trim, Real) and 0 < trim <= 1):
        raise OptionError(f"trim={trim!r} is out of range, expected a number in (0, 1] or None")
    matrix = embedding_matrix(embeddings)
    distinct, numbers = class_numbers(labels, len(matrix))
    if len(distinct) < 2:
        raise InputError(f"labels hold the one class {distinct[0]}, expected at least two classes")
    if metric != "euclidean":
        refuse_zero_rows(matrix)

    groups = Groups.sort(matrix, numbers, distinct, angular=metric != "euclidean")
    if trim is not None:
        groups = groups.trim(float(trim))
    apart, size = _apart_and_size(groups, between, within, metric)
    if size == 0.0:
        return math.nan if apart == 0.0 else math.inf
    return apart / size


def _apart_and_size(groups: Groups, between: str, within: str, metric: str) -> tuple[float, float]:
    """The numerator and the denominator, in units of the metric."""
    size = 0.0
    apart = 0.0
    if within == "diameter":
        size = float(_distance(farthest_within(groups.rows, groups.numbers), metric))
    if between == "single":
        apart = float(_distance(nearest_between(groups.rows, groups.numbers), metric))
    if between == "centroid" or within != "diameter":
        centroids = groups.centroids()
        if within != "diameter":
            radii = _distance(groups.radii(centroids), metric)
            sums = np.bincount(groups.numbers, weights=radii)
            size = float(radii.max() if within == "max_radius" else (sums / groups.counts).max())
        if between == "centroid":
            each = np.arange(len(groups.starts))
            apart = float(_distance(nearest_between(centroids.joined(), each), metric))
    return apart, size


def _distance(euclidean: float | npt.NDArray[np.float64], metric: str) -> npt.NDArray[np.float64]:
    """From Euclidean distances, which are chords for the angular metrics, to the metric."""
    distances = np.asarray(euclidean)
    if metric == "cosine":
        return distances**2 / 2
    if metric == "angle":
        return 2 * np.arcsin(np.minimum(distances / 2, 1.0))
    return distances
