"""Decisions on cosines: the same or different; which subject, or an unknown one.

decide(cosine, thresholds)                      → Verification of two images
working_point(thresholds, subjects=…, samples=…) → WorkingPoint, where "known" begins
answer(names, cosines, point=…, …)              → Match of a probe among those enrolled
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.checks import check_number, check_rate
from arcset.errors import InputError, OptionError
from arcset.evaluation.calibration import FarThreshold, Thresholds
from arcset.evaluation.calibration.thresholds import rounded_up
from arcset.evaluation.pairs import round_cosines
from arcset.files import finite
from arcset.recognition.inputs import Published

#: One in a thousand pairs of different identities is taken for the same.
DEFAULT_FAR = 1e-3
#: One in a hundred probes of unknown identities is taken for an enrolled subject.
DEFAULT_FPIR = 0.01
#: How many subjects of highest score a probability is weighed against, listed or not.
RIVALS = 10

# Reasons for an answer, or for there being none.
ABOVE = "above threshold"
BELOW = "below threshold"
EMPTY = "empty gallery"
NO_CALIBRATION = "no calibration"
NO_FACE = "no face"


class Plain:
    """A dataclass whose fields are plain values, or such dataclasses."""

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them, NaN as None."""
        return dict(finite(asdict(self)))  # type: ignore[call-overload]


