"""The shape of classes: how far they stand apart, measured in their own size.

Distances are float64 and not on the grid of `pairs`: they have no fixed range, and small ones
decide. Matrix products give their squares as |p|² + |q|² − 2p·q, which cancels where points nearly
coincide; such pairs are computed again from the differences, so that all keep some 12 digits.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from arcset.checks import check_choice, check_number
from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    class_numbers,
    embedding_matrix,
    normalize_rows,
    refuse_zero_rows,
)
from arcset.evaluation.pairs import Rows, product_blocks

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
