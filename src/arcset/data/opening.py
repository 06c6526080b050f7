"""Opening image files of any kind that PIL decodes by itself, with bounds and one kind of error."""

import io
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from PIL import Image

from arcset.errors import ArcsetError, DataError

__all__ = ["MOST_BYTES", "MOST_PIXELS", "extensions", "opened", "orientation", "read_file", "words"]

MOST_BYTES = 1 << 28  # of a file, 256 MiB
MOST_PIXELS = 178_956_970  # of an image: beyond twice its own limit PIL refuses to open a file

# EPS and PostScript are programs that another program would run; of the others PIL knows the
# headers and has no decoder.
_NOT_READ = {"EPS", "WMF", "BUFR", "GRIB", "HDF5", "MPEG", "IPTC"}
_FIRST = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # the usual ones, tried first


@cache
def _formats() -> dict[str, str]:
    """Extension, in lower case → PIL's name of the format, for all that are read."""
    registered = Image.registered_extensions()
    return {
        extension: kind
        for extension, kind in registered.items()
        if kind in Image.OPEN and kind not in _NOT_READ
    }


def extensions() -> frozenset[str]:
    """The extensions of image files, in lower case.

    >>> sorted({".png", ".jpg", ".webp", ".eps", ".txt"} & extensions())
    ['.jpg', '.png', '.webp']
    """
    return frozenset(_formats())


@cache
def _kinds() -> tuple[str, ...]:
    return (*_FIRST, *sorted(set(_formats().values()) - set(_FIRST)))


def read_file(path: Path | str, name: str = "") -> bytes:
    """The bytes of a file; raises `DataError` where it is missing, empty, too large or no file."""
    path, name = Path(path), name or str(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for without end
            raise DataError(f"{name} is no file")
        if status.st_size > MOST_BYTES:
            raise DataError(
                f"{name} holds {status.st_size:,} bytes, and image files of more than "
                f"{MOST_BYTES:,} are not read"
            )
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{name} cannot be read: {why}") from None
    if not content:
        raise DataError(f"{name} is empty")
    return content


@contextmanager
def opened(source: bytes | Image.Image, name: str) -> Iterator[Image.Image]:
    """An image that is identified and not decoded yet; animated ones show their first frame.

    The size is compared with `MOST_PIXELS` before anything is decoded. Whatever PIL raises within
    the block becomes a `DataError` that begins with `name`.
    """
    try:
        if isinstance(source, Image.Image):
            _bound(source, name)
            yield source
        else:
            with Image.open(io.BytesIO(source), formats=_kinds()) as image:
                _bound(image, name)
                yield image
    except ArcsetError:
        raise
    except Exception as error:  # each format is a plug-in, which raises what it likes
        raise DataError(f"{name} cannot be read as an image: {words(error)}") from error


def _bound(image: Image.Image, name: str) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise DataError(
            f"{name} has {image.width}×{image.height} pixels, and images of more than "
            f"{MOST_PIXELS // 1_000_000} megapixels are not read"
        )
    if not image.width * image.height:
        raise DataError(f"{name} has no pixels")


def words(error: Exception) -> str:
    """What PIL says, without the address of the buffer, which it quotes."""
    return str(error).split(" <")[0].strip() or type(error).__name__


def orientation(image: Image.Image) -> int:
    """1 … 8, as EXIF numbers the ways of holding a camera; 1, upright, where nobody says."""
    try:
        value = image.getexif().get(0x0112, 1)
    except Exception:  # damaged EXIF is no reason to refuse the picture
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1
