"""OpenCV, which finds and turns faces; an extra, so imported where it is needed."""

from typing import Any

from arcset.errors import OptionError

__all__ = ["opencv"]


def opencv() -> Any:
    """The module cv2; raises `OptionError` that says how to install it where it is missing."""
    try:
        import cv2
    except ImportError as error:
        raise OptionError(
            f"faces need OpenCV, which cannot be imported ({error}): pip install 'arcset[faces]'"
        ) from None
    if not hasattr(cv2, "FaceDetectorYN"):
        raise OptionError(
            f"OpenCV {cv2.__version__} has no face detector: pip install 'arcset[faces]'"
        )
    return cv2
