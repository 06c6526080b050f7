"""Verification: do two embeddings belong to the same class? Decided by a threshold on cosines.

Error rates of accept-or-reject decisions, from the scores of genuine and of impostor pairs.

Genuine pairs should score high, impostor pairs low; a pair is accepted if score ≥ threshold.
TAR is the share of genuine pairs accepted, FRR = 1 − TAR, FAR the share of impostors accepted.

Which pairs are judged: all of a labelled set, or those that the caller names.
"""

import bisect
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from arcset.checks import check_rates
from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import Array, class_numbers
from arcset.evaluation.bootstrap import DRAWS, SEED, draw_key, identity_weights
from arcset.evaluation.bootstrap_pairs import (
    Accepted,
    Bins,
    accepted_of_all_pairs,
    accepted_of_pairs,
    replicate,
)
from arcset.evaluation.pairs import (
    HALF_STEP,
    Counts,
    Ranked,
    Scores,
    SortedRows,
    as_pairs,
    cell_numbers,
    count_all_pairs,
    score_pairs,
    unit_rows,
)
from arcset.evaluation.results import Replicates, Result

__all__ = [
    "FARS",
    "AllPairs",
    "EqualError",
    "GivenPairs",
    "Roc",
    "Verification",
    "area",
    "choose_source",
    "equal_error",
    "operating_points",
    "rejected_at",
    "roc",
    "verification",
]

FARS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
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
    """The equal error rate, and a threshold near it."""

    rate: float
    threshold: float


def area(genuine: Ranked, impostor: Ranked) -> float:
    """AUC: the chance that a genuine pair scores higher than an impostor pair; a tie counts half.

    >>> area(*(Ranked.of(np.float32(scores)) for scores in ([0.25, 0.75], [0.0, 0.25])))
    0.875
    """
    counts = np.diff(genuine.before).astype(np.float64)  # products may be too large for int64
    wins = counts @ (impostor.below(genuine.values) + impostor.up_to(genuine.values))
    return float(wins / (2 * genuine.total * impostor.total))


