"""Thresholds as clients ask for them, and why there may be none."""

from arcset.errors import InputError, OptionError
from arcset.recognition.decisions import WorkingPoint, decide
from arcset.recognition.gallery import Gallery
from arcset.service.errors import RefusalError
from arcset.text import sentence

__all__ = ["check_far", "working_point_or_refusal"]

_LOWEST_RATE = 1e-12  # far below what any number of identities can support
_BOTH = "{} and threshold both say where the limit is: leave one out."
_NO_CALIBRATION = (
    "The model has no calibrated threshold yet: calibrate the gallery, or name a threshold."
)


def working_point_or_refusal(
    gallery: Gallery, fpir: float | None, threshold: float | None = None
) -> WorkingPoint:
    """Where "known" begins.

    Raises `RefusalError`: bad_request for values out of range, no_calibration, or unsupported_rate.
    """
    if fpir is not None and threshold is not None:
        raise RefusalError("bad_request", _BOTH.format("fpir"))
    try:
        if threshold is not None:
            return WorkingPoint.by_hand(threshold)
        if fpir is not None and 0 < fpir < _LOWEST_RATE:
            message = f"No calibration supports FPIR {fpir:g}: ask for a higher one."
            raise RefusalError("unsupported_rate", message)
        if gallery.thresholds is None:
            raise RefusalError("no_calibration", _NO_CALIBRATION)
        return gallery.working_point(fpir)
    except InputError as error:
        raise RefusalError("unsupported_rate", sentence(error)) from None
    except OptionError as error:
        raise RefusalError("bad_request", sentence(error)) from None


def check_far(gallery: Gallery, far: float | None, threshold: float | None) -> None:
    """Raises `RefusalError` where no decision "same or different" can be made, as above."""
    if far is not None and threshold is not None:
        raise RefusalError("bad_request", _BOTH.format("far"))
    thresholds = gallery.thresholds
    if thresholds is None and threshold is None:
        raise RefusalError("no_calibration", _NO_CALIBRATION)
    try:
        decide(0.0, thresholds, far=far, threshold=threshold)
    except InputError as error:
        raise RefusalError("unsupported_rate", sentence(error)) from None
    except OptionError as error:
        raise RefusalError("bad_request", sentence(error)) from None
