"""One image, looked at once: what kind it is, what it shows as a checksum, and whether it is blank.

Blank is judged per colour channel, with one pixel in a thousand left out of account: an image is
black where the others are all darker than 16 of 255, and plain where they lie within 8 levels.
"""

import hashlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock

import numpy as np
from PIL import Image, ImageOps

from arcset.data.image import exif_orientation, open_image, to_channels

__all__ = ["DIGEST", "Look", "look_at"]

DIGEST = 16  # bytes kept of each SHA-256: no two of 10^15 images would share them by chance

_BLACK, _PLAIN = 16, 8  # grey levels
_STRAY = 0.0005  # share of the pixels at either end that does not count
_LARGE = 1 << 25  # pixels; larger images are decoded one at a time, so that memory stays bounded

_one_large = Lock()


@dataclass(frozen=True)
class Look:
    """What was seen of an image.

    content, pixels: the first 16 bytes of the SHA-256 of the file, and of the upright image in RGB
        with its size, which is the same for a PNG and a BMP of one picture.
    width, height: upright. mode, format: by PIL's names, as RGB and JPEG.
    blank: "black", "plain" (all of one colour), or "" for an image that shows something.
    """

    content: bytes
    pixels: bytes
    width: int
    height: int
    mode: str
    format: str
    blank: str


def look_at(content: bytes, name: str) -> Look:
    """Decode a file's bytes; raises `DataError` that begins with `name` where that is impossible.

    >>> import io
    >>> stream = io.BytesIO()
    >>> Image.new("L", (30, 20), 200).save(stream, "PNG")
    >>> seen = look_at(stream.getvalue(), "grey.png")
    >>> seen.width, seen.height, seen.mode, seen.format, seen.blank
    (30, 20, 'L', 'PNG', 'plain')
    """
    with open_image(content, name) as image, _room(image):
        mode, kind = image.mode, image.format or ""
        image.load()
        upright = image if exif_orientation(image) == 1 else ImageOps.exif_transpose(image)
        colours = to_channels(upright, 3, name)
        digest = hashlib.sha256(b"%d %d " % colours.size)
        digest.update(np.asarray(colours).reshape(-1).data)
        return Look(
            hashlib.sha256(content).digest()[:DIGEST],
            digest.digest()[:DIGEST],
            *colours.size,
            mode,
            kind,
            _blank(colours),
        )


def _room(image: Image.Image) -> AbstractContextManager[object]:
    return _one_large if image.width * image.height > _LARGE else nullcontext()


def _blank(colours: Image.Image) -> str:
    levels = np.reshape(colours.histogram(), (3, 256))
    up_to = np.cumsum(levels, axis=1) / (colours.width * colours.height)  # (3, 256)
    lowest = (up_to > _STRAY).argmax(axis=1)
    highest = (up_to >= 1 - _STRAY).argmax(axis=1)
    if highest.max() < _BLACK:
        return "black"
    return "plain" if (highest - lowest).max() <= _PLAIN else ""
