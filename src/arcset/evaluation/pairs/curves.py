"""Error rates of accept-or-reject decisions, from the scores of genuine and of impostor pairs.

Genuine pairs should score high, impostor pairs low; a pair is accepted if score ≥ threshold.
TAR is the share of genuine pairs accepted, FRR = 1 − TAR, FAR the share of impostors accepted.
"""

import bisect
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcset.evaluation.pairs.ranked import Counts, Ranked, Scores

__all__ = ["EqualError", "Roc", "area", "equal_error", "operating_points", "rejected_at", "roc"]

LOG_POINTS, BULK_POINTS, TAR_POINTS = 300, 60, 120  # of a curve, at most
PER_DECADE = 40


@dataclass(frozen=True, eq=False)
class Roc:
    """What each of some thresholds accepts, from the highest threshold to the lowest.

    threshold, far, tar: (T,); far and tar rise from (0, 0) to (1, 1).
    """

    threshold: npt.NDArray[np.float64]
    far: npt.NDArray[np.float64]
    tar: npt.NDArray[np.float64]

    def json(self) -> dict[str, list[float]]:
        """The three lists."""
        return {name: values.tolist() for name, values in vars(self).items()}


class EqualError(NamedTuple):
    """The equal error rate, by how much rounding may have moved it, and a threshold near it."""

    rate: float
    error: float
    threshold: float


def area(genuine: Ranked, impostor: Ranked) -> tuple[float, float]:
    """AUC, and by how much it may differ where scores that tie here would not have, unrounded.

    AUC is the chance that a genuine pair scores higher than an impostor pair; a tie counts half.
    Rounding keeps the order of scores that stay apart, so only the tied pairs can change, each
    by a half at most: with the shares g(v) and i(v) of the scores at value v, the bound is
    ½ Σ g(v)·i(v).

        >>> ranked = [Ranked(np.array(s, np.float32)) for s in ([0.25, 0.75], [0.0, 0.25])]
        >>> area(*ranked)
        (0.875, 0.125)
    """
    if len(genuine.values) > len(impostor.values):  # search the shorter list in the longer
        reverse, error = area(impostor, genuine)
        return 1.0 - reverse, error
    below, up_to = impostor.below(genuine.values), impostor.up_to(genuine.values)
    pairs = genuine.total * impostor.total
    if genuine.before is None:
        return int((below + up_to).sum()) / (2 * pairs), int((up_to - below).sum()) / (2 * pairs)
    counts = np.diff(genuine.before).astype(np.float64)  # products may be too large for int64
    wins, ties = float(counts @ (below + up_to)), float(counts @ (up_to - below))
    return wins / (2 * pairs), ties / (2 * pairs)


def equal_error(genuine: Ranked, impostor: Ranked) -> EqualError:
    """EER, by how much it may differ where scores were not rounded, and a threshold.

    With the threshold falling from above the highest score to the lowest, (FAR, FRR) steps from
    (0, 1) to (1, 0); where genuine and impostor scores tie it steps in both at once. Joined by
    straight lines these points cross FAR = FRR exactly once, and EER is the rate there. The
    threshold is that of the two points beside the crossing at which FAR and FRR differ less;
    of equals the higher.

    Without rounding there would be more points between those two, but FAR and FRR still lie
    between theirs, and so does the rate at which they meet: that is the bound.

        >>> ranked = [Ranked(np.array(s, np.float32)) for s in ([0.25, 0.75], [0.0, 0.25])]
        >>> equal_error(*ranked)
        EqualError(rate=0.25, error=0.25, threshold=0.5)
    """

    total, others = genuine.total, impostor.total

    def rejects(score: np.floating[Any], *, accepted: bool) -> tuple[int, int]:
        """Genuine and impostor pairs below a threshold at the score, or just above it."""
        at = np.array([score])
        counts = [r.below(at) if accepted else r.up_to(at) for r in (genuine, impostor)]
        return int(counts[0][0]), int(counts[1][0])

    def beyond(score: np.floating[Any]) -> bool:
        """Whether FAR < FRR with the threshold at the score; in whole numbers."""
        wrong, right = rejects(score, accepted=True)
        return (others - right) * total < wrong * others

    # FAR ≥ FRR up to some score: the last of these, in either list.
    last: np.floating[Any] = np.float32(-np.inf)
    for ranked in (genuine, impostor):
        values = ranked.values
        place = bisect.bisect_left(values, True, key=beyond)
        if place:
            last = max(last, values[place - 1])
    (frr, far), (next_frr, next_far) = (
        (wrong / total, (others - right) / others)
        for wrong, right in (rejects(last, accepted=accepted) for accepted in (False, True))
    )
    share = (frr - far) / ((next_far - far) + (frr - next_frr))
    rate = far + share * (next_far - far)
    low, high = max(far, next_frr), min(next_far, frr)
    rejected = np.array([last])
    if next_far - next_frr < frr - far:
        rejected = np.maximum(genuine.next_below(rejected), impostor.next_below(rejected))
    threshold = operating_points(genuine, impostor, rejected).threshold[0]
    return EqualError(rate, max(high - rate, rate - low), float(threshold))


