"""Photos as they are: upright, in colour, at their full size."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.data.image import (
    open_image,
    read_file,
    to_channels,
    turn_upright,
)
from arcset.errors import InputError
from arcset.recognition.inputs import SourceImage

__all__ = ["Pixels", "called", "read_photo"]

Pixels = npt.NDArray[np.uint8]


def read_photo(source: Any, name: str = "") -> Pixels:
    """One photo as uint8 RGB (H, W, 3), of the size that it has, turned upright by its EXIF.

    source: a file, the content of one, a PIL image, or an array of uint8: (H, W) or (H, W, C) with
        1, 3 or 4 channels. `to_channels` says what becomes of grey and transparency.
    name: what messages call it; the path if left out.
    Raises `DataError` that names a file that is missing, cut off, too large or no image, and
    `InputError` for anything else.

        >>> read_photo(np.zeros((4, 6), np.uint8)).shape
        (4, 6, 3)
    """
    name = called(source, name)
    if isinstance(source, SourceImage):
        source = source.content()
    if isinstance(source, str | Path):
        source = read_file(source, name)
    elif not isinstance(source, bytes | Image.Image | np.ndarray):
        raise InputError(
            f"a photo is a path, a PIL image, bytes or a uint8 array, not {type(source).__name__}"
        )
    with open_image(source, name) as image:
        return np.asarray(to_channels(turn_upright(image), 3, name))


def called(source: Any, name: str = "") -> str:
    """What messages call a photo: the name given, its path, or "the photo"."""
    return name or (str(source) if isinstance(source, str | Path | SourceImage) else "the photo")
