"""The bytes of an image that somebody sent, to the array that the network takes."""

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.data.image import MOST_PIXELS
from arcset.errors import ArcsetError, DataError, OptionError
from arcset.recognition.recognizer import ImageEmbedder, Recognizer
from arcset.service.errors import RefusalError
from arcset.text import sentence

__all__ = ["FORMATS", "LARGE", "Decoder", "thumbnail"]

#: The kinds of files that are taken from the network; PIL knows rarer ones, and their weaknesses.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")

_BINARY_PPM = (b"P4", b"P5", b"P6")  # pixels written as text take seconds to read

_SCANS, _PASSES = 100, 16  # of a JPEG file; and of a file with as many pixels as there may be

#: Pixels from which on images are decoded one at a time, as each takes megabytes and a while.
LARGE = 2_000_000


class Decoder:
    """Reads images as a recognizer wants them, within a limit of pixels.

    recognizer: of images, or of the faces in photos. Raises `OptionError` for one of vectors.
    max_pixels: looked at before anything is decoded.
    """

    def __init__(self, recognizer: ImageEmbedder, max_pixels: int) -> None:
        self.max_pixels = max_pixels
        self._faces: Any = getattr(recognizer, "faces", None)
        inner: Any = recognizer if self._faces is None else getattr(recognizer, "recognizer", None)
        if not isinstance(inner, Recognizer):
            raise OptionError(f"{recognizer.name} takes no images, so that it cannot be served")
        self.recognizer = inner
        self._reading = inner.reading  # or refuses: vectors

    def open(self, content: bytes) -> Image.Image:
        """An image whose header was read and checked, for `decode`.

        Raises `RefusalError`: not_an_image or image_too_large.
        """
        return opened(content, self.max_pixels)

    def decode(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """(H, W) or (H, W, 3); of a photo its main face, aligned.

        Raises `RefusalError`: not_an_image, or no_face.
        """
        try:
            with image:
                return self._reading.read(image) if self._faces is None else self._face(image)
        except RefusalError:
            raise
        except ArcsetError as error:
            raise RefusalError("not_an_image", sentence(error)) from None

    def embed(self, arrays: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """What `read` gave, stacked, to (N, D) unit rows."""
        return self.recognizer.embed_arrays(arrays)

    def _face(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        from arcset.recognition.faces import (
            align,  # OpenCV is an extra
            read_photo,
        )

        photo = read_photo(image)
        found = self._faces.find_in(photo)
        if not found.faces:
            raise RefusalError("no_face", sentence(DataError(f"the photo {found.why}")))
        crop: npt.NDArray[np.uint8] = align(photo, found.faces[0].points)
        return crop


def opened(content: bytes, max_pixels: int) -> Image.Image:
    """An image whose header was read and nothing else.

    Raises `RefusalError`: not_an_image or image_too_large.
    """
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
        if image.format == "PPM" and content[:2] not in _BINARY_PPM:
            raise ValueError
    except Image.DecompressionBombError:
        raise _too_large(max_pixels) from None
    except Exception:  # each format is a plug-in, which raises what it likes
        message = f"This is no image that can be read; expected one of: {', '.join(FORMATS)}."
        raise RefusalError("not_an_image", message) from None
    if image.width * image.height > max_pixels:
        raise _too_large(max_pixels)
    _check_effort(image, content, max_pixels)
    return image


def _check_effort(image: Image.Image, content: bytes, max_pixels: int) -> None:
    """Refuse what takes minutes to decode: a JPEG paints all of its pixels once for each scan.

    Within a scan FF is never followed by DA, so that counting this pair counts the scans. TIFF may
    hold JPEG as well, in as many pieces as it likes.
    """
    if image.format == "TIFF" and "jpeg" in str(image.info.get("compression")):
        raise RefusalError("not_an_image", "TIFF files with JPEG inside are not read.")
    if image.format in ("JPEG", "MPO"):
        scans = content.count(b"\xff\xda")
        most = min(_SCANS, _PASSES * max_pixels // (image.width * image.height or 1))
        if scans > most:
            message = f"The JPEG file has {scans:,} scans; at most {most} are read."
            raise RefusalError("not_an_image", message)


def _too_large(max_pixels: int) -> RefusalError:
    return RefusalError("image_too_large", f"The image has more than {max_pixels:,} pixels.")


def thumbnail(content: bytes, size: int) -> tuple[bytes, str]:
    """An image made small, at most `size` pixels a side: bytes and media type.

    Nothing of the file but its pixels is kept: neither the place where a photo was taken, nor the
    camera. Raises `RefusalError` for what is no image, or not one from the network.
    """
    from arcset.recognition.faces import read_photo

    try:
        with opened(content, MOST_PIXELS) as image:
            grey = image.mode in ("1", "L", "I;16")
            if image.format in ("JPEG", "MPO"):
                image.draft(None, (2 * size, 2 * size))
            small = Image.fromarray(read_photo(image))
    except ArcsetError:
        raise
    except Exception as error:
        raise DataError(f"the kept image cannot be read: {type(error).__name__}") from None
    small.thumbnail((size, size), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    if grey or small.width * small.height <= 48 * 48:  # drawings, where JPEG would smear
        (small.convert("L") if grey else small).save(out, "PNG")
        return out.getvalue(), "image/png"
    small.save(out, "JPEG", quality=85)
    return out.getvalue(), "image/jpeg"
