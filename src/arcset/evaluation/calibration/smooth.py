"""A rising, smooth curve of log odds over cosines, and how stiff it should be.

Between a straight line, which two numbers pin down and few identities suffice for, and any rising
function, which follows every chance of the sample, there is a stiffness. It is chosen by
cross-validation over identities.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.interpolate import BSpline
from scipy.special import expit

from arcset.evaluation.arrays import Array, class_numbers, embedding_matrix
from arcset.evaluation.pairs import score_pairs, unit_rows

__all__ = ["SEGMENTS", "STRAIGHT", "Curve", "choose_stiffness", "gather_cells", "platt_targets"]

SEGMENTS = 20  # of a curve, between the lowest and the highest cosine
STRAIGHT = 1.0  # what bending costs beside the mean log loss, where a curve hardly bends
STIFFNESS = (STRAIGHT, 1e-4, 1e-5, 1e-6, 1e-7)
FOLDS = 5
MOST_CELLS = 256  # groups of pairs of nearly one cosine, each of about the same weight
MOST_TRIED = 1000  # samples that the stiffness is chosen on
Floats = npt.NDArray[np.float64]


def platt_targets(genuine: npt.NDArray[np.bool_], numbers: tuple[float, float]) -> Floats:
    """What pairs count as (P,): (n + 1)/(n + 2) and 1/(m + 2) instead of 1 and 0.

    `numbers` are those of impostor pairs m and of genuine ones n. Each pair counts a little for the
    other kind, so that even kinds which a threshold tells apart without error get a finite slope.
    """
    alike = np.where(genuine, numbers[1], numbers[0])  # pairs of the same kind
    certain = (alike + 1) / (alike + 2)
    return np.asarray(np.where(genuine, certain, 1 - certain))


def choose_stiffness(embeddings: Array, labels: Array) -> float:
    """The stiffness of a smooth calibration that suits identities it has not seen.

    By five-fold cross-validation over identities: fitted to the pairs that show no identity of a
    fold, judged by the log loss, at prior 1/2, of those that show one or two. The stiffest is taken
    that the folds do not tell from the best, within a standard error. Of large sets about a
    thousand samples are tried.
    """
    matrix = embedding_matrix(embeddings)
    numbers = class_numbers(labels, len(matrix))[1]
    generator = np.random.default_rng(0)
    order = generator.permutation(numbers.max() + 1)  # of identities
    held = np.cumsum(np.bincount(numbers)[order]) - np.bincount(numbers)[order] < MOST_TRIED
    fold = np.full(len(order), -1)
    fold[order[held]] = np.arange(held.sum()) % FOLDS
    rows = np.flatnonzero(fold[numbers] >= 0)
    units, numbers = unit_rows(matrix, rows), numbers[rows]
    first, second = np.triu_indices(len(rows), 1)
    scores = score_pairs(units, first, second).astype(np.float64)
    genuine = numbers[first] == numbers[second]
    losses = []
    for number in range(FOLDS):
        apart = (fold[numbers[first]] == number) | (fold[numbers[second]] == number)
        parts = [(scores[part], genuine[part]) for part in (~apart, apart)]
        if any(kinds.all() or not kinds.any() for _, kinds in parts):
            continue  # too few identities to leave some out
        fitted, judged = (_gather_evenly(*part) for part in parts)
        losses.append([Curve.fit(fitted, stiffness).loss(judged) for stiffness in STIFFNESS])
    if len(losses) < 2:
        return STRAIGHT
    behind = np.array(losses)
    behind -= behind[:, [behind.mean(axis=0).argmin()]]  # the best one
    error = behind.std(axis=0, ddof=1) / math.sqrt(len(losses))
    return STIFFNESS[int(np.argmax(behind.mean(axis=0) <= error))]


class Cells(NamedTuple):
    """Pairs of nearly the same cosine taken together: their mean cosine, the mean of the targets,
    and their share of all weight (C,)."""

    cosines: Floats
    targets: Floats
    shares: Floats


def gather_cells(
    scores: Floats,
    genuine: npt.NDArray[np.bool_],
    weight: Floats,
    numbers: tuple[float, float],
) -> Cells:
    """With Platt's targets; `numbers` of impostor and of genuine pairs."""
    targets = platt_targets(genuine, numbers)
    order = np.argsort(scores, kind="stable")
    passed = np.cumsum(weight[order])
    cell = np.empty(len(scores), dtype=np.intp)
    cell[order] = np.minimum(passed / passed[-1] * MOST_CELLS, MOST_CELLS - 1)
    total = np.bincount(cell, weights=weight)
    filled = total > 0
    sums = (np.bincount(cell, weights=weight * values)[filled] for values in (scores, targets))
    cosines, means = (part / total[filled] for part in sums)
    return Cells(cosines, means, total[filled] / total.sum())


