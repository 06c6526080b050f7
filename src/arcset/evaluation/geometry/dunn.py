"""The Dunn index: how far classes stand apart, measured in their own size.

The nearest rows of different groups and the farthest rows of one group, exactly and fast.

Matrix products give all squared distances as |a|² + |b|² − 2a·b, but that cancels where points
nearly coincide. So the product only bounds the distances: with p = a − center computed in
floating point, the error of the product form is at most γ(|p|² + |q|²), γ = 4(D + 8)ε, which
covers the dot product's (D + 2) roundings of terms that sum to 2(|p|² + |q|²), those of the
two squared lengths, and those of the subtraction. Pairs whose bound could beat the best pair
found so far are computed again from the differences of the rows themselves.
"""

import math
from numbers import Real

import numpy as np
import numpy.typing as npt
import torch

from arcset.checks import check_choice
from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import Array, class_numbers, embedding_matrix, refuse_zero_rows
from arcset.evaluation.geometry.groups import Groups

__all__ = ["BETWEEN", "METRICS", "WITHIN", "dunn_index", "farthest_within", "nearest_between"]

BETWEEN = ("centroid", "single")
WITHIN = ("mean_radius", "max_radius", "diameter")
METRICS = ("euclidean", "cosine", "angle")
BLOCK_ROWS = 2048  # a block of bounds takes 32 MB
CHUNK = 256  # pairs whose differences are held at once, small enough for the cache
CROWDED = 4  # above 1/4 of a block, computing all of its differences is the cheaper way
FloatMatrix = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]


def nearest_between(rows: FloatMatrix, numbers: Numbers) -> float:
    """The smallest distance of two rows of different groups; inf if there is one group only.

    `rows` (N, D) are sorted by their group `numbers` (N,). Memory is a few blocks beyond `rows`;
    time is N²D/2 multiplications plus those pairs that the bound cannot rule out.

        >>> nearest_between(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]))
        3.0
    """
    rows, numbers = _distinct(rows, numbers)
    center = rows.mean(axis=0)
    ends = np.searchsorted(numbers, numbers, side="right")
    best = np.inf
    for i in _row_blocks(0, len(rows)):
        left = _left(rows[i] - center, sign=1.0)
        for j in _row_blocks(int(ends[i.start]), len(rows)):
            bounds = left @ _right(rows[j] - center, sign=1.0).T
            if numbers[j.start] <= numbers[i.stop - 1]:
                bounds[numbers[i, None] >= numbers[j]] = np.inf
            best = _improve(best, bounds, rows[i], rows[j], sign=1.0)
            if best == 0.0:
                return 0.0
    return float(np.sqrt(best))


def farthest_within(rows: FloatMatrix, numbers: Numbers) -> float:
    """The largest distance of two rows of one group; 0 if every group has one row only.

    `rows` (N, D) are sorted by their group `numbers` (N,). Blocks along the diagonal hold many
    small groups at once, so that their number does not matter.

        >>> farthest_within(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]))
        2.0
    """
    rows, numbers = _distinct(rows, numbers)
    starts = np.searchsorted(numbers, numbers, side="left")
    ends = np.searchsorted(numbers, numbers, side="right")
    best = 0.0
    for i in _row_blocks(0, len(rows)):
        # Each group is centered on its own first row: no distance counts across groups.
        left = _left(rows[i] - rows[starts[i]], sign=-1.0)
        for j in _row_blocks(i.start, int(ends[i.stop - 1])):
            bounds = left @ _right(rows[j] - rows[starts[j]], sign=-1.0).T
            if numbers[i.start] != numbers[j.stop - 1]:
                bounds[numbers[i, None] != numbers[j]] = np.inf
            best = _improve(best, bounds, rows[i], rows[j], sign=-1.0)
    return float(np.sqrt(abs(best)))


def _row_blocks(start: int, stop: int) -> list[slice]:
    return [slice(first, min(first + BLOCK_ROWS, stop)) for first in range(start, stop, BLOCK_ROWS)]


def _left(points: FloatMatrix, sign: float) -> FloatMatrix:
    """One side of the product: left @ right.T = sign · squared distance − its largest error."""
    return np.column_stack((-2 * sign * points, _ends(points, sign), np.ones(len(points))))


def _right(points: FloatMatrix, sign: float) -> FloatMatrix:
    return np.column_stack((points, np.ones(len(points)), _ends(points, sign)))


def _ends(points: FloatMatrix, sign: float) -> npt.NDArray[np.float64]:
    error = 4 * (points.shape[1] + 8) * float(np.finfo(np.float64).eps)
    ends: npt.NDArray[np.float64] = np.einsum("nd,nd->n", points, points)
    ends *= sign - error
    return ends


def _improve(
    best: float, bounds: FloatMatrix, left: FloatMatrix, right: FloatMatrix, sign: float
) -> float:
    """The smaller of `best` and the smallest sign · squared distance of rows of two blocks.

    `bounds` are lower bounds of the latter, and inf for pairs that do not count.
    """
    i, j = np.divmod([int(np.argmin(bounds))], bounds.shape[1])
    if bounds[i, j] >= best:
        return best
    best = min(best, sign * float(_squared(left[i], right[j])[0]))
    open_ = bounds < best
    if np.count_nonzero(open_) > bounds.size // CROWDED:
        direct = torch.cdist(
            torch.from_numpy(left),
            torch.from_numpy(right),
            compute_mode="donot_use_mm_for_euclid_dist",
        ).numpy()
        direct *= direct
        return min(best, float((sign * direct[open_]).min()))
    i, j = np.nonzero(open_)
    for first in range(0, len(i), CHUNK):
        chunk = slice(first, first + CHUNK)
        best = min(best, float((sign * _squared(left[i[chunk]], right[j[chunk]])).min()))
    return best


def _squared(a: FloatMatrix, b: FloatMatrix) -> npt.NDArray[np.float64]:
    difference = a - b
    squared: npt.NDArray[np.float64] = np.einsum("nd,nd->n", difference, difference)
    return squared


def _distinct(rows: FloatMatrix, numbers: Numbers) -> tuple[FloatMatrix, Numbers]:
    """Without the rows that repeat another of their group, whose ties the bound cannot rule out.

    Equal rows are brought together by a hash of their bits; integers wrap around, so that the
    hash of equal rows is equal whatever the order of the additions.
    """
    factors = np.random.default_rng(0).integers(1, 2**63, size=rows.shape[1], dtype=np.uint64) | 1
    bits = np.ascontiguousarray(rows).view(np.uint64)
    hashes = np.concatenate([(bits[i] * factors).sum(axis=1) for i in _row_blocks(0, len(rows))])
    order = np.lexsort((hashes, numbers))
    alike = (np.diff(hashes[order]) == 0) & (np.diff(numbers[order]) == 0)
    later = np.flatnonzero(alike) + 1
    same = [(rows[order[k]] == rows[order[k - 1]]).all(axis=1) for k in _split(later)]
    repeated = order[later[np.concatenate(same)]] if same else later
    if not len(repeated):
        return rows, numbers
    keep = np.ones(len(rows), dtype=bool)
    keep[repeated] = False
    return rows[keep], numbers[keep]


def _split(indices: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
    return [indices[i] for i in _row_blocks(0, len(indices))]


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
