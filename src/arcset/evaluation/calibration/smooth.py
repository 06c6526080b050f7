"""A rising, smooth curve of likelihood ratios over cosines, and how stiff it should be.

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
from scipy.special import expit, logit

from arcset.evaluation.arrays import Array, class_numbers, embedding_matrix
from arcset.evaluation.pairs import Rows, score_pairs, unit_rows

SEGMENTS = 20  # of a curve, between the lowest and the highest cosine
STRAIGHT = 1.0  # what bending costs beside the mean log loss, where a curve hardly bends
STIFFNESS = (STRAIGHT, 1e-4, 1e-5, 1e-6, 1e-7)
SOFTER = (1e-8, 1e-9)  # where the counts want it
FOLDS = 5
PRIORS = (0.5, 0.01)  # of genuine pairs, at which a curve should be right
MOST_CELLS = 256  # groups of pairs of nearly one cosine, each of about the same weight
MOST_TRIED = 1000  # samples that the stiffness is chosen on
MOST_OF_ONE = 50  # of which so many of one identity
Floats = npt.NDArray[np.float64]


def choose_stiffness(embeddings: Array, labels: Array) -> float:
    """The stiffness of a smooth calibration that suits identities it has not seen.

    By five-fold cross-validation over identities: fitted to the pairs that show no identity of a
    fold, judged by the loss of those that show one or two. Taken is the stiffest whose loss is
    within a standard error of the lowest. Of large sets about a thousand samples are tried, of
    large identities 50 each.
    """
    matrix = embedding_matrix(embeddings)
    numbers = class_numbers(labels, len(matrix))[1]
    rows, fold = draw_folds(numbers)
    first, second = np.triu_indices(len(rows), 1)
    scores = score_pairs(unit_rows(matrix, rows), first, second).astype(np.float64)
    genuine = numbers[rows[first]] == numbers[rows[second]]
    losses = []
    for number in range(FOLDS):
        held_out = (fold[first] == number) | (fold[second] == number)
        parts = [(scores[part], genuine[part]) for part in (~held_out, held_out)]
        if any(kinds.all() or not kinds.any() for _, kinds in parts):
            continue  # too few identities to leave some out
        fitted, judged = (gather_cells(*part, np.ones(len(part[0]))) for part in parts)
        losses.append([Curve.fit(fitted, stiffness).loss(judged) for stiffness in STIFFNESS])
    if len(losses) < 2:
        return STRAIGHT
    behind = np.array(losses)
    behind -= behind[:, [behind.mean(axis=0).argmin()]]  # the best one
    error = behind.std(axis=0, ddof=1) / math.sqrt(len(losses))
    return STIFFNESS[int(np.argmax(behind.mean(axis=0) <= error))]


def draw_folds(numbers: Rows, most: int = MOST_TRIED) -> tuple[Rows, Rows]:
    """Rows (T,) of identities drawn at random, and the fold that each row is held out in (T,)."""
    generator = np.random.default_rng(0)
    sizes = np.bincount(numbers)
    members = np.split(np.argsort(numbers, kind="stable"), np.cumsum(sizes)[:-1])
    rows, folds, tried = [], [], 0
    for count, identity in enumerate(generator.permutation(len(sizes))):
        some = members[identity]
        if len(some) > MOST_OF_ONE:
            some = generator.choice(some, MOST_OF_ONE, replace=False)
        rows.append(some)
        folds.append(np.full(len(some), count % FOLDS))
        tried += len(some)
        if tried >= most:
            break
    return np.concatenate(rows), np.concatenate(folds)


class Cells(NamedTuple):
    """Pairs of nearly the same cosine taken together (C,): their mean cosine, and their share of
    all genuine and of all impostor pairs."""

    cosines: Floats
    genuine: Floats
    impostor: Floats


def gather_cells(scores: Floats, genuine: npt.NDArray[np.bool_], weight: Floats) -> Cells:
    """Cells of about equal mass, both kinds of pairs (P,) counting alike.

    Where all pairs are of one kind, one further pair of the other kind might have been, and is
    spread over them. So m impostor pairs tell what high cosines are worth, and n genuine pairs what
    low ones are.
    """
    sums = np.where(genuine, weight[genuine].sum(), weight[~genuine].sum())
    order = np.argsort(scores, kind="stable")
    passed = np.cumsum((weight / sums)[order])
    cell = np.empty(len(scores), dtype=np.intp)
    cell[order] = np.minimum(passed / passed[-1] * MOST_CELLS, MOST_CELLS - 1)
    total = np.bincount(cell, weights=weight / sums)
    filled = total > 0
    mean = np.bincount(cell, weights=weight / sums * scores)[filled] / total[filled]
    kinds = [
        np.bincount(cell[kind], weights=weight[kind] / sums[kind], minlength=len(total))[filled]
        for kind in (genuine, ~genuine)
    ]
    numbers = weight[genuine].sum(), weight[~genuine].sum()
    mixed = (
        (own + other / number) / (1 + 1 / number)
        for own, other, number in zip(kinds, reversed(kinds), numbers, strict=True)
    )
    return Cells(mean, *mixed)


@dataclass(frozen=True, eq=False)
class Curve:
    """Log likelihood ratios over cosines: a rising cubic spline with even knots, straight beyond.

    Its coefficients rise, so it does; their second differences are what bending costs (a P-spline:
    Eilers and Marx, Flexible smoothing with B-splines and penalties, 1996). If they all are zero,
    the curve is a straight line, that of logistic regression.

    What it minimizes is the log loss at each of `PRIORS`, divided by that of knowing nothing: of a
    pair looked at alone, and of one among a hundred, which is won by far higher ratios.
    """

    spline: BSpline
    ends: tuple[float, float]

    @classmethod
    def fit(cls, cells: Cells, stiffness: float) -> Self:
        """The lowest loss and cost of bending, by Newton's method within rises ≥ 0."""
        low, high = float(cells.cosines.min()), float(cells.cosines.max())
        if high - low < 1e-6:  # all alike, which tells nothing of others
            low, high = low - 1, low + 1
        knots = low + (high - low) / SEGMENTS * np.arange(-3, SEGMENTS + 4)
        knots[SEGMENTS + 3] = high
        count = SEGMENTS + 3
        basis = BSpline.design_matrix(np.clip(cells.cosines, low, high), knots, 3).toarray()
        rising = basis @ np.tril(np.ones((count, count)))  # of the first coefficient and the rises
        bends = np.diff(np.eye(count), axis=0)[1:] * SEGMENTS**1.5
        cost = stiffness * bends.T @ bends
        values = np.concatenate(([0.0], np.full(count - 1, 0.1)))
        best = _loss(rising @ values, cells) + values @ cost @ values / 2
        for _ in range(100):
            first, second = _slopes(rising @ values, cells)
            slope = rising.T @ first + cost @ values
            free = (values > 1e-3) | (slope < 0)
            free[0] = True
            curvature = (rising.T @ (rising * second[:, None]) + cost)[np.ix_(free, free)]
            curvature[np.diag_indices_from(curvature)] += 1e-10
            move = -values  # those near 0 that want to fall
            move[free] = np.linalg.solve(curvature, -slope[free])
            length, now = 1.0, best
            while length > 1e-12:  # steps are far too long where little holds the curve
                tried = values + length * move
                tried[1:] = np.maximum(tried[1:], 0)
                now = _loss(rising @ tried, cells) + tried @ cost @ tried / 2
                if now < best:
                    break
                length /= 2
            if best - now < 1e-10:
                break
            values, best = tried, now
        return cls(BSpline(knots, np.cumsum(values), 3), (low, high))

    def log_ratios(self, cosines: Floats) -> Floats:
        """Of any cosines."""
        low, high = self.ends
        slopes = self.spline.derivative()(np.array(self.ends))
        beyond = np.minimum(cosines - low, 0), np.maximum(cosines - high, 0)
        within = self.spline(np.clip(cosines, low, high))
        return np.asarray(within + slopes[0] * beyond[0] + slopes[1] * beyond[1])

    def loss(self, cells: Cells) -> float:
        return _loss(self.log_ratios(cells.cosines), cells)


def _ignorance(prior: float) -> float:
    """The log loss of knowing nothing but the prior."""
    return -prior * math.log(prior) - (1 - prior) * math.log(1 - prior)


def _loss(log_ratios: Floats, cells: Cells) -> float:
    total = 0.0
    for prior in PRIORS:
        log_odds = log_ratios + logit(prior)
        missed = prior * cells.genuine @ np.logaddexp(0, -log_odds)
        total += (missed + (1 - prior) * cells.impostor @ np.logaddexp(0, log_odds)) / _ignorance(
            prior
        )
    return float(total)


def _slopes(log_ratios: Floats, cells: Cells) -> tuple[Floats, Floats]:
    """The first and the second derivative of the loss by each log ratio."""
    first, second = np.zeros_like(log_ratios), np.zeros_like(log_ratios)
    for prior in PRIORS:
        chances = expit(log_ratios + logit(prior))
        genuine, impostor = prior * cells.genuine, (1 - prior) * cells.impostor
        first += (impostor * chances - genuine * (1 - chances)) / _ignorance(prior)
        spread = np.maximum(chances * (1 - chances), 1e-10)
        second += (genuine + impostor) * spread / _ignorance(prior)
    return first, second
