"""Same or different: what a cosine says, at a threshold."""

from dataclasses import dataclass
from typing import Any

from arcset.errors import OptionError
from arcset.evaluation.calibration import FarThreshold, Thresholds

__all__ = ["FAR", "Verification", "decide"]

FAR = 1e-3  # wanted where nobody says otherwise


@dataclass(frozen=True)
class Verification:
    """The answer to "the same or different?".

    Fields:
        same: whether the cosine reaches the threshold.
        cosine: of the two embeddings, in −1 … 1.
        probability: that they are of the same identity, if that was as likely as not before;
            None without a calibration.
        threshold: where "same" begins.
        far: how often fresh different pairs are taken for the same at this threshold; None where
            the threshold was given as a number.
    """

    same: bool
    cosine: float
    probability: float | None
    threshold: float
    far: float | None

    def __str__(self) -> str:
        sure = "" if self.probability is None else f", probability {self.probability:.3f}"
        rate = "" if self.far is None else f" (FAR {self.far:g})"
        return (
            f"{'same' if self.same else 'different'}: cosine {self.cosine:.4f}{sure}, "
            f"threshold {self.threshold:.4f}{rate}"
        )

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return dict(vars(self))


def decide(
    cosine: float,
    thresholds: Thresholds | None,
    *,
    far: float | None = None,
    threshold: float | None = None,
    model: str = "the model",
) -> Verification:
    """Compare a cosine with a threshold: the one given, or that of a FAR (1e-3 if left out).

    Where nobody asked for a FAR and the calibration supports none as low as 1e-3, the lowest that
    it supports is taken. `model` is what messages call the model.

    Raises `OptionError` for both or neither, where there is no calibration, and for values out of
    range; `InputError` for a FAR that the calibration does not support.

        >>> print(decide(0.7, None, threshold=0.5))
        same: cosine 0.7000, threshold 0.5000
    """
    cosine = min(1.0, max(-1.0, float(cosine)))
    probability = None if thresholds is None else float(thresholds.probability(cosine))
    if threshold is not None:
        if far is not None:
            raise OptionError(
                f"far={far!r} and threshold={threshold!r} both say where 'same' begins; leave one "
                "out"
            )
        if isinstance(threshold, bool) or not -1 <= threshold <= 1:
            raise OptionError(f"threshold={threshold!r}, expected a cosine in -1 … 1")
        return Verification(cosine >= threshold, cosine, probability, float(threshold), None)
    if thresholds is None:
        raise OptionError(
            f"{model} has no thresholds, so that nobody knows which cosine means 'same': make them "
            "with `arcset evaluate RUN` on a run with validation identities, or name a threshold"
        )
    found = thresholds.for_far(far) if far is not None else _usual(thresholds)
    return Verification(cosine >= found.threshold, cosine, probability, found.threshold, found.far)


def _usual(thresholds: Thresholds) -> FarThreshold:
    """For the usual FAR, or the lowest above it that the validation identities support."""
    supported = [found for found in thresholds.fars if found.far >= FAR]
    return min(supported, key=lambda found: found.far, default=None) or thresholds.for_far(FAR)