def rejected_at(impostor: Ranked, fars: Iterable[float]) -> Scores:
    """For each rate the highest score that must be rejected for FAR not to exceed it.

    −inf where none must be; NaN where there are fewer than 1/FAR impostors: no threshold shows
    such a rate then.

        >>> rejected_at(Ranked(np.array([0.0, 0.25, 0.5], np.float32)), [0.1, 0.34, 1.0])
        array([ nan, 0.25, -inf], dtype=float32)
    """
    found = []
    for far in fars:
        allowed = int(far * impostor.total)
        if (allowed + 1) / impostor.total <= far:  # 0.29 · 100 is below 29 in floating point
            allowed += 1
        elif allowed / impostor.total > far:
            allowed -= 1
        found.append(_rejected(impostor, np.array([allowed]))[0] if allowed else math.nan)
    return np.array(found, dtype=impostor.values.dtype)


def _rejected(impostor: Ranked, allowed: Counts) -> Scores:
    """The highest score to reject, where so many impostors may be accepted."""
    found = impostor.at(np.maximum(impostor.total - 1 - allowed, 0))
    return np.where(allowed < impostor.total, found, np.float32(-np.inf))


def operating_points(genuine: Ranked, impostor: Ranked, rejected: Scores) -> Roc:
    """Thresholds that reject these scores and all below, and accept all above.

    They lie halfway between the score and the next above it, so that they hold for scores computed
    in another precision as well; at the next number of float32 where no score is above, and at −1
    where nothing is to be rejected. NaN stays NaN.
    """
    lowest = np.minimum(genuine.next_above(rejected), impostor.next_above(rejected))
    top = np.nextafter(rejected.astype(np.float32), np.float32(np.inf))
    halfway = (rejected.astype(np.float64) + np.where(np.isinf(lowest), top, lowest)) / 2
    threshold = np.where(np.isinf(lowest), top, halfway)
    threshold = np.where(np.isneginf(rejected), -1.0, threshold)
    accepted = [(r.total - r.up_to(rejected)) / r.total for r in (impostor, genuine)]
    far, tar = (np.where(np.isnan(rejected), np.nan, share) for share in accepted)
    return Roc(np.where(np.isnan(rejected), np.nan, threshold), far, tar)


def roc(genuine: Ranked, impostor: Ranked, also: Scores) -> Roc:
    """A curve of at most some 500 points, each exact, close together on a logarithmic FAR axis.

    40 per decade of FAR down to a single impostor (fewer where there are more than seven
    decades), some evenly spaced in FAR and in TAR, the ends, and the points that reject `also`.
    """
    total = impostor.total
    decades = math.log10(total)
    logarithmic = np.geomspace(1, total, min(LOG_POINTS, max(2, math.ceil(PER_DECADE * decades))))
    even = np.linspace(0, total, BULK_POINTS)
    allowed = np.unique(np.concatenate((logarithmic, even)).round().astype(np.int64))
    ranks = np.unique(np.linspace(0, genuine.total - 1, TAR_POINTS).round().astype(np.int64))
    scores = genuine.at(ranks)
    under = np.maximum(genuine.next_below(scores), impostor.next_below(scores))
    highest = max(genuine.values[-1], impostor.values[-1])
    wanted = (_rejected(impostor, allowed), under, also, [highest, np.float32(-np.inf)])
    rejected = np.unique(np.concatenate(wanted))
    return operating_points(genuine, impostor, rejected[~np.isnan(rejected)][::-1])
