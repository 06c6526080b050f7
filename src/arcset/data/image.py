"""One image: opened within bounds, turned upright, made plain grey or RGB, brought to one shape.

pixels = Reading(channels=3, height=112, width=112).read("photo.jpg")  # uint8 (112, 112, 3)
"""

import io
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageOps, ImageStat

from arcset.checks import check_choice, check_count
from arcset.errors import ArcsetError, DataError, InputError, OptionError

Pixels = npt.NDArray[np.uint8]
Fit = Literal["pad", "crop", "stretch"]
FITS: tuple[Fit, ...] = get_args(Fit)

MOST_BYTES = 1 << 28  # of a file, 256 MiB
MOST_PIXELS = 178_956_970  # of an image: beyond twice its own limit PIL refuses to open a file

# EPS and PostScript are programs that another program would run; of the others PIL knows the
# headers and has no decoder.
_NOT_READ = {"EPS", "WMF", "BUFR", "GRIB", "HDF5", "MPEG", "IPTC"}


@cache
def _format_of_extension() -> dict[str, str]:
    """Extension, in lower case → PIL's name of the format, for all that are read."""
    return {
        extension: kind
        for extension, kind in Image.registered_extensions().items()
        if kind in Image.OPEN and kind not in _NOT_READ
    }


@cache
def _formats() -> tuple[str, ...]:
    usual = ("JPEG", "PNG", "WEBP")  # tried first
    return tuple(dict.fromkeys((*usual, *_format_of_extension().values())))


@cache
def image_extensions() -> frozenset[str]:
    """The extensions of image files, in lower case.

    >>> sorted({".png", ".jpg", ".webp", ".eps", ".txt"} & image_extensions())
    ['.jpg', '.png', '.webp']
    """
    return frozenset(_format_of_extension())


def parse_size(text: str) -> tuple[int, int]:
    """Height and width from 112, 112x96 or 112,96; raises `OptionError` for anything else.

    >>> parse_size("112"), parse_size("112x96")
    ((112, 112), (112, 96))
    """
    sides = re.fullmatch(r"(\d{1,6})(?:[x×,](\d{1,6}))?", text.strip().lower(), re.ASCII)
    if sides is None:
        raise OptionError(f"size is written 64, or 64x48 for height and width, not {text!r}")
    return int(sides[1]), int(sides[2] or sides[1])


