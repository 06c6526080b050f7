"""The threshold of a gallery as it is now: it moves as subjects are enrolled and removed."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from arcset.checks import check_count, check_number, check_rate
from arcset.errors import InputError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.evaluation.calibration.thresholds import rounded_up
from arcset.files import finite
from arcset.recognition.verification import rough_note, uncalibrated_note

__all__ = ["DEFAULT_FPIR", "WorkingPoint", "effective_size", "working_point"]

#: Of a hundred probes of unknown identities one is taken for an enrolled subject.
DEFAULT_FPIR = 0.01

_RAREST = 1e-30  # a rate that no calibration will ever support


@dataclass(frozen=True, kw_only=True)
class WorkingPoint:
    """Where "known" begins.

    Fields:
        threshold: a probe is taken for the subject of highest score if that score is ≥ threshold.
        fpir: the share of unknown probes that will be taken for someone; None where the threshold
            was chosen by hand, or promises no rate.
        gallery: the size that the threshold is for: subjects, each with as many samples as the
            calibration assumed. None where it does not depend on the size.
        extrapolated: whether that is more than the calibration could try.
        rough: whether it is the equal-error threshold of too few identities for any rate.
        note: a sentence for people where something is not as they may expect; else empty.
    """

    threshold: float
    fpir: float | None
    gallery: int | None = None
    extrapolated: bool = False
    rough: bool = False
    note: str = ""

    @classmethod
    def by_hand(cls, threshold: float) -> "WorkingPoint":
        """A threshold that the user chose; raises `OptionError` unless it lies in [−1, 1]."""
        checked = check_number("threshold", threshold, -1, 1, closed="both")
        return cls(threshold=checked, fpir=None)

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return dict(finite(asdict(self)))

    def __str__(self) -> str:
        if self.fpir is None:
            return f"threshold {self.threshold:.4f}, {'rough' if self.rough else 'chosen by hand'}"
        mark = ", extrapolated" if self.extrapolated else ""
        return (
            f"threshold {self.threshold:.4f} for FPIR {self.fpir:.3g} in a gallery of "
            f"{self.gallery:,}{mark}"
        )


def working_point(
    thresholds: Thresholds | None,
    *,
    subjects: int,
    samples: int,
    scoring: str = "max",
    fpir: float | None = None,
) -> WorkingPoint:
    """The threshold for a wanted FPIR at a gallery's present size.

    Parameters:
        thresholds: the calibration of model or gallery; None is refused with how to get one.
        subjects, samples: how many the gallery holds now. An empty one counts as one subject.
        scoring: `max`, `mean` or `top-K`, as the gallery scores a subject of several samples.
        fpir: the rate wanted. By default 0.01, or, where the calibration cannot support that at
            this size, the lowest rate that it does support; where it supports none, the
            equal-error threshold. `note` then says so.

    It takes some milliseconds: keep the result for as long as the gallery stays as it is.

    Raises `OptionError` without thresholds or for a rate out of range, and `InputError` for an
    `fpir` that the calibration cannot support, with what would be needed.
    """
    wanted = DEFAULT_FPIR if fpir is None else check_rate("fpir", fpir)
    if thresholds is None:
        raise OptionError(uncalibrated_note())
    size = effective_size(subjects, samples, scoring, thresholds.rates.samples_per_subject)
    lowest, note = thresholds.rates.lowest_fpir(size), ""
    if fpir is None and lowest is None and thresholds.equal_error is not None:
        return WorkingPoint(
            threshold=thresholds.equal_error.threshold,
            fpir=None,
            rough=True,
            note=rough_note(thresholds),
        )
    try:
        found = thresholds.for_fpir(wanted, size)
    except InputError:
        if lowest is None:
            raise
        missing = _missing(thresholds, wanted, size, lowest)
        if fpir is not None:
            raise InputError(f"{missing}: {_way_out(lowest)}") from None
        # As strict as it can be, so that no threshold falls while the gallery grows.
        found = thresholds.rates.strictest(size)
        note = f"{missing}: FPIR {rounded_up(lowest):g} is used, the lowest that it supports"
    if not note and size > thresholds.rates.identities:
        note = (
            f"the threshold is extrapolated from {thresholds.rates.identities:,} identities to a "
            f"gallery of {size:,}"
        )
    return WorkingPoint(
        threshold=found.threshold,
        fpir=found.fpir,
        gallery=size,
        extrapolated=found.extrapolated,
        note=note,
    )


def effective_size(subjects: int, samples: int, scoring: str, samples_per_subject: int) -> int:
    """How many subjects, with so many samples each, accept an unknown probe at least as often.

    With `max` and `top-K` every further sample is a further chance to be taken for someone, so
    samples count; with `mean` they are averaged, and subjects count.

        >>> effective_size(10, 10, "max", 1), effective_size(10, 35, "max", 2)
        (10, 18)
        >>> effective_size(10, 35, "mean", 1), effective_size(10, 10, "max", 5)
        (10, 10)
    """
    subjects = check_count("subjects", subjects, least=0)
    samples = check_count("samples", samples, least=0)
    if scoring == "mean":
        return max(1, subjects)
    return max(1, subjects, math.ceil(samples / samples_per_subject))


def _missing(thresholds: Thresholds, wanted: float, size: int, lowest: float) -> str:
    """How many identities a rate takes, and how many there are.

    A threshold rests on pairs of identities. Their number grows with the square of the number of
    identities, and the share of them that is accepted falls with the rate.
    """
    identities = thresholds.rates.identities
    needed = math.ceil(identities * math.sqrt(lowest / max(wanted, _RAREST)) / 10) * 10
    return (
        f"FPIR {wanted:g} with a gallery of {size:,} takes a calibration on about {needed:,} "
        f"identities, and this one is on {identities:,}"
    )


def _way_out(lowest: float) -> str:
    rate = rounded_up(lowest)
    return f"ask for {rate:g} or more, or calibrate on more" if rate < 1 else "calibrate on more"
