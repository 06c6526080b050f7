"""A light page to put pictures and words on, with PIL alone."""

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

__all__ = ["GREY", "INK", "RED", "Canvas", "shortened"]

PAPER, INK, GREY, PALE, RED = "#FFFFFF", "#222222", "#777777", "#D8D8D8", "#B3261E"
FAINT = "#FBEDEC"  # the ground of what cannot be shown


@cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib and has Latin, Greek and Cyrillic letters."""
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", name), size)


def shortened(text: str, width: float, size: int, bold: bool = False) -> str:
    """The text, or its two ends with … between them, so that it is at most `width` pixels wide.

    >>> shortened("Alexandra", 400, 14), shortened("Alexandra", 60, 14)
    ('Alexandra', 'Ale…dra')
    """
    text = "".join(letter if letter.isprintable() else "�" for letter in text[:500])
    measure = font(size, bold).getlength
    if measure(text) <= width:
        return text
    for kept in range(len(text) - 1, 1, -1):
        cut = text[: (kept + 1) // 2] + "…" + text[len(text) - kept // 2 :]
        if measure(cut) <= width:
            return cut
    return "…"


class Canvas:
    """A page of fixed size; places are the upper left corners, in pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (width, height), PAPER)
        self._draw = ImageDraw.Draw(self.image)

    def text(
        self, place: tuple[int, int], words: str, size: int, colour: str = INK, bold: bool = False
    ) -> None:
        """One line."""
        self._draw.text(place, words, colour, font(size, bold))

    def rule(self, top: int, left: int, right: int) -> None:
        """A thin line across."""
        self._draw.line((left, top, right, top), PALE, 1)

    def picture(self, place: tuple[int, int], pixels: npt.NDArray[np.uint8]) -> None:
        """An image (H, W, 3) in a thin frame."""
        left, top = place
        height, width = pixels.shape[:2]
        self.image.paste(Image.fromarray(pixels), place)
        self._draw.rectangle((left - 1, top - 1, left + width, top + height), outline=PALE)

    def missing(self, place: tuple[int, int], side: int) -> None:
        """Instead of a picture that cannot be read."""
        left, top = place
        box = (left - 1, top - 1, left + side, top + side)
        self._draw.rectangle(box, fill=FAINT, outline=PALE)
        for line in (
            (left, top, left + side - 1, top + side - 1),
            (left, top + side - 1, left + side - 1, top),
        ):
            self._draw.line(line, PALE, 1)
        words = "unreadable"
        width = font(13).getlength(words)
        self._draw.text((left + (side - width) / 2, top + side / 2 - 8), words, RED, font(13))

    def between(self, place: tuple[int, int], sign: str) -> None:
        """A sign with its middle at `place`."""
        self._draw.text(place, sign, RED, font(22, True), anchor="mm")