def read_file(path: Path | str, name: str = "", most: int = MOST_BYTES) -> bytes:
    """The bytes of a file; raises `DataError` where it is missing, empty, too large or no file."""
    path, name = Path(path), name or str(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for without end
            raise DataError(f"{name} is no file")
        if status.st_size > most:
            raise DataError(
                f"{name} holds {status.st_size:,} bytes, more than the {most:,} that are read"
            )
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{name} cannot be read: {why}") from None
    if not content:
        raise DataError(f"{name} is empty")
    return content


@contextmanager
def open_image(source: bytes | Image.Image | Pixels, name: str) -> Iterator[Image.Image]:
    """An image that is identified and not decoded yet; animated ones show their first frame.

    The size is compared with `MOST_PIXELS` before anything is decoded. Whatever PIL raises within
    the block becomes a `DataError` that begins with `name`.
    """
    if isinstance(source, np.ndarray):
        source = _from_array(source)
    try:
        if isinstance(source, Image.Image):
            _check_size(source, name)
            yield source
        else:
            with Image.open(io.BytesIO(source), formats=_formats()) as image:
                _check_size(image, name)
                yield image
    except ArcsetError:
        raise
    except Exception as error:  # each format is a plug-in, which raises what it likes
        words = str(error).split(" <")[0].strip()  # PIL quotes the address of the buffer
        raise DataError(
            f"{name} cannot be read as an image: {words or type(error).__name__}"
        ) from error


def _check_size(image: Image.Image, name: str) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise DataError(
            f"{name} has {image.width}×{image.height} pixels, and images of more than "
            f"{MOST_PIXELS // 1_000_000} megapixels are not read"
        )
    if not image.width * image.height:
        raise DataError(f"{name} has no pixels")


def _from_array(array: npt.NDArray[np.uint8]) -> Image.Image:
    """uint8 (H, W) or (H, W, C) with 1, 3 or 4 channels; raises `InputError` for any other."""
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if array.dtype != np.uint8 or not fits or array.size == 0:
        raise InputError(
            f"an image as an array is uint8, (H, W) or (H, W, C) with 1, 3 or 4 channels, "
            f"and this one is {array.dtype}, {array.shape}"
        )
    return Image.fromarray(array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array)


def decode_expected(content: bytes, *, mode: str, size: tuple[int, int], source: str) -> Pixels:
    """Pixels (H, W) or (H, W, 3) of an image of a published set, whose form is known beforehand.

    mode: PIL's name of the pixel type; one bit per pixel gives 0 and 1. size: height and width.
    Raises `DataError` that begins with `source` where the content is anything else, before a pixel
    is decoded.
    """
    with open_image(content, source) as image:
        if (image.height, image.width) != size or image.mode != mode:
            raise DataError(
                f"{source} is {image.height}×{image.width} pixels of type {image.mode}, "
                f"and {size[0]}×{size[1]} of type {mode} was expected"
            )
        return np.array(image, dtype=np.uint8)


def exif_orientation(image: Image.Image) -> int:
    """1 … 8, as EXIF numbers the ways of holding a camera; 1 (upright) without EXIF."""
    try:
        value = image.getexif().get(0x0112, 1)
    except Exception:  # damaged EXIF is no reason to refuse the picture
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def turn_upright(image: Image.Image) -> Image.Image:
    """The image decoded, and turned as its EXIF says."""
    image.load()
    return image if exif_orientation(image) == 1 else ImageOps.exif_transpose(image)


_DEEP = ("I", "F")  # 16-bit types are called I;16, I;16B and so on
_GREY = ("1", "L", "LA", "La")
_ALPHA = ("LA", "La", "PA", "RGBA", "RGBa")
_BRIGHT = 191  # of 255: what is brighter on average would vanish on white


def is_grey(image: Image.Image) -> bool:
    """Whether the pixel type has no colours; one with a palette counts as coloured."""
    return image.mode in _GREY or image.mode.startswith(_DEEP)


def to_channels(image: Image.Image, channels: int, name: str) -> Image.Image:
    """The image as type L (`channels` 1) or RGB (3), 8 bits each, without transparency.

    - 16 and 32 bits per pixel: values up to 255 are taken as they are; values up to 65,535 lose
      their lower eight bits. Anything beyond, or below 0, is a `DataError` that names `name`.
    - Floats: all within 0 … 1 are multiplied by 255; all within 0 … 255 are rounded; anything else
      is a `DataError`.
    - Transparency: laid on white; on black, where what is visible is nearly white itself (its
      brightness, weighted by opacity, exceeds 191 on average).
    - Colour to grey: brightness as in ITU-R 601, 0.299 R + 0.587 G + 0.114 B.
    - CMYK, YCbCr, HSV and LAB: to RGB as PIL does it; embedded colour profiles are not applied.
    """
    if image.mode.startswith(_DEEP):
        image = _to_8_bits(image, name)
    elif image.mode in _ALPHA or "transparency" in image.info:
        image = _without_alpha(image)
    mode = "L" if channels == 1 else "RGB"
    if image.mode == mode:
        return image
    if image.mode not in ("1", "L", "P", "RGB"):
        image = image.convert("RGB")  # not every type converts to grey
    return image.convert(mode)


def _to_8_bits(image: Image.Image, name: str) -> Image.Image:
    values = np.asarray(image)
    low, high = float(values.min()), float(values.max())  # NaN if there is one
    if image.mode == "F":
        if low >= 0 and high <= 255:
            return Image.fromarray(np.rint(values * 255 if high <= 1 else values).astype(np.uint8))
    elif low >= 0 and high <= 0xFFFF:
        return Image.fromarray((values >> 8 if high > 0xFF else values).astype(np.uint8))
    raise DataError(
        f"{name} holds values from {low:g} to {high:g}, and only whole numbers in 0 to 65,535 and "
        "floats in 0 to 1 or 0 to 255 have a known meaning; save it with 8 bits per channel"
    )


def _without_alpha(image: Image.Image) -> Image.Image:
    if image.mode in ("La", "RGBa"):  # colours that were multiplied with their opacity
        image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
    image = image.convert("RGBA")
    opacity, colours = image.getchannel("A"), image.convert("RGB")
    if opacity.getextrema() == (255, 255):
        return colours
    brightness = ImageChops.multiply(colours.convert("L"), opacity)
    visible, bright = ImageStat.Stat(opacity).sum[0], ImageStat.Stat(brightness).sum[0]
    background = "black" if visible and 255 * bright / visible > _BRIGHT else "white"
    opaque = Image.new("RGB", image.size, background)
    opaque.paste(colours, mask=opacity)
    return opaque


LARGEST = 4096  # pixels a side that can be asked for


@dataclass(frozen=True)
class Reading:
    """How an image becomes an array of one fixed shape.

    channels: 1 for grey, 3 for RGB. height, width: in pixels.
    fit: what happens where the proportions differ. "pad" keeps all of the image, centered, and
        fills the rest with the median of its border pixels; "crop" keeps the largest part around
        the center; "stretch" bends it.
    invert: 255 − x at the end, as for ink on paper that is wanted bright on black.

    Files of any format that PIL decodes are read: turned upright by their EXIF orientation, of
    animated ones the first frame; `to_channels` says what becomes of transparency, palettes and
    more than 8 bits. Pillow resizes: its Hamming filter shrinks, which comes close to the mean over
    what a new pixel covers and is that mean for whole factors, and its bilinear filter enlarges.
    Images that are far finer than needed are reduced by a whole factor first, JPEG files while they
    are decoded.
    Raises `OptionError` for other channels, sizes outside 1 … 4096 and unknown fits.

        >>> reading = Reading(1, 2, 2)
        >>> reading.read(np.array([[0, 200]], np.uint8))  # 1×2 is padded
        array([[  0, 200],
               [100, 100]], dtype=uint8)
    """

    channels: int
    height: int
    width: int
    fit: Fit = "pad"
    invert: bool = False

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise OptionError(f"channels must be 1 or 3, not {self.channels!r}")
        check_count("height", self.height, 1, LARGEST)
        check_count("width", self.width, 1, LARGEST)
        check_choice("fit", self.fit, FITS)

    @property
    def shape(self) -> tuple[int, ...]:
        """(H, W) or (H, W, 3), of what `read` returns."""
        size = (self.height, self.width)
        return size if self.channels == 1 else (*size, 3)

    def read(self, source: Path | str | bytes | Image.Image | Pixels, name: str = "") -> Pixels:
        """One image as uint8, (H, W) or (H, W, 3).

        source: a file, the content of one, a PIL image, or an array of uint8: (H, W) or (H, W, C)
            with 1, 3 or 4 channels.
        name: what messages call it; the path if left out.
        Raises `DataError` that names a file that is missing, damaged, too large or no image, and
        `InputError` for an array that is none of these.
        """
        if isinstance(source, str | Path):
            name = name or str(source)
            source = read_file(source, name)
        name = name or "the image"
        with open_image(source, name) as image:
            if image is not source:  # which a caller may go on using
                finer = 4 * max(self.height, self.width)
                image.draft(None, (finer, finer))  # a JPEG is decoded at a half, … an eighth
            image = self._resize(to_channels(turn_upright(image), self.channels, name))
            pixels = np.array(image)
        return 255 - pixels if self.invert else pixels

    def _resize(self, image: Image.Image) -> Image.Image:
        """In the wanted shape: resized, and cropped or padded where need be."""
        across, down = self.width / image.width, self.height / image.height
        width, height = self.width, self.height
        left, top = 0.0, 0.0  # of the part that is kept
        scale = min(across, down)
        if self.fit == "pad":
            width = max(1, round(image.width * scale))
            height = max(1, round(image.height * scale))
        elif self.fit == "crop":
            scale = max(across, down)
            left = max(0.0, image.width - self.width / scale) / 2
            top = max(0.0, image.height - self.height / scale) / 2
        box = (left, top, image.width - left, image.height - top)
        factors = ((box[2] - left) / width, (box[3] - top) / height)
        whole = all(factor < 1 or factor.is_integer() for factor in factors)
        resized = image.resize(
            (width, height),
            Image.Resampling.BILINEAR if scale >= 1 else Image.Resampling.HAMMING,
            box,
            reducing_gap=1.0 if whole else 3.0,  # by whole factors exactly: means over blocks
        )
        if resized.size == (self.width, self.height):
            return resized
        padded = Image.new(image.mode, (self.width, self.height), _border_median(image))
        padded.paste(resized, ((self.width - width) // 2, (self.height - height) // 2))
        return padded


def _border_median(image: Image.Image) -> tuple[int, ...]:
    """The median of the border pixels, per channel."""
    pixels = np.asarray(image).reshape(image.height, image.width, -1)  # (H, W, C)
    sides = (pixels[0], pixels[-1], pixels[1:-1, 0], pixels[1:-1, -1])
    return tuple(np.rint(np.median(np.concatenate(sides), axis=0)).astype(int).tolist())
