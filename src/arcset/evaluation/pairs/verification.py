"""Verification: do two embeddings belong to the same class? Decided by a threshold on cosines."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar

import numpy as np

from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import Array
from arcset.evaluation.bootstrap import DRAWS, SEED, draw_key, identity_weights
from arcset.evaluation.checks import checked_rates
from arcset.evaluation.pairs.bins import Bins
from arcset.evaluation.pairs.curves import (
    Roc,
    area,
    equal_error,
    operating_points,
    rejected_at,
    roc,
)
from arcset.evaluation.pairs.replicates import replicate
from arcset.evaluation.pairs.sources import choose_source
from arcset.evaluation.results import Replicates, Result

__all__ = ["FARS", "Verification", "verification"]

FARS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


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
        auc_error, eer_error: by how much rounding cosines to float32 or coarser can have moved AUC
            and EER at most; 0 for given pairs and up to 4,096 embeddings, where float64 is kept
            and ties are cosines that agree to 2⁻⁴⁴.
        curve: TAR over FAR, at some 500 thresholds at most.
    """

    named: ClassVar[tuple[str, ...]] = ("auc", "eer", "tar_at_far")
    lower_is_better: ClassVar[frozenset[str]] = frozenset({"eer"})

    auc: float
    eer: float
    tar_at_far: dict[float, float]
    threshold_at_far: dict[float, float]
    eer_threshold: float
    genuine: int
    impostor: int
    auc_error: float
    eer_error: float
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

    For given pairs, and all pairs of up to 4,096 embeddings, cosines are computed in float64 and
    rounded to multiples of 2⁻⁴⁴ = 5.7e-14; those then equal are ties, and everything else follows
    from these scores without error. For up to 20,000 embeddings they are rounded to float32 as
    well, by 3e-8 at most, and kept in 4 bytes per pair; `auc_error` and `eer_error` bound what
    that changes. For larger sets they are float32 products, rounded to multiples of 2⁻²¹ and
    counted: memory is about 500 MB beside a float32 copy of the embeddings, whatever the number
    of pairs.

    Intervals count the pairs once more, by identity, at the thresholds of the curve, or at all
    scores where there are at most 8,192 distinct ones. See `draws` for how, `replicates` for what
    is made of it.

    Raises `InputError` for embeddings that are not a finite (N, D) matrix or hold a row of zeros,
    labels that are not N integers, pairs out of range or at odds with the labels, and where no
    pair is genuine or none an impostor. Raises `OptionError` for a rate or number out of range.

        >>> result = verification([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], [0, 0, 1, 1], fars=[0.25])
        >>> result.auc, result.eer, result.tar_at_far[0.25]
        (1.0, 0.0, 1.0)
    """
    rates = checked_rates("fars", fars)
    if not (isinstance(draws, Integral) and draws >= 1):
        raise OptionError(f"draws={draws!r} is out of range, expected a number ≥ 1")
    source = choose_source(embeddings, labels, pairs, same)
    identities = source.labels if intervals else None
    if intervals and identities is None:
        raise InputError(
            "intervals draw identities anew, which pairs do not tell: give labels as well"
        )
    genuine, impostor = source.rank()
    auc, auc_error = area(genuine, impostor)
    equal = equal_error(genuine, impostor)
    rejected = rejected_at(impostor, rates)
    points = operating_points(genuine, impostor, rejected)
    result = Verification(
        auc=auc,
        eer=equal.rate,
        tar_at_far=dict(zip(rates, points.tar.tolist(), strict=True)),
        threshold_at_far=dict(zip(rates, points.threshold.tolist(), strict=True)),
        eer_threshold=equal.threshold,
        genuine=genuine.total,
        impostor=impostor.total,
        auc_error=0.0 if source.exact else auc_error,
        eer_error=0.0 if source.exact else equal.error,
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
