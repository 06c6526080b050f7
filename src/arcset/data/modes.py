"""Images of every pixel type that PIL knows, turned into plain 8-bit grey or RGB."""

import numpy as np
from PIL import Image, ImageChops, ImageStat

from arcset.errors import DataError

__all__ = ["is_grey", "plain"]

_DEEP = ("I", "F")  # 16-bit types are called I;16, I;16B and so on
_GREY = ("1", "L", "LA", "La")
_ALPHA = ("LA", "La", "PA", "RGBA", "RGBa")

BRIGHT = 191  # of 255: what is brighter on average would vanish on white


def is_grey(image: Image.Image) -> bool:
    """Whether the pixel type has no colours; one with a palette counts as coloured."""
    return image.mode in _GREY or image.mode.startswith(_DEEP)


def plain(image: Image.Image, channels: int, name: str) -> Image.Image:
    """The image as type L (`channels` 1) or RGB (3), without transparency.

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
        image = _shallow(image, name)
    elif image.mode in _ALPHA or "transparency" in image.info:
        image = _opaque(image)
    mode = "L" if channels == 1 else "RGB"
    if image.mode == mode:
        return image
    if image.mode not in ("1", "L", "P", "RGB"):
        image = image.convert("RGB")  # not every type converts to grey
    return image.convert(mode)


def _shallow(image: Image.Image, name: str) -> Image.Image:
    values = np.asarray(image)
    low, high = float(values.min()), float(values.max())  # NaN if there is one
    if image.mode == "F":
        if low >= 0 and high <= 1:
            return Image.fromarray(np.rint(values * 255).astype(np.uint8))
        if low >= 0 and high <= 255:
            return Image.fromarray(np.rint(values).astype(np.uint8))
        raise DataError(
            f"{name} holds floats from {low:g} to {high:g}, and only 0 to 1 or 0 to 255 has a "
            f"known meaning; save it with 8 bits per channel"
        )
    if low < 0 or high > 0xFFFF:
        raise DataError(
            f"{name} holds values from {low:.0f} to {high:.0f}, and only 0 to 255 or 0 to 65,535 "
            f"has a known meaning; save it with 8 or 16 bits per channel"
        )
    return Image.fromarray((values >> 8 if high > 0xFF else values).astype(np.uint8))


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode in ("La", "RGBa"):  # colours that were multiplied with their opacity
        image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
    image = image.convert("RGBA")
    opacity, colours = image.getchannel("A"), image.convert("RGB")
    if opacity.getextrema() == (255, 255):
        return colours
    ground = Image.new("RGB", image.size, _ground(colours.convert("L"), opacity))
    ground.paste(colours, mask=opacity)
    return ground


def _ground(brightness: Image.Image, opacity: Image.Image) -> str:
    seen = ImageStat.Stat(opacity).sum[0]
    bright = ImageStat.Stat(ImageChops.multiply(brightness, opacity)).sum[0]
    return "black" if seen and 255 * bright / seen > BRIGHT else "white"
