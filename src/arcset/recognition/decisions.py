"""Decisions on cosines: the same or different; which subject, or an unknown one.

decide(cosine, thresholds)                      → Verification of two images
working_point(thresholds, subjects=…, samples=…) → WorkingPoint, where "known" begins
answer(names, cosines, point=…, …)              → Match of a probe among those enrolled
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcset.checks import check_number, check_rate
from arcset.errors import OptionError
from arcset.evaluation.calibration import FarThreshold, FpirThreshold, Thresholds
from arcset.evaluation.calibration.templates import Scoring
from arcset.evaluation.calibration.thresholds import FRESH, USUAL_FAR, rounded_up
from arcset.evaluation.pairs import round_cosines
from arcset.files import finite
from arcset.recognition.inputs import Published

#: One in a hundred probes of unknown identities is taken for an enrolled subject.
DEFAULT_FPIR = 0.01
#: The highest that is used where nobody asked for one.
HIGHEST_FPIR = 0.1
#: The share of probes that show somebody enrolled, where a probability says so.
ENROLLED_PRIOR = 0.5
#: How many subjects of highest score a probability is weighed against, listed or not.
RIVALS = 10

_ROUNDS = 8  # in which a threshold and the size that it is for come to agree

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
        probability: that both show one identity; None without a calibration.
        threshold: "same" from this cosine on; None without a calibration.
        far: the false accept rate of that threshold among fresh pairs; None where the threshold
            was given as a number, or promises no rate.
        reason: `above threshold`, `below threshold`, `no calibration` or `no face`.
        rough: whether that rate is from fewer identities than can show it, or there is none.
        expected: the 95 % range of the rate that 1000 fresh identities will show; None without one.
        published: where the threshold stands, if it is its makers' and was not measured here.
        prior: the share of genuine pairs at which the probability holds; None without one.
        note: a sentence where something is not as people may expect, as "the same" where that is
            less likely than not; else empty.

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
    expected: tuple[float, float] | None = None
    prior: float | None = None

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
        sure = _probability(self)
        limit = "" if self.threshold is None else f", threshold {self.threshold:.4f}"
        rate = "" if self.far is None else f" for FAR {self.far:.2g}"
        return f"{answer}: cosine {self.cosine:.4f}{sure}{limit}{rate}{_roughness(self, self.far)}"

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

    Without a FAR, and where 1e-3 cannot be pinned down by the identities of the calibration, the
    lowest that can is taken; where none can, the equal-error threshold. Without a calibration and a
    threshold the answer is undecided. `model` is what messages call the model.

    `published`, the threshold of the network's makers, stands in for a calibration, but for no FAR.

    Raises `OptionError` for both a FAR and a threshold, for a FAR without a calibration, and for
    values out of range.

        >>> print(decide(0.7, None, threshold=0.5))
        same: cosine 0.7000, threshold 0.5000
        >>> print(decide(0.7, None))
        undecided: cosine 0.7000
    """
    cosine = float(round_cosines(cosine))
    if thresholds is None and threshold is None and (far is not None or published is None):
        note = uncalibrated_note(model)
        if far is not None:
            raise OptionError(f"far={far!r}: {note}")
        return Verification(None, cosine, None, None, None, NO_CALIBRATION, note=note)
    point = _pair_point(thresholds, far, threshold, published)
    same = cosine >= point.threshold
    probability = None if thresholds is None else float(thresholds.probability(cosine))
    return Verification(
        same=same,
        cosine=cosine,
        probability=probability,
        threshold=point.threshold,
        far=point.rate,
        reason=ABOVE if same else BELOW,
        rough=point.rough,
        note="; ".join(filter(None, (point.note, _doubt(same, probability)))),
        published=point.published,
        expected=point.expected,
        prior=None if thresholds is None else thresholds.calibration.prior,
    )


class _Point(NamedTuple):
    """A threshold, and what is known of its rate."""

    threshold: float
    rate: float | None = None
    rough: bool = False
    expected: tuple[float, float] | None = None
    note: str = ""
    published: str | None = None


def _pair_point(
    thresholds: Thresholds | None,
    far: float | None,
    threshold: float | None,
    published: Published | None = None,
) -> _Point:
    if threshold is not None:
        if far is not None:
            raise OptionError(
                f"far={far!r} and threshold={threshold!r} both say where 'same' begins; leave one "
                "out"
            )
        return _Point(check_number("threshold", threshold, -1, 1, closed="both"))
    if thresholds is None:
        assert published is not None
        note = published_note(published)
        return _Point(published.threshold, note=note, published=published.source)
    if far is None and thresholds.equal_error is not None:
        return _equal_error_point(thresholds)
    chosen = thresholds.usual() if far is None else thresholds.for_far(far)
    wanted, note = USUAL_FAR if far is None else far, ""
    if not chosen.pinned or chosen.far > wanted:
        note = _unpinned_note(thresholds, f"FAR {wanted:g}", thresholds.rates.lowest_far)
        note += ", and is used" if chosen.far != wanted else ""
    return _known_point(chosen, chosen.far, thresholds, note)


