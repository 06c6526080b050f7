"""Turns the bytes of an uploaded image into the arrays that the network takes."""

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.data.image import MOST_PIXELS
from arcset.errors import ArcsetError, DataError, OptionError
from arcset.recognition.decisions import Match
from arcset.recognition.recognizer import ImageEmbedder, Recognizer
from arcset.service.errors import ApiError
from arcset.text import sentence

#: The kinds of files that are taken from the network; PIL knows rarer ones, and their weaknesses.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")

_BINARY_PPM = (b"P4", b"P5", b"P6")  # pixels written as text take seconds to read
_SCANS, _PASSES = 100, 16  # of a JPEG file; and of a file with as many pixels as there may be
_LARGE = 2_000_000  # pixels


class Decoded(NamedTuple):
    """What the network is to see of one image: the whole, or the faces in it.

    arrays: (H, W) or (H, W, 3) each. faces: where they are; empty for a whole image.
    face_count: how many faces the photo shows; None for a whole image.
    """

    arrays: list[npt.NDArray[np.uint8]]
    faces: tuple[Any, ...] = ()
    face_count: int | None = None

    def with_boxes(self, matches: Iterator[Match]) -> list[Match]:
        """As many of the matches as there are arrays, each with the box of its face."""
        own = [next(matches) for _ in self.arrays]
        if self.face_count is None:
            return own
        pairs = zip(own, self.faces, strict=True)
        return [replace(match, box=face.box, faces=self.face_count) for match, face in pairs]


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
            raise OptionError(
                f"{recognizer.name} takes vectors instead of images, and cannot be served"
            )
        self._reading = inner.reading  # or refuses: vectors
        self.embed = inner.embed_arrays

    @property
    def finds_faces(self) -> bool:
        """Whether images are photos in which faces are found first."""
        return self._faces is not None

    def open(self, content: bytes) -> Image.Image:
        """An image whose header was read and checked, for `decode`.

        Raises `ApiError`: not_an_image or image_too_large.
        """
        return open_bounded(content, self.max_pixels)

    def decode(self, image: Image.Image, *, every_face: bool) -> Decoded:
        """The whole image; or of a photo its faces, aligned, the main one first, or that alone.

        Raises `ApiError`: not_an_image, or no_face.
        """
        try:
            with image:
                if self._faces is None:
                    return Decoded([self._reading.read(image)])
                return self._find_faces(image, None if every_face else 1)
        except ApiError:
            raise
        except ArcsetError as error:
            raise ApiError("not_an_image", sentence(error)) from None

    def _find_faces(self, image: Image.Image, most: int | None) -> Decoded:
        from arcset.recognition.faces import align, read_photo  # OpenCV is an extra

        photo = read_photo(image)
        found = self._faces.find_in(photo)
        if not found.faces:
            raise ApiError("no_face", sentence(f"the photo {found.why}"))
        faces = found.faces[:most]
        return Decoded([align(photo, face.points) for face in faces], faces, len(found))


def is_large(image: Image.Image) -> bool:
    """Whether an image takes megabytes and a while to decode, and so is decoded alone."""
    return image.width * image.height > _LARGE


def open_bounded(content: bytes, max_pixels: int) -> Image.Image:
    """An image whose header was read and nothing else.

    Raises `ApiError`: not_an_image or image_too_large.
    """
    too_large = ApiError("image_too_large", f"The image has more than {max_pixels:,} pixels.")
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
        if image.format == "PPM" and content[:2] not in _BINARY_PPM:
            raise ValueError
    except Image.DecompressionBombError:
        raise too_large from None
    except Exception:  # each format is a plug-in, which raises what it likes
        message = f"This is not a readable image; the formats are {', '.join(FORMATS)}."
        raise ApiError("not_an_image", message) from None
    if image.width * image.height > max_pixels:
        raise too_large
    _check_effort(image, content, max_pixels)
    return image


def _check_effort(image: Image.Image, content: bytes, max_pixels: int) -> None:
    """Refuse what takes minutes to decode: a JPEG paints all of its pixels once for each scan.

    Within a scan FF is never followed by DA, so that counting this pair counts the scans. TIFF may
    hold JPEG as well, in as many pieces as it likes.
    """
    if image.format == "TIFF" and "jpeg" in str(image.info.get("compression")):
        raise ApiError("not_an_image", "TIFF files with JPEG inside are not read.")
    if image.format in ("JPEG", "MPO"):
        scans = content.count(b"\xff\xda")
        most = min(_SCANS, _PASSES * max_pixels // (image.width * image.height or 1))
        if scans > most:
            message = f"The JPEG file has {scans:,} scans; at most {most} are read."
            raise ApiError("not_an_image", message)


def thumbnail(content: bytes, size: int) -> tuple[bytes, str]:
    """An image made small, at most `size` pixels a side: bytes and media type.

    Nothing of the file but its pixels is kept: neither the place where a photo was taken, nor the
    camera. Raises `ApiError` for what is no image, or not one from the network.
    """
    from arcset.recognition.faces import read_photo

    try:
        with open_bounded(content, MOST_PIXELS) as image:
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
