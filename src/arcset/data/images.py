"""Reading single images whose format and size are known beforehand, from bytes that may be bad."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.errors import DataError

__all__ = ["decode_image", "read_image"]

_MOST_BYTES = 1 << 22  # of a file: far more than any image here, far less than would hurt

# What PIL raises for damaged content, found by damaging files in every place; the warning, about
# sizes that are large and not yet absurd, is raised where warnings are errors.
_DAMAGED = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)


def decode_image(
    content: bytes, *, kind: str, mode: str, size: tuple[int, int], source: str
) -> npt.NDArray[np.uint8]:
    """Pixels as uint8, (H, W) or (H, W, 3); an image of one bit per pixel gives 0 and 1.

    kind: the only format that is tried, by PIL's name, as PNG. mode: PIL's name of the pixel type.
    size: height and width; compared before a pixel is decoded, so that memory stays bounded.
    Raises `DataError` that begins with `source` where the content is anything else.
    """
    try:
        with Image.open(io.BytesIO(content), formats=[kind]) as image:
            height, width = image.height, image.width
            if (height, width) != size or image.mode != mode:
                raise DataError(
                    f"{source} is {height}×{width} pixels of type {image.mode}, "
                    f"and {size[0]}×{size[1]} of type {mode} was expected"
                )
            return np.array(image, dtype=np.uint8)
    except _DAMAGED as error:
        words = str(error).split(" <")[0] or type(error).__name__  # PIL quotes the buffer's address
        raise DataError(f"{source} is no readable {kind} image: {words}") from error


def read_image(path: Path, *, kind: str, mode: str, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """`decode_image` on a file; raises `DataError` that names it where it cannot be read."""
    try:
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path} holds {path.stat().st_size:,} bytes, too many for its image")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    return decode_image(content, kind=kind, mode=mode, size=size, source=str(path))
