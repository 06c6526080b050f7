"""What a gallery answers when it is asked who somebody is."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arcset.errors import InputError
from arcset.evaluation.calibration import Thresholds
from arcset.numerics import finite
from arcset.recognition.working_point import WorkingPoint

__all__ = ["Candidate", "Match", "answer"]


@dataclass(frozen=True)
class Candidate:
    """A subject that a probe was compared with.

    Fields:
        subject: its name.
        cosine: its score, under the gallery's scoring.
        probability: the chance that the probe shows this subject; None without a calibration.
    """

    subject: str
    cosine: float
    probability: float | None = None

    def __str__(self) -> str:
        return f"{self.subject} (cosine {self.cosine:.4f}{_chance(self.probability)})"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return dict(finite(asdict(self)))


@dataclass(frozen=True, kw_only=True)
class Match:
    """Who a probe shows, or nobody.

    Fields:
        subject: the name of the subject of highest score if that is ≥ threshold; None: unknown.
        cosine: that score, whether accepted or not; NaN in an empty gallery.
        probability: of the first candidate; None without a calibration or in an empty gallery.
        threshold: where "known" begins, at the gallery's present size.
        candidates: the subjects of highest score, falling.
        fpir: the share of unknown probes that the threshold takes for someone; None where it was
            chosen by hand.

    A match is true where the probe was recognized: `if match: …`.
    """

    subject: str | None
    cosine: float
    probability: float | None
    threshold: float
    candidates: tuple[Candidate, ...]
    fpir: float | None

    def __bool__(self) -> bool:
        return self.subject is not None

    def __str__(self) -> str:
        limit = f"threshold {self.threshold:.4f}"
        if self.fpir is not None:
            limit += f" for FPIR {self.fpir:.3g}"
        if self.subject is not None:
            return f"{self.subject}: cosine {self.cosine:.4f}{_chance(self.probability)}, {limit}"
        if not self.candidates:
            return "unknown: nobody is enrolled"
        return f"unknown: nearest is {self.candidates[0]}, {limit}"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return dict(finite({**asdict(self), "candidates": [c.json() for c in self.candidates]}))


def answer(
    names: Sequence[str],
    cosines: Sequence[float],
    *,
    point: WorkingPoint,
    thresholds: Thresholds | None,
    subjects: int,
) -> Match:
    """The answer for one probe.

    Parameters:
        names, cosines: the subjects of highest score and their scores, falling; at least the first
            where there is any subject at all.
        point: the threshold.
        thresholds: from a cosine to a probability; None for none.
        subjects: how many the gallery holds.

    Raises `InputError` where names and cosines are not equally many.

        >>> point = WorkingPoint.by_hand(0.5)
        >>> print(answer(["anna", "ben"], [0.8, 0.2], point=point, thresholds=None, subjects=2))
        anna: cosine 0.8000, threshold 0.5000
        >>> print(answer(["ben"], [0.2], point=point, thresholds=None, subjects=2))
        unknown: nearest is ben (cosine 0.2000), threshold 0.5000
    """
    if len(names) != len(cosines):
        raise InputError(f"{len(names)} names and {len(cosines)} cosines, expected equally many")
    values = [float(cosine) for cosine in cosines]
    chances = _chances(values, thresholds, subjects)
    candidates = tuple(
        Candidate(name, cosine, chance)
        for name, cosine, chance in zip(names, values, chances, strict=True)
    )
    best = candidates[0] if candidates else None
    known = best is not None and best.cosine >= point.threshold
    return Match(
        subject=best.subject if best is not None and known else None,
        cosine=best.cosine if best is not None else math.nan,
        probability=best.probability if best is not None else None,
        threshold=point.threshold,
        candidates=candidates,
        fpir=point.fpir,
    )


def _chances(
    cosines: list[float], thresholds: Thresholds | None, subjects: int
) -> list[float | None]:
    if thresholds is None:
        return [None] * len(cosines)
    return [thresholds.probability(cosine) for cosine in cosines]


def _chance(probability: float | None) -> str:
    return "" if probability is None else f", probability {probability:.2f}"
