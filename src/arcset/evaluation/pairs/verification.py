"""Verification: do two embeddings belong to the same class? Decided by a threshold on cosines."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import Array
from arcset.evaluation.pairs.curves import area_and_equal_error, tar_at_far
from arcset.evaluation.pairs.scores import score_all_pairs, score_given_pairs

__all__ = ["Verification", "verification"]


@dataclass(frozen=True)
class Verification:
    """How well a threshold on the cosine tells genuine pairs (same class) from impostor pairs.

    Fields:
        auc: chance that a genuine pair has a higher cosine than an impostor pair; ties count half.
        eer: the rate at which false accepts and false rejects are equally frequent, on the
            straight lines that join the points (FAR, FRR) of all thresholds.
        tar_at_far: for each false accept rate asked for, the highest true accept rate over
            thresholds whose false accept rate does not exceed it; NaN if there are fewer than
            1/FAR impostor pairs.
        threshold_at_far: a threshold that reaches it; a pair is accepted if cosine ≥ threshold.
        genuine, impostor: numbers of pairs.
    """

    auc: float
    eer: float
    tar_at_far: dict[float, float]
    threshold_at_far: dict[float, float]
    genuine: int
    impostor: int

    def table(self) -> str:
        """The measures as aligned plain text; rates the data cannot support carry a mark."""
        lines = [
            f"genuine pairs   {self.genuine:>13,}",
            f"impostor pairs  {self.impostor:>13,}",
            f"AUC             {self.auc:>13.6f}",
            f"EER             {self.eer:>13.6f}",
            "",
            f"{'FAR':>8}  {'TAR':>8}  {'threshold':>9}",
        ]
        for far, tar in self.tar_at_far.items():
            if math.isnan(tar):
                lines.append(f"{far:>8g}  {'-':>8}  {'-':>9}  *")
            else:
                lines.append(f"{far:>8g}  {tar:>8.4f}  {self.threshold_at_far[far]:>9.4f}")
        if any(math.isnan(tar) for tar in self.tar_at_far.values()):
            lines.append("* fewer than 1/FAR impostor pairs")
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them: rates as text where they are keys, NaN as None."""
        return {
            "auc": self.auc,
            "eer": self.eer,
            "tar_at_far": _jsonable(self.tar_at_far),
            "threshold_at_far": _jsonable(self.threshold_at_far),
            "genuine": self.genuine,
            "impostor": self.impostor,
        }


def verification(
    embeddings: Array,
    labels: Array | None = None,
    fars: Iterable[float] = (1e-1, 1e-2, 1e-3, 1e-4),
    *,
    pairs: Array | None = None,
    same: Array | None = None,
) -> Verification:
    """Score pairs of embeddings by their cosine and measure how well a threshold decides.

    Either all pairs i < j, genuine where their labels are equal, or the given pairs only.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers; N up to 20,000.
        fars: the false accept rates to report, each in (0, 1].
        pairs: (P, 2) row numbers, instead of labels.
        same: (P,) booleans, whether a pair is genuine.

    Cosines are computed in float64 and rounded to 2⁻⁴⁰ and to float32; those then equal are ties.
    Memory is 4 bytes per pair.

    Raises `InputError` for embeddings that are not a finite (N, D) matrix or hold a row of zeros,
    labels that are not N integers, pairs out of range, and where no pair is genuine or none an
    impostor. Raises `OptionError` for a rate out of range.

        >>> result = verification([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], [0, 0, 1, 1], fars=[0.25])
        >>> result.auc, result.eer, result.tar_at_far[0.25]
        (1.0, 0.0, 1.0)
    """
    rates = _rates(fars)
    if labels is not None and pairs is None and same is None:
        genuine, impostor = score_all_pairs(embeddings, labels)
    elif labels is None and pairs is not None and same is not None:
        genuine, impostor = score_given_pairs(embeddings, pairs, same)
    else:
        given = {"labels": labels, "pairs": pairs, "same": same}
        names = [name for name, value in given.items() if value is not None]
        raise InputError(
            f"{' and '.join(names) or 'neither labels nor pairs'} were given, expected either"
            " labels, or pairs and same"
        )
    for kind, scores in (("genuine", genuine), ("impostor", impostor)):
        if not len(scores):
            raise InputError(
                f"there are {len(genuine)} genuine and {len(impostor)} impostor pairs, expected"
                f" at least one {kind} pair"
            )
        scores.sort()

    auc, eer = area_and_equal_error(genuine, impostor)
    points = {far: tar_at_far(genuine, impostor, far) for far in rates}
    return Verification(
        auc=auc,
        eer=eer,
        tar_at_far={far: tar for far, (tar, _) in points.items()},
        threshold_at_far={far: threshold for far, (_, threshold) in points.items()},
        genuine=len(genuine),
        impostor=len(impostor),
    )


def _rates(fars: Iterable[float]) -> list[float]:
    rates = list(fars) if isinstance(fars, Iterable) else [fars]
    for far in rates:
        if not (isinstance(far, Real) and 0 < far <= 1):
            raise OptionError(f"fars hold {far!r}, expected rates in (0, 1]")
    return [float(far) for far in rates]


def _jsonable(values: dict[float, float]) -> dict[str, float | None]:
    return {str(key): None if math.isnan(value) else value for key, value in values.items()}
