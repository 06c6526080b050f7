"""The protocol of LFW: accuracy on each part of the pairs, with the threshold from the others."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import Array, as_array
from arcset.evaluation.pairs import HALF_STEP, Scores, as_pairs, score_pairs, unit_rows
from arcset.evaluation.results import Result

__all__ = ["FoldAccuracy", "fold_accuracy"]

Floats = npt.NDArray[np.float64]


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

    def table(self) -> str:
        """The accuracy with its standard error, and below each fold."""
        lines = [
            f"pairs               {self.pairs:>9,}",
            f"accuracy            {self.shown('accuracy'):>9} ± {self.standard_error:.4f}",
            f"standard deviation  {self.standard_deviation:>9.4f}",
            "",
            f"{'fold':>4}  {'accuracy':>8}  {'threshold':>9}",
        ]
        for number, (accuracy, threshold) in enumerate(
            zip(self.accuracies, self.thresholds, strict=True), start=1
        ):
            lines.append(f"{number:>4}  {accuracy:>8.4f}  {threshold:>9.4f}")
        return "\n".join(lines)


def fold_accuracy(
    embeddings: Array, pairs: Array, same: Array, *, folds: int | Array = 10
) -> FoldAccuracy:
    """Accuracy as Labeled Faces in the Wild reports it.

    The pairs are parted into folds. Each is judged at the threshold that is right most often on
    all the other folds together, so that no threshold is chosen on the pairs it is reported for.
    Huang, Ramesh, Berg, Learned-Miller, "Labeled Faces in the Wild" (2007).

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row of a pair all zero.
        pairs: (P, 2) row numbers.
        same: (P,) booleans, whether a pair is genuine.
        folds: a number K ≥ 2 of consecutive parts, as LFW's file has them, which differ by one
            pair at most; or the fold of each pair, (P,) integers, reported in ascending order.

    A threshold lies halfway between two neighbouring scores of the other folds, at −1 (all
    accepted), or just above the highest (none). Of several that are right equally often it is
    the highest, which accepts the fewest impostors.

    Raises `InputError` for bad embeddings or pairs, and folds that are not P integers with two
    distinct values at least. Raises `OptionError` for a number of folds below 2 or above P.

        >>> rows = [[1, 0], [1, 0.1], [0, 1], [0.1, 1]]
        >>> pairs, same = [[0, 1], [0, 2], [2, 3], [1, 3]], [True, False, True, False]
        >>> fold_accuracy(rows, pairs, same, folds=2).accuracy
        1.0
    """
    units = unit_rows(embeddings)
    places, is_same = as_pairs(pairs, same, len(units))
    parts = _fold_numbers(folds, len(places))
    scores = score_pairs(units, *places.T)
    accuracies, thresholds = [], []
    for fold in np.unique(parts):
        held_out = parts == fold
        threshold = _best_threshold(scores[~held_out], is_same[~held_out])
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
        pairs=len(places),
    )


def _best_threshold(scores: Scores, same: npt.NDArray[np.bool_]) -> float:
    """The highest of the thresholds that are right most often."""
    values, groups = np.unique(scores, return_inverse=True)  # (V,) ascending
    gain = np.bincount(groups, weights=np.where(same, -1.0, 1.0))  # of rejecting a value
    right = np.concatenate(([0.0], np.cumsum(gain)))  # with the k lowest values rejected
    rejected = int(np.flatnonzero(right == right.max())[-1])
    if rejected == 0:
        return -1.0
    if rejected == len(values):
        return float(values[-1]) + HALF_STEP
    return (float(values[rejected - 1]) + float(values[rejected])) / 2


def _fold_numbers(folds: int | Array, count: int) -> npt.NDArray[Any]:
    parts = as_array(folds, "folds")
    if parts.dtype.kind not in "iu":
        raise InputError(f"folds are of type {parts.dtype}, expected integers")
    if parts.ndim == 0:
        if not 2 <= int(parts) <= count:
            raise OptionError(f"folds={int(parts)} is out of range, expected 2 to {count}")
        sizes = [len(part) for part in np.array_split(np.arange(count), int(parts))]
        return np.repeat(np.arange(len(sizes)), sizes)
    if parts.shape != (count,):
        raise InputError(
            f"folds have shape {parts.shape}, expected ({count},): the fold of each pair"
        )
    if len(np.unique(parts)) < 2:
        raise InputError(f"folds hold the one number {parts[0]}, expected at least two")
    return parts