def _known_point(
    chosen: FarThreshold | FpirThreshold, rate: float | None, thresholds: Thresholds, note: str
) -> _Point:
    """A threshold with the rate that it was made for, and how rough that is."""
    if thresholds.in_training:
        return _Point(chosen.threshold, rate, True, None, in_training_note(thresholds))
    low, high = chosen.expect(FRESH)
    if chosen.rough and not note:
        note = f"the rate is rough: {thresholds.origin} are few for it"
    return _Point(chosen.threshold, rate, chosen.rough, (low, high), note)


def _equal_error_point(thresholds: Thresholds) -> _Point:
    """For identities of which no rate can be pinned down, or that the model was trained on."""
    assert thresholds.equal_error is not None
    if thresholds.in_training:
        limit = thresholds.equal_error.threshold
        return _Point(limit, rough=True, note=in_training_note(thresholds))
    usual = thresholds.usual()
    rate = usual.far if usual.pinned else None
    return _known_point(usual, rate, thresholds, rough_note(thresholds))._replace(rough=True)


def _unpinned_note(thresholds: Thresholds, rate: str, lowest: float | None) -> str:
    least = rounded_up(lowest or 1.0)
    best = f"{least:g} is the lowest that can" if least < 1 else "none can"
    return f"{rate} cannot be pinned down by {thresholds.origin}: {best}"


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
    if thresholds.in_training:
        return in_training_note(thresholds)
    return (
        f"the threshold is rough: it is the equal-error threshold of {thresholds.origin}, which "
        "cannot pin down a low rate; calibrate on more identities"
    )


def in_training_note(thresholds: Thresholds) -> str:
    """Why a threshold from training identities promises nothing."""
    return (
        f"the threshold is rough: it is from {thresholds.origin}, which the model was trained on "
        "and tells apart better than others; calibrate on identities that it has not seen"
    )


def threshold_words(thresholds: Thresholds) -> str:
    """The threshold that `arcset verify` takes where none is asked for, and where it comes from."""
    point = _pair_point(thresholds, None, None)
    rate = "" if point.rate is None else f" for a FAR of {point.rate:.2g}"
    return f"{point.threshold:.4f}{rate}{_roughness(point, point.rate)}, from {thresholds.origin}"


def as_range(ends: Sequence[float] | None) -> tuple[float, float] | None:
    """Of what JSON makes of a range."""
    return None if ends is None else (ends[0], ends[1])


def _roughness(point: "_Point | WorkingPoint | Match | Verification", rate: float | None) -> str:
    """How rough a rate is: " (rough: 0.002 to 0.05 expected)"; empty where it is not."""
    if point.published:
        return " (published)"
    if not point.rough:
        return ""
    if point.expected is None:
        return " (rough)"
    low, high = point.expected
    what = "a rate of " if rate is None else ""
    return f" (rough: {what}{low:.2g} to {high:.2g} expected)"


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
        rough: whether that rate is from fewer identities than can show it, or there is none.
        expected: the 95 % range of the rate that 1000 unknown people will show; None without one.
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
    expected: tuple[float, float] | None = None

    @classmethod
    def by_hand(cls, threshold: float) -> "WorkingPoint":
        """A threshold that the user chose; raises `OptionError` unless it lies in [−1, 1]."""
        checked = check_number("threshold", threshold, -1, 1, closed="both")
        return cls(threshold=checked, fpir=None)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "WorkingPoint":
        """What `json` gave."""
        known = {name: fields[name] for name in cls.__dataclass_fields__}
        return cls(**known | {"expected": as_range(fields["expected"])})

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
            f"{self.gallery:,}{mark}{_roughness(self, self.fpir)}"
        )


def working_point(
    thresholds: Thresholds | None,
    *,
    subjects: int,
    samples: int,
    scoring: str = "max",
    images: Mapping[int, int] | None = None,
    fpir: float | None = None,
) -> WorkingPoint:
    """The threshold for a wanted FPIR at a gallery's present size.

    Parameters:
        thresholds: the calibration of model or gallery; None is refused with how to get one.
        subjects, samples: how many the gallery holds now. An empty one counts as one subject.
        scoring: `max`, `mean` or `top-K`, as the gallery scores a subject of several samples.
        images: how many subjects have so many samples; by default all have as many.
        fpir: the rate wanted. By default 0.01, or, where that cannot be pinned down at this size,
            the lowest rate that can, if that is at most 0.1; else 0.1 all the same. `note` then
            says so. Of training identities it is the equal-error threshold.

    It takes some milliseconds: keep the result for as long as the gallery stays as it is.

    Raises `OptionError` without thresholds or for a rate out of range.
    """
    wanted = DEFAULT_FPIR if fpir is None else check_rate("fpir", fpir)
    if thresholds is None:
        raise OptionError(uncalibrated_note())
    parts = split_gallery(thresholds, subjects, samples, scoring, images)
    thresholds, size = effective_size(parts, wanted)
    if fpir is None and thresholds.in_training:
        point = _equal_error_point(thresholds)
        return WorkingPoint(threshold=point.threshold, fpir=None, rough=True, note=point.note)
    chosen, note = thresholds.for_fpir(wanted, size), ""
    if not chosen.pinned or chosen.fpir > wanted:
        lowest = thresholds.rates.lowest_fpir(size)
        note = _unpinned_note(thresholds, f"FPIR {wanted:g} with a gallery of {size:,}", lowest)
        if fpir is None:
            # Neither rounded nor looser than it must be, so that no threshold falls while the
            # gallery grows.
            chosen = thresholds.for_fpir(min(lowest or 1.0, HIGHEST_FPIR), size)
            note += f"; FPIR {chosen.fpir:.2g} is used"
    elif size > thresholds.rates.identities:
        note = (
            f"the threshold is extrapolated from {thresholds.rates.identities:,} identities to a "
            f"gallery of {size:,}"
        )
    point = _known_point(chosen, chosen.fpir, thresholds, note)
    return WorkingPoint(
        threshold=point.threshold,
        fpir=point.rate,
        gallery=size,
        extrapolated=chosen.extrapolated,
        rough=point.rough,
        note=point.note,
        expected=point.expected,
    )


