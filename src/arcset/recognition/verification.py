"""Same or different: what a cosine says, at a threshold."""

from dataclasses import dataclass
from typing import Any

from arcset.checks import check_number
from arcset.errors import OptionError
from arcset.evaluation.calibration import FarThreshold, Thresholds
from arcset.evaluation.pairs import round_cosines

__all__ = [
    "ABOVE",
    "BELOW",
    "FAR",
    "NO_CALIBRATION",
    "NO_FACE",
    "Verification",
    "decide",
    "rough_note",
    "threshold_words",
    "uncalibrated_note",
]

FAR = 1e-3  # wanted where the caller does not say otherwise

# Reasons for an answer, or for there being none.
ABOVE = "above threshold"
BELOW = "below threshold"
NO_CALIBRATION = "no calibration"
NO_FACE = "no face"


@dataclass(frozen=True)
class Verification:
    """The answer to "the same or different?".

    Fields:
        same: whether the cosine reaches the threshold; None where that is undecided.
        cosine: of the two embeddings, in −1 … 1; None where there is no face to compare.
        probability: that they are of the same identity, if that was as likely as not before;
            None without a calibration.
        threshold: where "same" begins; None without a calibration.
        far: how often fresh different pairs are taken for the same at this threshold; None where
            the threshold was given as a number, or promises no rate.
        reason: `above threshold`, `below threshold`, `no calibration` or `no face`.
        rough: whether the threshold is the equal-error one of too few identities for any rate.
        note: a sentence for people where something is not as they may expect; else empty.

    An answer is true where it is "the same": `if verification: …`.
    """

    same: bool | None
    cosine: float | None
    probability: float | None
    threshold: float | None
    far: float | None
    reason: str
    rough: bool = False
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
        return f"{answer}: cosine {self.cosine:.4f}{sure}{limit}{rate}{' (rough)' * self.rough}"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**vars(self), "decided": self.decided}


def decide(
    cosine: float,
    thresholds: Thresholds | None,
    *,
    far: float | None = None,
    threshold: float | None = None,
    model: str = "",
) -> Verification:
    """Compare a cosine with a threshold: the one given, or that of a FAR (1e-3 if left out).

    Without a FAR, and where the calibration supports none as low as 1e-3, the lowest that it
    supports is taken; where it supports none at all, the equal-error threshold, and the answer is
    `rough`. Without a calibration and a threshold the answer is undecided. `model` is what messages
    call the model.

    Raises `OptionError` for both a FAR and a threshold, for a FAR without a calibration, and for
    values out of range; `InputError` for a FAR that the calibration does not support.

        >>> print(decide(0.7, None, threshold=0.5))
        same: cosine 0.7000, threshold 0.5000
        >>> print(decide(0.7, None))
        undecided: cosine 0.7000
    """
    cosine = float(round_cosines(cosine))
    probability = None if thresholds is None else float(thresholds.probability(cosine))
    rate, rough, note = None, False, ""
    if threshold is not None:
        if far is not None:
            raise OptionError(
                f"far={far!r} and threshold={threshold!r} both say where 'same' begins; leave one "
                "out"
            )
        threshold = check_number("threshold", threshold, -1, 1, closed="both")
        limit = threshold
    elif thresholds is None:
        note = uncalibrated_note(model)
        if far is not None:
            raise OptionError(f"far={far!r}: {note}")
        return Verification(None, cosine, None, None, None, NO_CALIBRATION, note=note)
    elif thresholds.rough and thresholds.equal_error is not None and far is None:
        limit, rough = thresholds.equal_error.threshold, True
        note = rough_note(thresholds)
    else:
        found = thresholds.for_far(far) if far is not None else _lowest(thresholds)
        limit, rate = found.threshold, found.far
        if far is None and rate > FAR:
            note = f"{thresholds.origin} support no FAR below {rate:.2g}, which is used"
    same = cosine >= limit
    reason = ABOVE if same else BELOW
    return Verification(same, cosine, probability, limit, rate, reason, rough, note)


def uncalibrated_note(model: str = "", gallery: object = "GALLERY") -> str:
    """That there is no threshold, and how to get one."""
    return (
        f"the model{f' {model!r}' if model else ''} has no calibrated threshold yet: `arcset "
        f"evaluate RUN` makes one for a run, `arcset gallery calibrate {gallery} FOLDER` for a "
        "gallery; or name a threshold"
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
    known = [found.far for found in thresholds.fars if found.far >= FAR]
    supported = [*known, FAR if lowest is None else max(FAR, lowest)]
    return thresholds.for_far(min(supported))


def threshold_words(thresholds: Thresholds) -> str:
    """The threshold that `arcset verify` takes where none is asked for, and where it comes from."""
    used = decide(1.0, thresholds)
    if used.rough or used.far is None:
        return f"{used.threshold:.4f}, rough: the equal-error threshold of {thresholds.origin}"
    return f"{used.threshold:.4f} for a FAR of {used.far:.3g}, from {thresholds.origin}"