def equal_error(genuine: Ranked, impostor: Ranked) -> EqualError:
    """EER, and a threshold.

    With the threshold falling from above the highest score to the lowest, (FAR, FRR) steps from
    (0, 1) to (1, 0); where genuine and impostor scores tie it steps in both at once. Joined by
    straight lines these points cross FAR = FRR exactly once, and EER is the rate there. The
    threshold is that of the two points beside the crossing at which FAR and FRR differ less;
    of equals the higher.

        >>> equal_error(*(Ranked.of(np.float32(s)) for s in ([0.25, 0.75], [0.0, 0.25])))
        EqualError(rate=0.25, threshold=0.5)
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
    rejected = np.array([last])
    if next_far - next_frr < frr - far:
        rejected = np.maximum(genuine.next_below(rejected), impostor.next_below(rejected))
    threshold = operating_points(genuine, impostor, rejected).threshold[0]
    return EqualError(rate, float(threshold))


def rejected_at(impostor: Ranked, fars: Iterable[float]) -> Scores:
    """For each rate the highest score that must be rejected for FAR not to exceed it.

    −inf where none must be; NaN where there are fewer than 1/FAR impostors: no threshold shows
    such a rate then.

        >>> rejected_at(Ranked.of(np.float32([0.0, 0.25, 0.5])), [0.1, 0.34, 1.0])
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
    in another precision as well; half a step above it where no score is above, and at −1 where
    nothing is to be rejected. NaN stays NaN.
    """
    lowest = np.minimum(genuine.next_above(rejected), impostor.next_above(rejected))
    scores = rejected.astype(np.float64)
    threshold = np.where(np.isinf(lowest), scores + HALF_STEP, (scores + lowest) / 2)
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


class AllPairs:
    """All pairs i < j; genuine where the labels are equal.

    labels: the distinct labels, sorted.
    """

    labels: npt.NDArray[Any] | None

    def __init__(self, embeddings: Array, labels: Array) -> None:
        self._rows = SortedRows.build(embeddings, labels)
        self.labels = self._rows.labels
        _refuse_one_kind(*self._rows.pair_counts())

    def rank(self) -> tuple[Ranked, Ranked]:
        """The scores of genuine and of impostor pairs."""
        return count_all_pairs(self._rows)

    def accepted(self, weights: npt.NDArray[np.float64], bins: Bins) -> Accepted:
        """What thresholds accept, with each label weighted (B, I): all pairs are scored again."""
        return accepted_of_all_pairs(weights, self._rows, bins)


class GivenPairs:
    """Pairs (P, 2) of row numbers; genuine where `same` (P,) says so.

    labels: the distinct labels, sorted; None where none were given.
    """

    def __init__(self, embeddings: Array, pairs: Array, same: Array, labels: Array | None) -> None:
        units = unit_rows(embeddings)
        places, self._same = as_pairs(pairs, same, len(units))
        self.labels = None
        if labels is not None:
            self.labels, numbers = class_numbers(labels, len(units))
            self._sides = numbers[places]  # (P, 2)
            odd = np.flatnonzero((self._sides[:, 0] == self._sides[:, 1]) != self._same)
            if len(odd):
                first, second = self.labels[self._sides[odd[0]]]
                raise InputError(
                    f"pair {odd[0]} has the labels {first} and {second}, but same is"
                    f" {bool(self._same[odd[0]])}"
                )
        _refuse_one_kind(int(self._same.sum()), int((~self._same).sum()))
        self._scores = score_pairs(units, *places.T)

    def rank(self) -> tuple[Ranked, Ranked]:
        """The scores of genuine and of impostor pairs."""
        return Ranked.of(self._scores[self._same]), Ranked.of(self._scores[~self._same])

    def accepted(self, weights: npt.NDArray[np.float64], bins: Bins) -> Accepted:
        """What thresholds accept, with each label weighted (B, I); needs labels."""
        found = bins.of(cell_numbers(self._scores.copy()))
        return accepted_of_pairs(weights, found, self._same, self._sides, len(bins))


def choose_source(
    embeddings: Array, labels: Array | None, pairs: Array | None, same: Array | None
) -> AllPairs | GivenPairs:
    """All pairs where labels are given, the given pairs otherwise.

    Raises `InputError` where neither is given, or one of `pairs` and `same` without the other.
    """
    if pairs is not None and same is not None:
        return GivenPairs(embeddings, pairs, same, labels)
    if labels is not None and pairs is None and same is None:
        return AllPairs(embeddings, labels)
    given = {"labels": labels, "pairs": pairs, "same": same}
    names = [name for name, value in given.items() if value is not None]
    raise InputError(
        f"{' and '.join(names) or 'neither labels nor pairs'} were given, expected either"
        " labels, or pairs and same"
    )


def _refuse_one_kind(genuine: int, impostor: int) -> None:
    for kind, count in (("genuine", genuine), ("impostor", impostor)):
        if not count:
            raise InputError(
                f"there are {genuine} genuine and {impostor} impostor pairs, expected"
                f" at least one {kind} pair"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Verification(Result):
    """How well a threshold on the cosine tells genuine pairs (same class) from impostor pairs.

    Fields:
        auc: chance that a genuine pair has a higher cosine than an impostor pair; ties count half.
        eer: the rate at which false accepts and false rejects are equally frequent, on the
            straight lines that join the points (FAR, FRR) of all thresholds.
        tar_at_far: for each false accept rate asked for, the highest true accept rate over
            thresholds whose false accept rate does not exceed it; NaN if there are fewer than
            1/FAR impostor pairs.
        threshold_at_far: a threshold that reaches it; a pair is accepted if cosine ≥ threshold.
        eer_threshold: a threshold at which the two error rates are as equal as they get.
        genuine, impostor: numbers of pairs.
        curve: TAR over FAR, at some 500 thresholds at most.
    """

    named: ClassVar[tuple[str, ...]] = ("auc", "eer", "tar_at_far")

    auc: float
    eer: float
    tar_at_far: dict[float, float]
    threshold_at_far: dict[float, float]
    eer_threshold: float
    genuine: int
    impostor: int
    curve: Roc

    def table(self) -> str:
        """The measures as aligned plain text; rates the data cannot support carry a mark."""
        tars = [self.shown(f"tar_at_far[{far!r}]") for far in self.tar_at_far]
        width = max(8, *map(len, tars)) if tars else 8
        lines = [
            f"genuine pairs   {self.genuine:>13,}",
            f"impostor pairs  {self.impostor:>13,}",
            f"AUC                  {self.shown('auc', 6)}",
            f"EER                  {self.shown('eer', 6)}",
            "",
            f"{'FAR':>8}  {'TAR':<{width}}  {'threshold':>9}",
        ]
        for far, tar in zip(self.tar_at_far, tars, strict=True):
            threshold = self.threshold_at_far[far]
            if math.isnan(threshold):
                lines.append(f"{far:>8g}  {tar:<{width}}  {'–':>9}  *")
            else:
                lines.append(f"{far:>8g}  {tar:<{width}}  {threshold:>9.4f}")
        if any(map(math.isnan, self.tar_at_far.values())):
            lines.append("* fewer than 1/FAR impostor pairs")
        return "\n".join(lines)


def verification(
    embeddings: Array,
    labels: Array | None = None,
    fars: Iterable[float] = FARS,
    *,
    pairs: Array | None = None,
    same: Array | None = None,
    intervals: bool = False,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Verification:
    """Score pairs of embeddings by their cosine and measure how well a threshold decides.

    Either all pairs i < j, genuine where their labels are equal, or the given pairs only.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers. Beside `pairs` they only tell whom intervals are to draw.
        fars: the false accept rates to report, each in (0, 1].
        pairs: (P, 2) row numbers.
        same: (P,) booleans, whether a pair is genuine.
        intervals: whether to draw identities anew and tell how far each measure then varies;
            every draw has its own thresholds.
        draws, seed: how many draws, and which.

    Cosines are float32 products of unit rows, rounded to multiples of 2⁻²¹ = 4.8e-7; those then
    equal are ties. All pairs are counted by these multiples, so that everything but the rounding
    is exact, and memory is some 300 MB beside a float32 copy of the embeddings, whatever the number
    of pairs.

    Intervals count the pairs once more, by identity, at the thresholds of the curve, or at all
    scores where there are at most 8,192 distinct ones. See `bootstrap_pairs` for how.

    Raises `InputError` for embeddings that are not a finite (N, D) matrix or hold a row of zeros,
    labels that are not N integers, pairs out of range or at odds with the labels, and where no
    pair is genuine or none an impostor. Raises `OptionError` for a rate or number out of range.

        >>> result = verification([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], [0, 0, 1, 1], fars=[0.25])
        >>> result.auc, result.eer, result.tar_at_far[0.25]
        (1.0, 0.0, 1.0)
    """
    rates = check_rates("fars", fars)
    if not (isinstance(draws, Integral) and draws >= 1):
        raise OptionError(f"draws={draws!r} is out of range, expected a number ≥ 1")
    source = choose_source(embeddings, labels, pairs, same)
    identities = source.labels if intervals else None
    if intervals and identities is None:
        raise InputError(
            "intervals draw identities anew, which pairs do not tell: give labels as well"
        )
    genuine, impostor = source.rank()
    equal = equal_error(genuine, impostor)
    rejected = rejected_at(impostor, rates)
    points = operating_points(genuine, impostor, rejected)
    result = Verification(
        auc=area(genuine, impostor),
        eer=equal.rate,
        tar_at_far=dict(zip(rates, points.tar.tolist(), strict=True)),
        threshold_at_far=dict(zip(rates, points.threshold.tolist(), strict=True)),
        eer_threshold=equal.threshold,
        genuine=genuine.total,
        impostor=impostor.total,
        curve=roc(genuine, impostor, rejected),
    )
    if identities is None:
        return result
    bins = Bins.choose(genuine, impostor, result.curve)
    del genuine, impostor  # to be counted again, which needs memory of its own
    once = np.ones((1, len(identities)))  # the data itself, for comparison
    drawn = identity_weights(len(identities), draws, seed)
    values = replicate(
        source.accepted(np.concatenate((once, drawn)), bins),
        result.measures(),
        {result.name_of("tar_at_far", far): far for far in rates},
        complete=bins.complete,
    )
    key = draw_key(identities, seed, draws)
    return replace(result, replicates=Replicates(values, len(identities), key))
