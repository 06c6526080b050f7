"""A contact sheet of a user's data: some identities, and what is suspicious, side by side."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from arcset.data.check import DataCheck, Twins
from arcset.data.image import Reading
from arcset.data.sources.base import Listing
from arcset.errors import DataError
from arcset.text import plural

_IDENTITIES, _IMAGES = 12, 8  # drawn at most: rows, and images in each
_TWINS, _TOGETHER, _REASONS = 8, 4, 8  # drawn at most: groups of twins, of each, reasons

_MARGIN, _SIDE, _GAP, _LABEL, _SIGN = 32, 112, 8, 216, 36  # pixels
_WIDTH = 2 * _MARGIN + _LABEL + _IMAGES * (_SIDE + _GAP) - _GAP
_INNER = _WIDTH - 2 * _MARGIN
_TALLEST = 8000  # more than all that is drawn at most

_PAPER, _INK, _GREY, _PALE, _RED = "#FFFFFF", "#222222", "#777777", "#D8D8D8", "#B3261E"
_FAINT = "#FBEDEC"  # the ground of what cannot be drawn

T = TypeVar("T")

#: An image to draw with what stands below it: its position, who it is, and where it is.
_Cell = tuple[int, str, str]


def contact_sheet(listing: Listing, check: DataCheck) -> Image.Image:
    """Up to 12 identities with up to 8 images each; below them, what was found.

    The identities are evenly chosen between those with the most images and those with the fewest,
    and an identity's images between its first and its last.

    check: what `check_data` found in this listing. The images are read anew, a hundred or two.
    Pictures under two identities and repeated ones stand side by side, up to eight groups each;
    then come images that show nothing, and the names of files that cannot be read.
    """
    sheet = _Sheet(listing)
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(listing.names):
        positions.setdefault(name, []).append(position)
    names = _choose_evenly(sorted(positions, key=lambda name: -len(positions[name])), _IDENTITIES)
    sheet.add_title(check, len(names))
    for name in names:
        sheet.add_identity(name, positions[name])
    if check.across:
        sheet.add_heading("Under two or more identities: one of the labels is wrong", _RED)
        sheet.add_groups([_twin_cells(twins) for twins in check.across], _TWINS)
    if check.within:
        sheet.add_heading("More than once under one identity", _INK)
        sheet.add_groups([_twin_cells(twins) for twins in check.within], _TWINS)
    if blank := {*check.black, *check.plain}:
        sheet.add_heading("Showing nothing", _RED)
        cells = [
            [_cell(position, listing.names[position], path)]
            for position, path in enumerate(listing.paths)
            if path in blank
        ]
        sheet.add_groups(cells, _IMAGES)
    if check.unreadable:
        sheet.add_heading("Unreadable", _RED)
        sheet.add_reasons(check.unreadable)
    return sheet.finish()


class _Sheet:
    """A page that is drawn from top to bottom and cut off at its end; `_top` is where to go on."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._reading = Reading(3, _SIDE, _SIDE, "pad")
        self._page = Image.new("RGB", (_WIDTH, _TALLEST), _PAPER)
        self._pen = ImageDraw.Draw(self._page)
        self._top = _MARGIN

    def add_title(self, check: DataCheck, drawn: int) -> None:
        count = len(check.per_identity)
        text = f"{plural(check.images, 'image')} of {plural(count, 'identity', 'identities')}"
        if drawn < count:
            text += f", {drawn} of them shown"
        name = Path(check.place).resolve().name or check.place
        self._text(_MARGIN, 0, name, 26, bold=True, width=_INNER)
        self._text(_MARGIN, 38, f"{text} · {check.kind}", 15, _GREY)
        self._top += 80

    def add_identity(self, name: str, positions: Sequence[int]) -> None:
        """A row: the name, the number of its images, and some of them."""
        above, _, last = name.rpartition("/")
        middle, width = _SIDE // 2, _LABEL - 16
        if above:
            self._text(_MARGIN, middle - 39, f"{above}/", 14, _GREY, width=width)
        self._text(_MARGIN, middle - 20, last, 16, bold=True, width=width)
        self._text(_MARGIN, middle + 3, plural(len(positions), "image"), 14, _GREY)
        for column, position in enumerate(_choose_evenly(positions, _IMAGES)):
            self._image(_MARGIN + _LABEL + column * (_SIDE + _GAP), position)
        self._top += _SIDE + _GAP

    def add_heading(self, words: str, colour: str) -> None:
        line = self._top + 14
        self._pen.line((_MARGIN, line, _WIDTH - _MARGIN, line), _PALE, 1)
        self._text(_MARGIN, 28, words, 18, colour, bold=True)
        self._top += 64

    def add_groups(self, groups: Sequence[Sequence[_Cell]], most: int) -> None:
        """Groups of images, = between the images of a group, as many in a row as fit."""
        left = _MARGIN
        for group in groups[:most]:
            width = len(group) * (_SIDE + _SIGN)
            if left > _MARGIN and left + width - _SIGN > _MARGIN + _INNER:
                left = _MARGIN
                self._top += _SIDE + 52
            self._group(left, group)
            left += width
        self._top += _SIDE + 52
        self._add_rest(len(groups) - most)

    def add_reasons(self, reasons: Sequence[tuple[str, str]]) -> None:
        """Lines of text: which file, and why."""
        third = _INNER // 3
        for path, why in reasons[:_REASONS]:
            self._text(_MARGIN, 0, path, 14, width=third - 16)
            self._text(_MARGIN + third, 0, why, 14, _GREY, width=2 * third)
            self._top += 24
        self._add_rest(len(reasons) - _REASONS)

    def finish(self) -> Image.Image:
        return self._page.crop((0, 0, _WIDTH, self._top + _MARGIN))

    def _group(self, left: int, group: Sequence[_Cell]) -> None:
        width = _SIDE + _SIGN - 16
        for number, (position, who, where) in enumerate(group):
            if number:
                middle = (left - _SIGN // 2, self._top + _SIDE // 2)
                self._pen.text(middle, "=", _RED, load_font(22, True), anchor="mm")
            self._image(left, position)
            # Measured as if bold, to leave some room.
            self._text(left, _SIDE + 6, shorten(who, width, 13, True), 13)
            self._text(left, _SIDE + 24, where, 12, _GREY, width=width)
            left += _SIDE + _SIGN

    def _add_rest(self, count: int) -> None:
        if count > 0:
            self._text(_MARGIN, 0, f"… {count:,} more", 14, _GREY)
            self._top += 24

    def _text(
        self,
        left: int,
        below: int,
        words: str,
        size: int,
        colour: str = _INK,
        bold: bool = False,
        width: int | None = None,
    ) -> None:
        """One line, so many pixels below `_top`, shortened to `width` pixels."""
        words = words if width is None else shorten(words, width, size, bold)
        self._pen.text((left, self._top + below), words, colour, load_font(size, bold))

    def _image(self, left: int, position: int) -> None:
        """An image in a thin frame, or a crossed-out frame where it cannot be read."""
        top, right, bottom = self._top, left + _SIDE - 1, self._top + _SIDE - 1
        frame = (left - 1, top - 1, right + 1, bottom + 1)
        try:
            content = self._listing.content(position)
            pixels = self._reading.read(content, self._listing.paths[position])
        except DataError:
            self._pen.rectangle(frame, fill=_FAINT, outline=_PALE)
            self._pen.line((left, top, right, bottom), _PALE, 1)
            self._pen.line((left, bottom, right, top), _PALE, 1)
            width = load_font(13).getlength("unreadable")
            middle = (left + (_SIDE - width) / 2, top + _SIDE / 2 - 8)
            self._pen.text(middle, "unreadable", _RED, load_font(13))
        else:
            self._page.paste(Image.fromarray(pixels), (left, top))
            self._pen.rectangle(frame, outline=_PALE)


def shorten(text: str, width: float, size: int, bold: bool = False) -> str:
    """The text, or its two ends with … between them, so that it is at most `width` pixels wide.

    >>> shorten("Alexandra", 400, 14), shorten("Alexandra", 60, 14)
    ('Alexandra', 'Ale…dra')
    """
    text = "".join(letter if letter.isprintable() else "�" for letter in text[:500])
    measure = load_font(size, bold).getlength
    if measure(text) <= width:
        return text
    for length in range(len(text) - 1, 1, -1):
        cut = text[: (length + 1) // 2] + "…" + text[len(text) - length // 2 :]
        if measure(cut) <= width:
            return cut
    return "…"


@cache
def load_font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib and has Latin, Greek and Cyrillic letters."""
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", name), size)


def _twin_cells(twins: Twins) -> list[_Cell]:
    cells = zip(twins.positions, twins.names, twins.paths, strict=True)
    return [_cell(*cell) for cell in cells][:_TOGETHER]


def _cell(position: int, name: str, path: str) -> _Cell:
    folder, _, file = path.rpartition("/")
    return position, name, file if folder == name else path


def _choose_evenly(items: Sequence[T], most: int) -> list[T]:
    """At most so many, from the first to the last."""
    count = min(len(items), most)
    return [items[index] for index in np.linspace(0, len(items) - 1, count).round().astype(int)]
