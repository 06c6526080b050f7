"""Whether probabilities keep what they say: of the pairs given 0.8, are 80 % genuine?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import Array
from arcset.evaluation.calibration.prediction import check_count
from arcset.evaluation.calibration.probability import checked_pairs
from arcset.evaluation.results import Result

__all__ = ["Reliability", "reliability"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reliability(Result):
    """Probabilities beside frequencies, by bins of equal width.

    Fields:
        ece: expected calibration error, the mean over pairs of the difference between the mean
            probability and the frequency of their bin.
        brier: mean squared difference of probability and outcome (0 or 1).
        edges: (bins + 1,) from 0 to 1; a bin holds its lower edge, the last one both.
        counts: (bins,) numbers of pairs.
        mean_probability, frequency: (bins,) the mean probability of the pairs in a bin, and the
            share of them that is genuine; NaN in an empty bin.
    """

    named: ClassVar[tuple[str, ...]] = ("ece", "brier")
    lower_is_better: ClassVar[frozenset[str]] = frozenset({"ece", "brier"})

    ece: float
    brier: float
    edges: npt.NDArray[np.float64]
    counts: npt.NDArray[np.intp]
    mean_probability: npt.NDArray[np.float64]
    frequency: npt.NDArray[np.float64]

    def table(self) -> str:
        """The bins as aligned plain text."""
        lines = [
            f"expected calibration error  {self.shown('ece')}",
            f"Brier score                 {self.shown('brier')}",
            "",
            f"{'probability':>13}  {'pairs':>11}  {'mean':>6}  {'genuine':>7}",
        ]
        for low, high, count, mean, share in zip(
            self.edges,
            self.edges[1:],
            self.counts,
            self.mean_probability,
            self.frequency,
            strict=False,
        ):
            values = f"{mean:>6.3f}  {share:>7.3f}" if count else f"{'–':>6}  {'–':>7}"
            lines.append(f"{low:>5.2f} to {high:>4.2f}  {count:>11,}  {values}")
        return "\n".join(lines)


def reliability(
    probabilities: Array, same: Array, bins: int = 10, *, weights: Array | None = None
) -> Reliability:
    """Compare probabilities with what happened, to be drawn as a reliability diagram.

    Parameters:
        probabilities: (P,) in [0, 1].
        same: (P,) booleans, whether a pair is genuine; both kinds must occur.
        bins: how many, of equal width.
        weights: (P,) positive. Probabilities at a prior other than the share of genuine pairs want
            weights that bring the pairs to that prior.

    To be asked on identities other than those that the calibration was fitted to.

    Raises `InputError` for other shapes or probabilities outside [0, 1], `OptionError` for bins
    that are not a whole number ≥ 1.

        >>> reliability([0.1, 0.1, 0.9, 0.9], [False, False, True, True]).ece
        0.09...
    """
    bins = check_count("bins", bins)
    values, genuine, weight = checked_pairs(probabilities, same, weights, "probabilities")
    if values.min() < 0 or values.max() > 1:
        raise InputError(
            f"probabilities range from {values.min():g} to {values.max():g}, expected [0, 1]"
        )
    place = np.minimum((values * bins).astype(np.intp), bins - 1)
    total = np.bincount(place, weights=weight, minlength=bins)
    filled = np.where(total > 0, total, np.nan)
    mean = np.bincount(place, weights=weight * values, minlength=bins) / filled
    frequency = np.bincount(place, weights=weight * genuine, minlength=bins) / filled
    return Reliability(
        ece=float(np.nansum(total * np.abs(mean - frequency)) / total.sum()),
        brier=float((weight * (values - genuine) ** 2).sum() / total.sum()),
        edges=np.linspace(0, 1, bins + 1),
        counts=np.bincount(place, minlength=bins),
        mean_probability=mean,
        frequency=frequency,
    )
