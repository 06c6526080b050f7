"""The shape of classes: how far they stand apart, measured in their own size."""

import math

import numpy as np

from arcset.checks import check_choice, check_number
from arcset.errors import InputError
from arcset.evaluation.arrays import Array
from arcset.evaluation.geometry.groups import Floats, Groups, squared_blocks

__all__ = ["dunn_index", "silhouette"]


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

    Raises `InputError` for fewer than two classes and, where an angular centroid is needed, for a
    class whose directions cancel out.

        >>> points = [[0, 0], [0, 2], [8, 0], [8, 2]]
        >>> dunn_index(points, [0, 0, 1, 1])
        8.0
        >>> dunn_index(points, [0, 0, 1, 1], between="single", within="diameter")
        4.0
    """
    check_choice("between", between, ("centroid", "single"))
    check_choice("within", within, ("mean_radius", "max_radius", "diameter"))
    check_choice("metric", metric, ("euclidean", "cosine", "angle"))
    groups = Groups.build(embeddings, labels, angular=metric != "euclidean")
    if trim is not None:
        groups = groups.trim(check_number("trim", trim, 0, 1, closed="right"))
    apart, size = _smallest_gap(groups, between, metric), _largest_size(groups, within, metric)
    if size == 0.0:
        return math.nan if apart == 0.0 else math.inf
    return apart / size


def _smallest_gap(groups: Groups, between: str, metric: str) -> float:
    """The smallest distance between two classes."""
    if between == "single":
        blocks = groups.blocks_between()
    else:
        centroids = groups.centroids()
        each = np.arange(len(centroids))
        blocks = squared_blocks(centroids, centroids, np.stack((each, each + 1), axis=1))
    nearest = min(float(squared.min()) for _, squared in blocks)
    return float(_distances(nearest, metric))


def _largest_size(groups: Groups, within: str, metric: str) -> float:
    """The largest size of a class."""
    if within == "diameter":
        farthest = max(float(squared.max()) for _, squared in groups.blocks_within())
        return float(_distances(farthest, metric))
    radii = _distances(groups.radii() ** 2, metric)
    if within == "max_radius":
        return float(radii.max())
    return float((np.bincount(groups.numbers, weights=radii) / groups.counts).max())


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

    Raises `InputError` for fewer than two classes, and where no class has two samples.

        >>> silhouette([[0.0], [2.0], [8.0], [10.0]], [0, 0, 1, 1], metric="euclidean")
        0.746031746031746
    """
    check_choice("metric", metric, ("euclidean", "cosine"))
    groups = Groups.build(embeddings, labels, angular=metric == "cosine")
    alone = groups.counts[groups.numbers] == 1  # (N,)
    if alone.all():
        raise InputError(
            f"each of the {len(alone)} classes has one sample, expected one with two at least"
        )
    own, other = np.zeros(len(alone)), np.empty(len(alone))  # mean distances
    for part, squared in groups.blocks_within():
        own[part] = _distances(squared, metric).sum(axis=1) / max(squared.shape[1] - 1, 1)
    for part, squared in groups.blocks_between():
        sums = np.add.reduceat(_distances(squared, metric), groups.starts, axis=1)  # (B, C)
        other[part] = (sums / groups.counts).min(axis=1)  # that of the own class is inf
    larger = np.maximum(own, other)
    scores = np.divide(other - own, larger, out=np.zeros_like(own), where=larger > 0)
    scores[alone] = 0.0
    return float(scores.mean())


def _distances(squared: float | Floats, metric: str) -> Floats:
    """From squared Euclidean distances, which are chords for the angular metrics, to the metric."""
    if metric == "cosine":
        return np.asarray(squared) / 2
    distances: Floats = np.sqrt(squared)
    return 2 * np.arcsin(np.minimum(distances / 2, 1.0)) if metric == "angle" else distances