@dataclass(frozen=True)
class Verification(Plain):
    """The answer to "the same or different?".

    Fields:
        same: whether the cosine reaches the threshold; None: undecided.
        cosine: of the two embeddings, in −1 … 1; None where there is no face to compare.
        probability: that both show one identity, at even prior odds; None without a calibration.
        threshold: "same" from this cosine on; None without a calibration.
        far: the false accept rate of that threshold among fresh pairs; None where the threshold
            was given as a number, or promises no rate.
        reason: `above threshold`, `below threshold`, `no calibration` or `no face`.
        rough: whether it is the equal-error threshold of too few identities for any rate.
        published: where the threshold stands, if it is its makers' and was not measured here.
        note: a sentence where something is not as people may expect; else empty.

    An answer is true where it is "the same": `if verification: …`.
    """

    same: bool | None
    cosine: float | None
    probability: float | None
    threshold: float | None
    far: float | None
    reason: str
    rough: bool = False
    published: str | None = None
    note: str = ""

    @property
    def decided(self) -> bool:
        """Whether it is "same" or "different"."""
        return self.same is not None

    def __bool__(self) -> bool:
        return bool(self.same)

    def __str__(self) -> str:
        answer = {True: "same", False: "different", None: "undecided"}[self.same]
        if self.cosine is None:
            return f"{answer}: {self.reason}"
        sure = "" if self.probability is None else f", probability {self.probability:.3f}"
        limit = "" if self.threshold is None else f", threshold {self.threshold:.4f}"
        rate = "" if self.far is None else f" (FAR {self.far:.3g})"
        return f"{answer}: cosine {self.cosine:.4f}{sure}{limit}{rate}{_mark(self)}"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them, and whether it is decided."""
        return {**super().json(), "decided": self.decided}


def decide(
    cosine: float,
    thresholds: Thresholds | None,
    *,
    far: float | None = None,
    threshold: float | None = None,
    model: str = "",
    published: Published | None = None,
) -> Verification:
    """Compare a cosine with a threshold: the one given, or that of a FAR (1e-3 if left out).

    Without a FAR, and where the calibration supports none as low as 1e-3, the lowest that it
    supports is taken; where it supports none at all, the equal-error threshold, and the answer is
    `rough`. Without a calibration and a threshold the answer is undecided. `model` is what messages
    call the model.

    `published`, the threshold of the network's makers, stands in for a calibration, but for no FAR.

    Raises `OptionError` for both a FAR and a threshold, for a FAR without a calibration, and for
    values out of range; `InputError` for a FAR that the calibration does not support.

        >>> print(decide(0.7, None, threshold=0.5))
        same: cosine 0.7000, threshold 0.5000
        >>> print(decide(0.7, None))
        undecided: cosine 0.7000
    """
    cosine = float(round_cosines(cosine))
    probability = None if thresholds is None else float(thresholds.probability(cosine))
    rate, rough, source, note = None, False, None, ""
    if threshold is not None:
        if far is not None:
            raise OptionError(
                f"far={far!r} and threshold={threshold!r} both say where 'same' begins; leave one "
                "out"
            )
        threshold = check_number("threshold", threshold, -1, 1, closed="both")
        limit = threshold
    elif thresholds is None and published is not None and far is None:
        limit, source, note = published.threshold, published.source, published_note(published)
    elif thresholds is None:
        note = uncalibrated_note(model)
        if far is not None:
            raise OptionError(f"far={far!r}: {note}")
        return Verification(None, cosine, None, None, None, NO_CALIBRATION, note=note)
    elif thresholds.rough and thresholds.equal_error is not None and far is None:
        limit, rough = thresholds.equal_error.threshold, True
        note = rough_note(thresholds)
    else:
        chosen = thresholds.for_far(far) if far is not None else _lowest(thresholds)
        limit, rate = chosen.threshold, chosen.far
        if far is None and rate > DEFAULT_FAR:
            note = f"{thresholds.origin} support no FAR below {rate:.2g}, which is used"
    same = cosine >= limit
    reason = ABOVE if same else BELOW
    return Verification(same, cosine, probability, limit, rate, reason, rough, source, note)


def uncalibrated_note(model: str = "", gallery: object = None) -> str:
    """That there is no threshold, and how to get one."""
    where = "" if gallery is None else f", or `arcset gallery calibrate {gallery} FOLDER`"
    return (
        f"the model{f' {model!r}' if model else ''} has no calibrated threshold yet: run `arcset "
        f"calibrate MODEL FOLDER`{where}; or name a threshold"
    )


def published_note(published: Published, *, for_gallery: bool = False) -> str:
    """That a threshold is somebody else's, and how to get one's own."""
    unaware = ", and it does not know the gallery's size" * for_gallery
    verb = "gallery calibrate GALLERY" if for_gallery else "calibrate MODEL"
    return (
        f"the threshold {published.threshold:g} is published ({published.source}), not measured "
        f"here{unaware}: `arcset {verb} FOLDER` makes one of your own"
    )


def rough_note(thresholds: Thresholds) -> str:
    """Why a threshold is rough, and what would make it better."""
    return (
        f"the threshold is rough: it is the equal-error threshold of {thresholds.origin}, which "
        "promise no rate for others; calibrate on more identities"
    )


def _lowest(thresholds: Thresholds) -> FarThreshold:
    """For the usual FAR, or the lowest above it that the validation identities support."""
    lowest = thresholds.rates.lowest_far
    known = [entry.far for entry in thresholds.fars if entry.far >= DEFAULT_FAR]
    supported = [*known, max(DEFAULT_FAR, lowest or 0.0)]
    return thresholds.for_far(min(supported))


def threshold_words(thresholds: Thresholds) -> str:
    """The threshold that `arcset verify` takes where none is asked for, and where it comes from."""
    used = decide(1.0, thresholds)
    if used.rough or used.far is None:
        return f"{used.threshold:.4f}, rough: the equal-error threshold of {thresholds.origin}"
    return f"{used.threshold:.4f} for a FAR of {used.far:.3g}, from {thresholds.origin}"


@dataclass(frozen=True, kw_only=True)
class WorkingPoint(Plain):
    """Where "known" begins in a gallery as it is now: it moves as subjects come and go.

    Fields:
        threshold: a probe is taken for the subject of highest score if that score is ≥ threshold.
        fpir: the share of unknown probes that will be taken for someone; None where the threshold
            was chosen by hand, or promises no rate.
        gallery: the size that the threshold is for: subjects, each with as many samples as the
            calibration assumed. None where it does not depend on the size.
        extrapolated: whether that is more than the calibration could try.
        rough: whether it is the equal-error threshold of too few identities for any rate.
        published: where the threshold stands, if it is its makers' and was not measured here.
        note: a sentence for people where something is not as they may expect; else empty.
    """

    threshold: float
    fpir: float | None
    gallery: int | None = None
    extrapolated: bool = False
    rough: bool = False
    published: str | None = None
    note: str = ""

    @classmethod
    def by_hand(cls, threshold: float) -> "WorkingPoint":
        """A threshold that the user chose; raises `OptionError` unless it lies in [−1, 1]."""
        checked = check_number("threshold", threshold, -1, 1, closed="both")
        return cls(threshold=checked, fpir=None)

    @classmethod
    def of_published(cls, published: Published) -> "WorkingPoint":
        """The threshold of the network's makers, which is the same for every size."""
        note = published_note(published, for_gallery=True)
        return cls(threshold=published.threshold, fpir=None, published=published.source, note=note)

    def __str__(self) -> str:
        if self.fpir is None:
            word = "published" if self.published else "rough" if self.rough else "chosen by hand"
            return f"threshold {self.threshold:.4f}, {word}"
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
        chosen = thresholds.for_fpir(wanted, size)
    except InputError:
        if lowest is None:
            raise
        missing = _missing(thresholds, wanted, size, lowest)
        rate = rounded_up(lowest)
        if fpir is not None:
            offer = f"ask for {rate:g} or more, or " if rate < 1 else ""
            raise InputError(f"{missing}: {offer}calibrate on more") from None
        # As strict as it can be, so that no threshold falls while the gallery grows.
        chosen = thresholds.rates.strictest(size)
        note = f"{missing}: FPIR {rate:g} is used, the lowest that it supports"
    if not note and size > thresholds.rates.identities:
        note = (
            f"the threshold is extrapolated from {thresholds.rates.identities:,} identities to a "
            f"gallery of {size:,}"
        )
    return WorkingPoint(
        threshold=chosen.threshold,
        fpir=chosen.fpir,
        gallery=size,
        extrapolated=chosen.extrapolated,
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
    if scoring == "mean":
        return max(1, subjects)
    return max(1, subjects, math.ceil(samples / samples_per_subject))


def _missing(thresholds: Thresholds, wanted: float, size: int, lowest: float) -> str:
    """How many identities a rate takes, and how many there are.

    A threshold rests on pairs of identities. Their number grows with the square of the number of
    identities, and the share of them that is accepted falls with the rate.
    """
    identities = thresholds.rates.identities
    needed = math.ceil(identities * math.sqrt(lowest / max(wanted, 1e-30)) / 10) * 10
    return (
        f"FPIR {wanted:g} with a gallery of {size:,} needs a calibration on about {needed:,} "
        f"identities, and this one is on {identities:,}"
    )


@dataclass(frozen=True)
class Candidate(Plain):
    """A subject that a probe was compared with.

    Fields:
        subject: its name.
        cosine: its score, under the gallery's scoring.
        probability: that the probe shows this subject, see `subject_probabilities`; None without
            a calibration.
    """

    subject: str
    cosine: float
    probability: float | None = None

    def __str__(self) -> str:
        return f"{self.subject} (cosine {self.cosine:.4f}{_probability(self.probability)})"


@dataclass(frozen=True, kw_only=True)
class Match(Plain):
    """Which subject a probe shows, or that it is unknown.

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
        published: where the threshold stands, if it is its makers' and was not measured here.
        box: of the face in its photo: left, top, width, height in pixels; None for a whole image.
        faces: how many faces the photo shows; None for a whole image.

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
    published: str | None = None
    box: tuple[float, float, float, float] | None = None
    faces: int | None = None

    @classmethod
    def without_face(cls, point: WorkingPoint | None) -> "Match":
        """The answer to a photo that shows no face."""
        nobody = answer([], [], point=point, thresholds=None, subjects=0)
        return replace(nobody, reason=NO_FACE, faces=0)

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
            return NO_FACE if self.reason == NO_FACE else "unknown: nobody is enrolled"
        limit = "" if self.threshold is None else f", threshold {self.threshold:.4f}"
        if self.fpir is not None:
            limit += f" for FPIR {self.fpir:.3g}"
        limit += _mark(self)
        if self.subject is not None:
            return (
                f"{self.subject}: cosine {self.cosine:.4f}{_probability(self.probability)}{limit}"
            )
        return f"{self.state}: nearest is {self.candidates[0]}{limit}"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them; `box` and `faces` only where faces were looked for."""
        content = {**super().json(), "decided": self.decided}
        if self.faces is None:
            del content["box"], content["faces"]
        return content


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
        point: the threshold; None leaves the answer undecided.
        thresholds: from a cosine to a probability; None for none.
        subjects: how many the gallery holds.
        candidates: how many to list; by default all that are given.

        >>> point = WorkingPoint.by_hand(0.5)
        >>> print(answer(["anna", "ben"], [0.8, 0.2], point=point, thresholds=None, subjects=2))
        anna: cosine 0.8000, threshold 0.5000
        >>> print(answer(["ben"], [0.2], point=point, thresholds=None, subjects=2))
        unknown: nearest is ben (cosine 0.2000), threshold 0.5000
    """
    values = [min(1.0, max(-1.0, float(cosine))) for cosine in cosines]  # but for rounding
    probabilities: Sequence[float | None] = [None] * len(values)
    if thresholds is not None:
        probabilities = subject_probabilities(values, thresholds, subjects)
    listed = tuple(map(Candidate, names, values, probabilities))[:candidates]
    if not listed:
        reason = EMPTY
    elif point is None:
        reason = NO_CALIBRATION
    else:
        reason = ABOVE if listed[0].cosine >= point.threshold else BELOW
    best = listed[0] if listed else Candidate("", math.nan)
    return Match(
        subject=best.subject if reason == ABOVE else None,
        cosine=best.cosine,
        probability=best.probability,
        threshold=None if point is None else point.threshold,
        candidates=listed,
        fpir=None if point is None else point.fpir,
        reason=reason,
        rough=point is not None and point.rough,
        published=None if point is None else point.published,
    )


def subject_probabilities(
    cosines: Sequence[float], thresholds: Thresholds, subjects: int
) -> list[float]:
    """For each subject of highest score, the probability that the probe shows it.

    A calibration tells how many times as often a cosine is met between two samples of one identity
    as between those of two: its likelihood ratio, LR. That is for a pair looked at alone. The best
    of N subjects has the highest of N cosines, however unknown the probe, so N has to be weighed:
    if half of the probes show somebody enrolled, each of the N subjects equally often, then

        p_i = (LR_i / N) / (1 + Σ_j LR_j / N).

    cosines: falling; those of further subjects are taken to be as the last, at most as a
    stranger's on average (LR = 1). subjects: N. The sum of all is the probability that the probe
    shows anybody enrolled.
    """
    if not cosines:
        return []
    ratios = likelihood_ratios(thresholds, np.array(cosines))
    others = max(0, subjects - len(ratios)) * min(1.0, float(ratios[-1]))
    chances: list[float] = (ratios / (subjects + ratios.sum() + others)).tolist()
    return chances


def likelihood_ratios(
    thresholds: Thresholds, cosines: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """How much likelier cosines are between samples of one identity than between those of two."""
    chance, prior = thresholds.probability(cosines), thresholds.calibration.prior
    ratios: npt.NDArray[np.float64] = chance / (1 - chance) * (1 - prior) / prior
    return ratios


def _mark(answer: Verification | Match) -> str:
    return " (published)" if answer.published else " (rough)" * answer.rough


def _probability(probability: float | None) -> str:
    return "" if probability is None else f", probability {probability:.2f}"
