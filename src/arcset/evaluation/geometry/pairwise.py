"""The nearest rows of different groups and the farthest rows of one group, exactly and fast.

Matrix products give all squared distances as |a|² + |b|² − 2a·b, but that cancels where points
nearly coincide. So the product only bounds the distances: with p = a − center computed in
floating point, the error of the product form is at most γ(|p|² + |q|²), γ = 4(D + 8)ε, which
covers the dot product's (D + 2) roundings of terms that sum to 2(|p|² + |q|²), those of the
two squared lengths, and those of the subtraction. Pairs whose bound could beat the best pair
found so far are computed again from the differences of the rows themselves.
"""

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["farthest_within", "nearest_between"]

BLOCK = 2048  # a block of bounds takes 32 MB
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
    for i in _blocks(0, len(rows)):
        left = _left(rows[i] - center, sign=1.0)
        for j in _blocks(int(ends[i.start]), len(rows)):
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
    for i in _blocks(0, len(rows)):
        # Each group is centered on its own first row: no distance counts across groups.
        left = _left(rows[i] - rows[starts[i]], sign=-1.0)
        for j in _blocks(i.start, int(ends[i.stop - 1])):
            bounds = left @ _right(rows[j] - rows[starts[j]], sign=-1.0).T
            if numbers[i.start] != numbers[j.stop - 1]:
                bounds[numbers[i, None] != numbers[j]] = np.inf
            best = _improve(best, bounds, rows[i], rows[j], sign=-1.0)
    return float(np.sqrt(abs(best)))


def _blocks(start: int, stop: int) -> list[slice]:
    return [slice(first, min(first + BLOCK, stop)) for first in range(start, stop, BLOCK)]


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
    hashes = np.concatenate([(bits[i] * factors).sum(axis=1) for i in _blocks(0, len(rows))])
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
    return [indices[i] for i in _blocks(0, len(indices))]
