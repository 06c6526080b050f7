"""What a gallery answers when it is asked who somebody is."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arcset.checks import check_count
from arcset.errors import InputError
from arcset.evaluation.calibration import Thresholds
from arcset.files import finite
from arcset.recognition.verification import ABOVE, BELOW, NO_CALIBRATION, NO_FACE
from arcset.recognition.working_point import WorkingPoint

__all__ = ["EMPTY", "RIVALS", "Candidate", "Match", "answer", "chances"]

EMPTY = "empty gallery"

#: How many subjects of highest score a probability is weighed against, listed or not.
RIVALS = 10


@dataclass(frozen=True)
class Candidate:
    """A subject that a probe was compared with.

    Fields:
        subject: its name.
        cosine: its score, under the gallery's scoring.
        probability: the chance that the probe shows this subject, see `chances`; None without a
            calibration.
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
        subject: the name of the subject of highest score if that is ≥ threshold; None: unknown, or
            undecided.
        cosine: that score, whether accepted or not; NaN in an empty gallery.
        probability: of the first candidate; None without a calibration or in an empty gallery.
        threshold: where "known" begins, at the gallery's present size; None without a calibration.
        candidates: the subjects of highest score, falling.
        fpir: the share of unknown probes that the threshold takes for someone; None where it was
            chosen by hand, or promises no rate.
        reason: `above threshold`, `below threshold`, `empty gallery`, `no calibration` or, for a
            photo, `no face`.
        rough: whether the threshold is the equal-error one of too few identities for any rate.

    A match is true where the probe was recognized: `if match: …`.
    """

    subject: str | None
    cosine: float
    probability: float | None
    threshold: float | None
    candidates: tuple[Candidate, ...]
    fpir: float | None
    reason: str
    rough: bool = False

    @property
    def decided(self) -> bool:
        """Whether it is known that the probe shows an enrolled subject, or that it does not."""
        return self.reason in (ABOVE, BELOW, EMPTY)

    @property
    def state(self) -> str:
        """`known`, `unknown`, `undecided` or `no face`."""
        if self.subject is not None:
            return "known"
        if self.reason == NO_FACE:
            return NO_FACE
        return "unknown" if self.decided else "undecided"

    def __bool__(self) -> bool:
        return self.subject is not None

    def __str__(self) -> str:
        if not self.candidates:
            return "unknown: nobody is enrolled"
        limit = "" if self.threshold is None else f", threshold {self.threshold:.4f}"
        if self.fpir is not None:
            limit += f" for FPIR {self.fpir:.3g}"
        limit += " (rough)" * self.rough
        if self.subject is not None:
            return f"{self.subject}: cosine {self.cosine:.4f}{_chance(self.probability)}{limit}"
        return f"{self.state}: nearest is {self.candidates[0]}{limit}"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        candidates = [one.json() for one in self.candidates]
        return dict(finite({**asdict(self), "candidates": candidates, "decided": self.decided}))


def answer(
    names: Sequence[str],
    cosines: Sequence[float],
    *,
    point: WorkingPoint | None,
    thresholds: Thresholds | None,
    subjects: int,
    candidates: int | None = None,
) -> Match:
    """The answer for one probe.

    Parameters:
        names, cosines: the subjects of highest score and their scores, falling: `RIVALS` of them,
            or `candidates` if that is more, or all that there are.
        point: the threshold; None where there is none, so that the answer is undecided.
        thresholds: from a cosine to a probability; None for none.
        subjects: how many the gallery holds.
        candidates: how many to list; by default all that are given.

    Raises `InputError` where names and cosines are not equally many, and `OptionError` where no
    candidate is wanted.

        >>> point = WorkingPoint.by_hand(0.5)
        >>> print(answer(["anna", "ben"], [0.8, 0.2], point=point, thresholds=None, subjects=2))
        anna: cosine 0.8000, threshold 0.5000
        >>> print(answer(["ben"], [0.2], point=point, thresholds=None, subjects=2))
        unknown: nearest is ben (cosine 0.2000), threshold 0.5000
    """
    if len(names) != len(cosines):
        raise InputError(f"{len(names)} names and {len(cosines)} cosines, expected equally many")
    most = len(names) if candidates is None else check_count("candidates", candidates)
    values = [min(1.0, max(-1.0, float(cosine))) for cosine in cosines]  # but for rounding
    sure: Sequence[float | None] = [None] * len(values)
    if thresholds is not None:
        sure = chances(values, thresholds, subjects)
    listed = tuple(
        Candidate(name, cosine, chance)
        for name, cosine, chance in zip(names, values, sure, strict=True)
    )[:most]
    best = listed[0] if listed else Candidate("", math.nan)
    if not listed:
        reason = EMPTY
    elif point is None:
        reason = NO_CALIBRATION
    else:
        reason = ABOVE if best.cosine >= point.threshold else BELOW
    return Match(
        subject=best.subject if reason == ABOVE else None,
        cosine=best.cosine,
        probability=best.probability,
        threshold=None if point is None else point.threshold,
        candidates=listed,
        fpir=None if point is None else point.fpir,
        reason=reason,
        rough=point is not None and point.rough,
    )


def chances(cosines: Sequence[float], thresholds: Thresholds, subjects: int) -> list[float]:
    """For each subject of highest score, the probability that the probe shows it.

    A calibration tells how many times as often a cosine is met between two samples of one identity
    as between those of two: its likelihood ratio, LR. That is for a pair looked at alone. The best
    of N subjects has the highest of N cosines, however unknown the probe, so N has to be weighed:
    if half of the probes show somebody enrolled, each of the N subjects equally often, then

        p_i = (LR_i / N) / (1 + Σ_j LR_j / N).

    Parameters:
        cosines: falling; those of further subjects are taken to be as the last, at most as a
            stranger's on average (LR = 1).
        subjects: N.

    The sum of all is the probability that the probe shows anybody enrolled.
    """
    if not cosines:
        return []
    prior = thresholds.calibration.prior
    odds = [thresholds.probability(cosine) for cosine in cosines]
    ratios = [chance / (1 - chance) * (1 - prior) / prior for chance in odds]
    others = max(0, subjects - len(ratios)) * min(1.0, ratios[-1])
    total = subjects + sum(ratios) + others
    return [ratio / total for ratio in ratios]


def _chance(probability: float | None) -> str:
    return "" if probability is None else f", probability {probability:.2f}"