def _gather_evenly(scores: Floats, genuine: npt.NDArray[np.bool_]) -> Cells:
    """At prior 1/2."""
    numbers = float((~genuine).sum()), float(genuine.sum())
    weight = 0.5 / np.where(genuine, numbers[1], numbers[0])
    return gather_cells(scores, genuine, weight, numbers)


@dataclass(frozen=True, eq=False)
class Curve:
    """Log odds over cosines: a cubic spline with even knots that rises, and goes on straight.

    Its coefficients rise, so it does; their second differences are what bending costs (a P-spline:
    Eilers and Marx, Flexible smoothing with B-splines and penalties, 1996). If they all are zero,
    the curve is a straight line, that of logistic regression.
    """

    spline: BSpline
    ends: tuple[float, float]

    @classmethod
    def fit(cls, cells: Cells, stiffness: float) -> Self:
        """The lowest mean log loss and cost of bending, by Newton's method within rises ≥ 0."""
        low, high = float(cells.cosines.min()), float(cells.cosines.max())
        high = max(high, low + 1e-6)
        step = (high - low) / SEGMENTS
        knots = low + step * np.arange(-3, SEGMENTS + 4)
        knots[SEGMENTS + 3] = high
        count = SEGMENTS + 3
        inside = np.clip(cells.cosines, low, high)
        basis = BSpline.design_matrix(inside, knots, 3).toarray()
        rising = basis @ np.tril(np.ones((count, count)))  # of the first coefficient and the rises
        bends = np.diff(np.eye(count), axis=0)[1:] * SEGMENTS**1.5
        cost = stiffness * bends.T @ bends

        def loss(values: Floats) -> float:
            log_odds = rising @ values
            each = np.logaddexp(0, log_odds) - cells.targets * log_odds
            return float(cells.shares @ each + values @ cost @ values / 2)

        values = np.concatenate(([0.0], np.full(count - 1, 0.1)))
        best = loss(values)
        for _ in range(100):
            chances = expit(rising @ values)
            slope = rising.T @ (cells.shares * (chances - cells.targets)) + cost @ values
            spread = cells.shares * np.maximum(chances * (1 - chances), 1e-10)
            free = (values > 0) | (slope < 0)
            free[0] = True
            curvature = (rising.T @ (rising * spread[:, None]) + cost)[np.ix_(free, free)]
            curvature[np.diag_indices_from(curvature)] += 1e-10
            move = np.zeros(count)
            move[free] = np.linalg.solve(curvature, -slope[free])
            length, now = 1.0, best
            while length > 1e-4:
                tried = values + length * move
                tried[1:] = np.maximum(tried[1:], 0)
                now = loss(tried)
                if now < best:
                    break
                length /= 2
            if best - now < 1e-10:
                break
            values, best = tried, now
        return cls(BSpline(knots, np.cumsum(values), 3), (low, high))

    def log_odds(self, cosines: Floats) -> Floats:
        """Of any cosines."""
        low, high = self.ends
        slopes = self.spline.derivative()(np.array(self.ends))
        beyond = np.minimum(cosines - low, 0), np.maximum(cosines - high, 0)
        within = self.spline(np.clip(cosines, low, high))
        return np.asarray(within + slopes[0] * beyond[0] + slopes[1] * beyond[1])

    def loss(self, cells: Cells) -> float:
        """Mean log loss."""
        log_odds = self.log_odds(cells.cosines)
        return float(cells.shares @ (np.logaddexp(0, log_odds) - cells.targets * log_odds))
