"""Verification: do two embeddings belong to the same class? Decided by a threshold on cosines.

Genuine pairs should score high, impostor pairs low; a pair is accepted if score ≥ threshold.
TAR is the share of genuine pairs accepted, FRR = 1 − TAR, FAR the share of impostors accepted.

Which pairs are judged: all of a labelled set, or those that the caller names. `fold_accuracy` is
the protocol of Labeled Faces in the Wild for the latter.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from arcset.checks import check_count, check_rates
from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import (
    Array,
    as_array,
    class_numbers,
    embedding_matrix,
    refuse_zero_rows,
)
from arcset.evaluation.bootstrap import (
    DRAWS,
    MOST_SCORES,
    SEED,
    Resampling,
    WeightedPairs,
    draw_curves,
    groups_of,
    sample_pairs,
)
from arcset.evaluation.pairs import (
    Rows,
    ScoreCounts,
    SortedRows,
    count_all_pairs,
    score_pairs,
    unit_rows,
)
from arcset.evaluation.rates import Floats, Roc, area, best_rate, equal_error
from arcset.evaluation.results import Result
from arcset.text import columns

FARS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


class AllPairs:
    """All pairs i < j; genuine where the labels are equal.

    labels: the distinct labels, sorted.
    """

    def __init__(self, embeddings: Array, labels: Array) -> None:
        self.rows = SortedRows.build(embeddings, labels)
        self.labels: npt.NDArray[Any] | None = self.rows.labels

    def count(self) -> ScoreCounts:
        """How many pairs have each score."""
        return count_all_pairs(self.rows)

    def sample(self, roc: Roc, units: Rows) -> tuple[WeightedPairs, WeightedPairs]:
        """Genuine and impostor pairs at the points of a curve: all pairs are scored again."""
        return sample_pairs(self.rows, roc, units)


class GivenPairs:
    """Pairs (P, 2) of row numbers; genuine where `same` (P,) says so.

    labels: the distinct labels, sorted; None where none were given.
    """

    def __init__(self, embeddings: Array, pairs: Array, same: Array, labels: Array | None) -> None:
        matrix = embedding_matrix(embeddings)
        refuse_zero_rows(matrix)
        places, self.same = as_pairs(pairs, same, len(matrix))
        self.labels = None
        if labels is not None:
            self.labels, numbers = class_numbers(labels, len(matrix))
            self.sides = numbers[places]  # (P, 2)
            odd = np.flatnonzero((self.sides[:, 0] == self.sides[:, 1]) != self.same)
            if len(odd):
                first, second = self.labels[self.sides[odd[0]]]
                raise InputError(
                    f"pair {odd[0]} has the labels {first} and {second}, but same is"
                    f" {bool(self.same[odd[0]])}"
                )
        self.scores = score_pairs(unit_rows(matrix), *places.T)

    def count(self) -> ScoreCounts:
        """How many pairs have each score."""
        return ScoreCounts.of(self.scores[self.same], self.scores[~self.same])

    def sample(self, roc: Roc, units: Rows) -> tuple[WeightedPairs, WeightedPairs]:
        """Genuine and impostor pairs, all of them, at the points of a curve; needs labels."""
        left, right = units[self.sides].T
        return (
            WeightedPairs.of(left[self.same], None, self.scores[self.same], roc),
            WeightedPairs.of(left[~self.same], right[~self.same], self.scores[~self.same], roc),
        )


def as_pairs(pairs: Array, same: Array, count: int) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """`pairs` (P, 2) of `count` rows and `same` (P,) as arrays.

    Raises `InputError` for row numbers out of range, and other types or shapes.
    """
    rows, is_same = as_array(pairs, "pairs"), as_array(same, "same")
    if rows.ndim != 2 or rows.shape[1] != 2 or not len(rows):
        raise InputError(f"pairs have shape {rows.shape}, expected (P, 2) with P ≥ 1")
    if rows.dtype.kind not in "iu":
        raise InputError(f"pairs are of type {rows.dtype}, expected integers")
    if rows.min() < 0 or rows.max() >= count:
        outside = int(rows.min() if rows.min() < 0 else rows.max())
        raise InputError(f"pairs name row {outside}, expected rows from 0 to {count - 1}")
    if is_same.shape != (len(rows),):
        raise InputError(
            f"same has shape {is_same.shape}, expected ({len(rows)},): one answer per pair"
        )
    if is_same.dtype != np.bool_:
        raise InputError(f"same is of type {is_same.dtype}, expected bool")
    return rows.astype(np.intp), is_same


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

    def _size(self) -> str:
        return f"{self.genuine:,} genuine and {self.impostor:,} impostor pairs"

    def _notes(self) -> dict[str, str]:
        rare = "fewer than 1/FAR impostor pairs"
        notes = self._thresholds("tar_at_far", self.threshold_at_far, rare)
        return {"eer": f"threshold {self.eer_threshold:.4f}", **notes}


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
    groups: Array | None = None,
) -> Verification:
    """Score pairs of embeddings by their cosine and measure how well a threshold decides.

    Either all pairs i < j, genuine where their labels are equal, or the given pairs only.

    Parameters:
        embeddings: (N, D).
        labels: (N,). Beside `pairs` they only tell whom intervals are to draw.
        fars: the false accept rates to report, each in (0, 1].
        pairs: (P, 2) row numbers.
        same: (P,) booleans, whether a pair is genuine.
        intervals: whether to draw identities anew and tell how far each measure then varies;
            every draw has its own thresholds.
        draws, seed: how many draws, and which.
        groups: (N,), to draw whole groups of identities, see `bootstrap`.

    Cosines are float32 products of unit rows, rounded to multiples of 2⁻²¹ = 4.8e-7; those then
    equal are ties. All pairs are counted by these multiples, so that everything but the rounding
    is exact, and memory is some 300 MB beside a float32 copy of the embeddings, whatever the number
    of pairs.

    Intervals count the pairs once more, by identity, at the thresholds of the curve, or at all
    scores where there are at most 8,192 distinct ones. See `bootstrap` for how.

    Raises `InputError` for pairs out of range or at odds with the labels, and where no pair is
    genuine or none an impostor.

        >>> result = verification([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], [0, 0, 1, 1], fars=[0.25])
        >>> result.auc, result.eer, result.tar_at_far[0.25]
        (1.0, 0.0, 1.0)
    """
    rates = check_rates("fars", fars)
    source: AllPairs | GivenPairs
    if pairs is not None and same is not None:
        source = GivenPairs(embeddings, pairs, same, labels)
    elif labels is not None and pairs is None and same is None:
        source = AllPairs(embeddings, labels)
    else:
        given = {"labels": labels, "pairs": pairs, "same": same}
        names = [name for name, value in given.items() if value is not None]
        raise InputError(
            f"{' and '.join(names) or 'neither labels nor pairs'} were given, expected either"
            " labels, or pairs and same"
        )
    if intervals and source.labels is None:
        raise InputError(
            "intervals draw identities anew, which pairs do not tell: give labels as well"
        )
    counts = source.count()
    genuine, impostor = counts.totals()
    roc = Roc.of(counts)
    points = {far: roc.at(far, impostor) for far in rates}
    equal, near = equal_error(roc.far, roc.tar)
    result = Verification(
        auc=float(area(roc.far, roc.tar)),
        eer=float(equal),
        tar_at_far={far: point.tar for far, point in points.items()},
        threshold_at_far={far: point.threshold for far, point in points.items()},
        eer_threshold=float(roc.threshold[near]),
        genuine=genuine,
        impostor=impostor,
        curve=roc.thin(genuine, impostor, rates),
    )
    if not intervals or labels is None or source.labels is None:
        return result
    owners = groups_of(class_numbers(labels, as_array(labels, "labels").size)[1], groups)
    resampling = Resampling.of(source.labels, owners, draws, seed)
    return replace(result, replicates=resampling.replicates(_draw(source, roc, result, resampling)))


def _draw(
    source: AllPairs | GivenPairs, roc: Roc, result: Verification, resampling: Resampling
) -> dict[str, Floats]:
    """Every measure in every draw (B,), by its name.

    From all thresholds, or where there are many, from those of the curve. What the latter make of
    the data itself, less what is known of it, is then subtracted.
    """
    between, weights = len(roc) > MOST_SCORES, resampling.weights
    once = np.ones((1, weights.shape[1]))  # the data itself
    drawn = {name: np.empty(len(weights) + 1) for name in result.measures()}
    kinds = source.sample(result.curve if between else roc, resampling.units)
    for part, far, tar, impostors in draw_curves(*kinds, np.concatenate((once, weights))):
        drawn["auc"][part], drawn["eer"][part] = area(far, tar), equal_error(far, tar)[0]
        for rate in result.tar_at_far:
            best = best_rate(far, tar, rate, impostors, between=between)
            drawn[result.name_of("tar_at_far", rate)][part] = best
    return {
        name: np.clip(drawn[name][1:] + (value - drawn[name][0]), 0.0, 1.0)
        for name, value in result.measures().items()
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class FoldAccuracy(Result):
    """How many pairs are judged rightly, by thresholds chosen on other pairs.

    Fields:
        accuracy: the mean of the folds' accuracies.
        standard_deviation: of the folds' accuracies, with K − 1 in the denominator.
        standard_error: of the mean, which is the former divided by √K.
        accuracies: of each fold (K,), at the threshold chosen on all the others.
        thresholds: these thresholds (K,); a pair is accepted if cosine ≥ threshold.
        pairs: how many there are.
    """

    named: ClassVar[tuple[str, ...]] = ("accuracy",)

    accuracy: float
    standard_deviation: float
    standard_error: float
    accuracies: Floats
    thresholds: Floats
    pairs: int

    def _size(self) -> str:
        return f"{self.pairs:,} pairs in {len(self.accuracies)} folds"

    def table(self) -> str:
        """The accuracy with its standard error, and below each fold."""
        accuracy = f"accuracy {self.accuracy:.4f} ± {self.standard_error:.4f}"
        folds = [
            [str(number), f"{accuracy:.4f}", f"{threshold:.4f}"]
            for number, (accuracy, threshold) in enumerate(
                zip(self.accuracies, self.thresholds, strict=True), start=1
            )
        ]
        return "\n".join(
            (self._size(), accuracy, "", columns(["fold", "accuracy", "threshold"], folds))
        )


def fold_accuracy(embeddings: Array, pairs: Array, same: Array, *, folds: int = 10) -> FoldAccuracy:
    """Accuracy as Labeled Faces in the Wild reports it.

    The pairs are parted into folds. Each is judged at the threshold that is right most often on
    all the other folds together, so that no threshold is chosen on the pairs it is reported for.
    Huang, Ramesh, Berg, Learned-Miller, "Labeled Faces in the Wild" (2007).

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        pairs: (P, 2) row numbers.
        same: (P,) booleans, whether a pair is genuine.
        folds: a number K ≥ 2 of consecutive parts, as LFW's file has them, which differ by one
            pair at most.

    A threshold lies halfway between two neighbouring scores of the other folds, at −1 (all
    accepted), or just above the highest (none). Of several that are right equally often it is
    the highest, which accepts the fewest impostors.

        >>> rows = [[1, 0], [1, 0.1], [0, 1], [0.1, 1]]
        >>> pairs, same = [[0, 1], [0, 2], [2, 3], [1, 3]], [True, False, True, False]
        >>> fold_accuracy(rows, pairs, same, folds=2).accuracy
        1.0
    """
    source = GivenPairs(embeddings, pairs, same, None)
    scores, is_same = source.scores, source.same
    count = len(scores)
    if check_count("folds", folds, 2) > count:
        raise OptionError(f"folds={folds} is out of range, expected 2 to {count}")
    sizes = [len(part) for part in np.array_split(scores, folds)]
    parts = np.repeat(np.arange(folds), sizes)
    accuracies, thresholds = [], []
    for fold in range(folds):
        held_out = parts == fold
        others, kinds = scores[~held_out], is_same[~held_out]
        counts = ScoreCounts.of(others[kinds], others[~kinds])
        gains = np.cumsum((counts.genuine - counts.impostor)[::-1])  # of a threshold below each
        best = np.argmax(np.concatenate(([0], gains)))
        threshold = float(Roc.of(counts).threshold[best])
        right = (scores[held_out] >= threshold) == is_same[held_out]
        accuracies.append(right.mean())
        thresholds.append(threshold)
    deviation = float(np.std(accuracies, ddof=1))
    return FoldAccuracy(
        accuracy=float(np.mean(accuracies)),
        standard_deviation=deviation,
        standard_error=deviation / len(accuracies) ** 0.5,
        accuracies=np.array(accuracies),
        thresholds=np.array(thresholds),
        pairs=count,
    )