def split_gallery(
    thresholds: Thresholds,
    subjects: int,
    samples: int,
    scoring: str,
    images: Mapping[int, int] | None = None,
) -> list[tuple[Thresholds, float]]:
    """The thresholds that fit subjects of so many samples, and how many subjects they stand for.

    Those with the fewest samples come first. A subject with more samples than the sets that the
    thresholds were made from counts as several: with `max` every further sample is one more chance
    to be taken for someone. The mean of the best K of n samples gains a bit more, as it chooses
    among more sets: (n/m)^(1 + (K − 1)/m) times, of m images, was on the safe side in trials. The
    mean of all strays less, and counts once.
    """
    sizes: dict[int, tuple[Thresholds, float]] = {}
    best = Scoring.of(scoring).best
    counts: Mapping[Any, int] = images or {samples / max(1, subjects): subjects}
    for count, number in sorted(counts.items()):
        fitting = thresholds.for_template(scoring, count)
        made_for = fitting.rates.samples_per_subject
        more = max(1.0, count / made_for)
        power = 0 if best is None else 1 + (min(best, made_for) - 1) / made_for
        before = sizes.get(id(fitting.rates), (fitting, 0.0))
        sizes[id(fitting.rates)] = before[0], before[1] + number * more**power
    return list(sizes.values())


def effective_size(
    parts: Sequence[tuple[Thresholds, float]], fpir: float
) -> tuple[Thresholds, int]:
    """The thresholds for the first of the `parts`, and how many subjects like those accept an
    unknown probe as often as all do together, where the rate is `fpir`.
    """
    thresholds, size = parts[0]
    if len(parts) > 1:
        size = sum(number for _, number in parts)
        loosest = max(one.rates.thresholds[-len(one.rates.curves)] for one, _ in parts)
        for _ in range(_ROUNDS):
            limit = np.array([max(loosest, thresholds.for_fpir(fpir, math.ceil(size)).threshold)])
            rates = [float(one.rates.fpirs_at(limit, 1)[0]) for one, _ in parts]
            sizes = (number * rate for (_, number), rate in zip(parts, rates, strict=True))
            size = sum(sizes) / rates[0]
    return thresholds, max(1, math.ceil(size - 1e-9))


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
        sure = "" if self.probability is None else f", probability {self.probability:.3f}"
        return f"{self.subject} (cosine {self.cosine:.4f}{sure})"


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
        rough: whether that rate is from fewer identities than can show it, or there is none.
        expected: the 95 % range of the rate that 1000 unknown people will show; None without one.
        published: where the threshold stands, if it is its makers' and was not measured here.
        box: of the face in its photo: left, top, width, height in pixels; None for a whole image.
        faces: how many faces the photo shows; None for a whole image.
        subjects, prior: how many are enrolled, and the share of probes that show one of them: for
            these the probabilities hold. The prior is None without a calibration.
        note: a sentence where the subject is less likely than not; else empty.

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
    expected: tuple[float, float] | None = None
    subjects: int = 0
    prior: float | None = None
    note: str = ""

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
        limit += _roughness(self, self.fpir)
        score = f"cosine {self.cosine:.4f}{_probability(self)}"
        if self.subject is not None:
            return f"{self.subject}: {score}{limit}"
        return f"{self.state}: nearest is {self.candidates[0].subject} ({score}){limit}"

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
        expected=None if point is None else point.expected,
        subjects=subjects,
        prior=None if thresholds is None else ENROLLED_PRIOR,
        note=_doubt(reason == ABOVE, best.probability),
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


def _probability(answer: Verification | Match) -> str:
    if answer.probability is None:
        return ""
    among = f" among {answer.subjects:,}" if isinstance(answer, Match) else ""
    doubt = " (more likely wrong than right)" if _doubt(bool(answer), answer.probability) else ""
    return f", probability {answer.probability:.3f}{among} at prior {answer.prior:g}{doubt}"


def _doubt(accepted: bool, probability: float | None) -> str:
    """A sentence about an answer that is less likely than not; else empty."""
    if not accepted or probability is None or probability >= 0.5:
        return ""
    return "the threshold accepts this, but by its probability it is more likely wrong than right"
