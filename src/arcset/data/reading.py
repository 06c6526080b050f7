"""How any image becomes an array of one fixed shape."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.data.modes import plain
from arcset.data.opening import opened, orientation, read_file
from arcset.data.resizing import resized
from arcset.errors import InputError, OptionError

__all__ = ["FITS", "Fit", "Reading"]

Fit = Literal["pad", "crop", "stretch"]
FITS: tuple[Fit, ...] = get_args(Fit)
Pixels = npt.NDArray[np.uint8]

LARGEST = 4096  # pixels a side that can be asked for
EXACT = 1 << 20  # pixels up to which an image is resized in one exact step
# How many times finer than needed a larger image stays in its first step: by a decoder that
# counts the last pixels of a row and of a column as whole ones, and by exact averaging.
_FINER_DECODED, _FINER = 8, 4

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class Reading:
    """How an image becomes an array of one fixed shape.

    channels: 1 for grey, 3 for RGB. height, width: in pixels.
    fit: what happens where the proportions differ. "pad" keeps all of the image, centered, and
        fills the rest with the median of its border pixels; "crop" keeps the largest part around
        the center; "stretch" bends it.
    invert: 255 − x at the end, as for ink on paper that is wanted bright on black.

    Files of any format that PIL decodes are read: turned upright by their EXIF orientation, of
    animated ones the first frame; `arcset.data.modes.plain` says what becomes of transparency,
    palettes and more than 8 bits. Shrinking is exact area averaging, enlarging is bilinear. Images
    of more than about a million pixels that are at least eight times finer than needed are averaged
    by a whole factor first, to no less than four times as fine as needed, and JPEG files are
    decoded at a half, a quarter or an eighth, to no less than eight times.
    Raises `OptionError` for other channels, sizes outside 1 … 4096 and unknown fits.

        >>> reading = Reading(1, 2, 2)
        >>> reading.read(np.array([[0, 0, 200, 200]], np.uint8))  # 1×4 becomes 1×2, and is padded
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
            raise OptionError(f"images are read with 1 or 3 channels, not {self.channels}")
        if not (1 <= self.height <= LARGEST and 1 <= self.width <= LARGEST):
            raise OptionError(
                f"images are read with 1 to {LARGEST} pixels a side, not {self.height}×{self.width}"
            )
        if self.fit not in FITS:
            raise OptionError(f"fit {self.fit!r} is unknown, expected one of: {', '.join(FITS)}")

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
        elif isinstance(source, np.ndarray):
            source = _from_array(source)
        name = name or "the image"
        with opened(source, name) as image:
            upright = self._upright(image, name)
            factors = self._factors(*upright.size, _FINER)
            pixels = np.asarray(upright.reduce(factors) if max(factors) > 1 else upright)
        fitted = self._fitted(pixels, upright.size, factors)
        return 255 - fitted if self.invert else fitted

    def _upright(self, image: Image.Image, name: str) -> Image.Image:
        """Decoded, upright, plain, and cropped if need be."""
        if image.format in ("JPEG", "MPO"):  # decodes at a half, a quarter or an eighth
            turned = orientation(image) >= 5
            size = (image.height, image.width) if turned else image.size
            factor = min(self._factors(*size, _FINER_DECODED))
            if factor > 1:
                image.draft(None, (image.width // factor, image.height // factor))
        image.load()
        if (turn := _UPRIGHT.get(orientation(image))) is not None:
            image = image.transpose(turn)
        image = plain(image, self.channels, name)
        return self._cropped(image) if self.fit == "crop" else image

    def _factors(self, width: int, height: int, finer: int) -> tuple[int, int]:
        """By how much an image may be reduced before the exact step, across and down."""
        if width * height <= EXACT:
            return 1, 1
        wanted_height, wanted_width = self.height, self.width
        if self.fit == "pad":
            wanted_height, wanted_width = self._inside(height, width)
        elif self.fit == "crop":
            width, height = self._part(width, height)
        return (
            max(1, width // (finer * wanted_width)),
            max(1, height // (finer * wanted_height)),
        )

    def _inside(self, height: int, width: int) -> tuple[int, int]:
        """The largest size with the image's proportions that fits, each side at least 1."""
        if width * self.height >= height * self.width:
            return max(1, _rounded(height * self.width, width)), self.width
        return self.height, max(1, _rounded(width * self.height, height))

    def _part(self, width: int, height: int) -> tuple[int, int]:
        """The largest part of the image with the wanted proportions, each side at least 1."""
        if width * self.height >= height * self.width:
            return min(width, max(1, _rounded(height * self.width, self.height))), height
        return width, min(height, max(1, _rounded(width * self.height, self.width)))

    def _cropped(self, image: Image.Image) -> Image.Image:
        width, height = self._part(*image.size)
        left, top = (image.width - width) // 2, (image.height - height) // 2
        return image.crop((left, top, left + width, top + height))

    def _fitted(self, pixels: Pixels, size: tuple[int, int], factors: tuple[int, int]) -> Pixels:
        """Of the wanted shape: resized, and padded where need be.

        size, factors: width and height before, and by which the image was reduced already.
        """
        height, width = self.height, self.width
        if self.fit == "pad":
            height, width = self._inside(size[1], size[0])
        inner = resized(pixels, height, width, blocks=factors[::-1], whole=size[::-1])
        if (height, width) == (self.height, self.width):
            return inner
        padded = np.empty(self.shape, np.uint8)
        padded[:] = _ground(pixels)
        top, left = (self.height - height) // 2, (self.width - width) // 2
        padded[top : top + height, left : left + width] = inner
        return padded


def _rounded(over: int, under: int) -> int:
    """over / under to the nearest whole number, halves up."""
    return (2 * over + under) // (2 * under)


def _ground(pixels: Pixels) -> npt.NDArray[np.float64]:
    """The median of the border pixels, per channel: () or (3,)."""
    sides = (pixels[0], pixels[-1], pixels[1:-1, 0], pixels[1:-1, -1])
    median: npt.NDArray[np.float64] = np.rint(np.median(np.concatenate(sides), axis=0))
    return median


def _from_array(array: npt.NDArray[np.uint8]) -> Image.Image:
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if array.dtype != np.uint8 or not fits or array.size == 0:
        raise InputError(
            f"an image as an array is uint8, (H, W) or (H, W, C) with 1, 3 or 4 channels, "
            f"and this one is {array.dtype}, {array.shape}"
        )
    return Image.fromarray(array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array)
