"""Angles between unit vectors, and for each of many the smallest angle to one of others.

Products of float32 or float64 find the few that may be the closest; their angles are then taken
from the vectors themselves. Where too many are as close as the product can tell, the next finer
product decides, and at last the differences of the vectors.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["angle_between", "row_angles", "smallest_angles"]

BLOCK_COSINES = 2**21  # cosines held at once
BLOCK_ROWS = 4096  # angles of pairs of rows taken at once
CANDIDATES = 8  # whose angles are taken
SMALL = 2**22  # up to so many cosines float64 costs nothing worth saving
CLOSE = 1e-6  # for 1 − cos θ above it, what float64 products leave open is below 1e-8 degrees

Units = npt.NDArray[np.float64]
Angles = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]


def angle_between(left: Units, right: Units) -> Angles:
    """The angle of each row of `left` with that of `right`, (..., D) → (...), in radians.

    2·atan2(|a − b|, |a + b|), which is precise for angles near 0 and near π as well.

        >>> float(angle_between(np.array([1.0, 0.0]), np.array([1.0, 1e-9]))) == 1e-9
        True
    """
    difference, total = left - right, left + right
    apart = np.sqrt(np.einsum("...d,...d->...", difference, difference))
    together = np.sqrt(np.einsum("...d,...d->...", total, total))
    angles: Angles = 2 * np.arctan2(apart, together)
    return angles


def row_angles(rows: Units, units: Units, of: Numbers) -> Angles:
    """The angle of each row (N, D) with `units[of]`, in radians, by blocks."""
    angles = np.empty(len(rows))
    for start in range(0, len(rows), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        angles[part] = angle_between(rows[part], units[of[part]])
    return angles


def smallest_angles(rows: Units, others: Units, own: Numbers) -> Angles:
    """For each unit row (N, D) the smallest angle to one of `others` (M, D), but not its `own`.

    In radians, (N,). `own` (N,) are row numbers of `others`, M ≥ 2. Time N·M·D; memory is a
    float32 copy of large input and a few blocks.
    """
    angles = np.empty(len(rows))
    open_ = np.arange(len(rows))
    kinds = (np.float64,) if len(rows) * len(others) <= SMALL else (np.float32, np.float64)
    for kind in kinds:
        targets: npt.NDArray[Any] = others.astype(kind, copy=False)
        step = max(1, BLOCK_COSINES // len(others))
        left = [open_[:0]]
        for start in range(0, len(open_), step):
            some = open_[start : start + step]
            angles[some], unsure = _by_product(rows[some], others, targets, own[some])
            left.append(some[unsure])
        open_ = np.concatenate(left)
    for row in open_:
        all_angles = row_angles(others, rows, np.full(len(others), row))
        all_angles[own[row]] = np.inf
        angles[row] = all_angles.min()
    return angles


def _by_product(
    rows: Units, others: Units, targets: npt.NDArray[Any], own: Numbers
) -> tuple[Angles, npt.NDArray[np.bool_]]:
    """The smallest angle among the candidates, and where the product leaves others open."""
    cosines = torch.from_numpy(rows.astype(targets.dtype)) @ torch.from_numpy(targets).T
    cosines[torch.arange(len(rows)), torch.from_numpy(own)] = -torch.inf
    count = min(CANDIDATES, len(others))
    highest, found = torch.topk(cosines, count, dim=1)
    taken = found.numpy()[:, : len(others) - 1]  # with few others the own one is among them
    angles = np.stack(
        [angle_between(rows, others[taken[:, place]]) for place in range(taken.shape[1])]
    ).min(axis=0)
    # The product of two rounded unit vectors is off by at most (D + 4)ε/2.
    error = (rows.shape[1] + 4) * float(np.finfo(targets.dtype).eps)
    values = highest.numpy().astype(np.float64)
    unsure = (values[:, -1] >= values[:, 0] - error) & (angles > 0)
    if targets.dtype == np.float64:
        unsure &= 1 - values[:, 0] < CLOSE
    return angles, unsure
