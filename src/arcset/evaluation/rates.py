"""Rates of decisions by a threshold: what is rightly accepted, and what wrongly.

Verification accepts a pair, a search its best subject, if score ≥ threshold. With the threshold
falling, the share of false accepts (FAR, or FPIR of a search) and that of true ones (TAR, or DIR)
rise from 0. The functions take these shares as arrays that run along falling thresholds in their
last axis; axes before it are draws of a bootstrap.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from arcset.evaluation.pairs import HALF_STEP, Rows, ScoreCounts

Floats: TypeAlias = npt.NDArray[np.float64]

# Points of a curve for people, at most.
PER_DECADE, LOG_POINTS, EVEN_POINTS, TAR_POINTS, MISS_POINTS = 40, 240, 40, 120, 80


class OperatingPoint(NamedTuple):
    """A threshold, and the true accept rate there."""

    threshold: float
    tar: float


@dataclass(frozen=True, eq=False)
class Roc:
    """What thresholds accept, from the highest threshold to the lowest.

    threshold, far, tar: (T,); far and tar rise, from (0, 0) and, in verification, to (1, 1).
    """

    threshold: Floats
    far: Floats
    tar: Floats

    @classmethod
    def of(cls, counts: ScoreCounts, missed: int = 0) -> "Roc":
        """Every threshold that makes a difference, one more than there are distinct scores.

        A threshold lies halfway between two neighbouring scores, so that it holds for scores
        computed in another precision as well; half a step above the highest; and at −1.
        `missed`: genuine ones that no threshold accepts.

            >>> roc = Roc.of(ScoreCounts.of(np.array([0.25, 0.75]), np.array([0.0, 0.25])))
            >>> roc.threshold[1:].tolist(), roc.far.tolist(), roc.tar.tolist()
            ([0.5, 0.125, -1.0], [0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
        """
        falling = counts.scores[::-1]
        halfway = (falling[1:] + falling[:-1]) / 2
        threshold = np.concatenate((falling[:1] + HALF_STEP, halfway, [-1.0]))
        far, tar = (
            np.concatenate(([0], np.cumsum(each[::-1]))) / max(1, int(each.sum()) + more)
            for each, more in ((counts.impostor, 0), (counts.genuine, missed))
        )
        return cls(threshold, far, tar)

    def __len__(self) -> int:
        return len(self.threshold)

    def __getitem__(self, points: npt.NDArray[Any]) -> "Roc":
        return Roc(self.threshold[points], self.far[points], self.tar[points])

    def at(self, rate: float, impostor: int) -> OperatingPoint:
        """Where TAR is highest with a FAR of no more than `rate`.

        NaN if there are fewer than 1/`rate` impostors: no threshold shows such a rate then.
        """
        if not impostor or 1 / impostor > rate:
            return OperatingPoint(math.nan, math.nan)
        point = _last_within(self.far, rate)
        return OperatingPoint(float(self.threshold[point]), float(self.tar[point]))

    def thin(self, genuine: int, impostor: int, rates: Iterable[float] = ()) -> "Roc":
        """At most some 500 of the points, for a person to look at.

        Close together on logarithmic axes of FAR, with 40 per decade down to a single impostor
        (fewer beyond six decades), and of FRR = 1 − TAR; some evenly spaced in FAR and in TAR; the
        ends, and those at the false accept `rates`.
        """
        decades = max(2, math.ceil(PER_DECADE * math.log10(impostor)))
        logarithmic = np.geomspace(1, impostor, min(LOG_POINTS, decades)).round() / impostor
        far = np.concatenate((logarithmic, np.linspace(0, 1, EVEN_POINTS), [*rates]))
        misses = np.geomspace(1, genuine, MISS_POINTS) / genuine
        tar = np.concatenate((np.linspace(0, 1, TAR_POINTS), 1 - misses))
        points = np.concatenate(
            (
                np.searchsorted(self.far, far, side="right") - 1,
                np.searchsorted(self.tar, tar).clip(max=len(self) - 1),
                [0, len(self) - 1],
            )
        )
        return self[np.unique(points)]


def area(far: Floats, tar: Floats) -> Floats:
    """AUC: under the straight lines between the points, so that ties count half.

    It is the chance that a genuine pair scores higher than an impostor pair.
    """
    return np.asarray((np.diff(far) * (tar[..., 1:] + tar[..., :-1])).sum(axis=-1) / 2)


def equal_error(far: Floats, tar: Floats) -> tuple[Floats, Rows]:
    """EER, and the number of a point near it.

    The points (FAR, FRR) step from (0, 1) to (1, 0); where genuine and impostor scores tie, in
    both at once. Joined by straight lines they cross FAR = FRR exactly once, and EER is the rate
    there. The point is that of the two beside the crossing at which FAR and FRR differ less; of
    equals the one with the higher threshold.
    """
    ahead = far + tar - 1  # FAR − FRR, from −1 to 1
    after = np.asarray(np.argmax(ahead >= 0, axis=-1))  # at least 1, as the first point is (0, 1)
    low, high = _pick(ahead, after - 1), _pick(ahead, after)
    start, end = _pick(far, after - 1), _pick(far, after)
    return start - low / (high - low) * (end - start), after - (high >= -low)


def _last_within(far: Floats, rate: float) -> Rows:
    """The number of the last point whose FAR does not exceed `rate`, where TAR is highest."""
    return np.asarray((far <= rate).sum(axis=-1) - 1)


def best_rate(
    far: Floats, tar: Floats, rate: float, impostors: Floats, *, between: bool = False
) -> Floats:
    """The highest TAR over thresholds whose FAR does not exceed `rate`.

    NaN where there are fewer than 1/`rate` of the `impostors`: no threshold shows such a rate then.
    between: whether to read it off the line to the next point, where the points are only some; the
    highest before it would be too low by half a step.

        >>> best_rate(np.array([0, 0.25, 1]), np.array([0, 0.5, 1.0]), 0.29, np.array(4)).tolist()
        0.5
    """
    last = _last_within(far, rate)
    best = _pick(tar, last)
    if between:
        after = np.minimum(last + 1, far.shape[-1] - 1)
        start = _pick(far, last)
        step = _pick(far, after) - start
        share = np.divide(rate - start, step, out=np.zeros_like(step), where=step > 0)
        best = best + share * (_pick(tar, after) - best)
    with np.errstate(divide="ignore"):
        return np.where(1 / impostors > rate, np.nan, best)


def _pick(values: Floats, points: Rows) -> Floats:
    """One value along the last axis of each."""
    return np.take_along_axis(values, points[..., None], axis=-1)[..., 0]
