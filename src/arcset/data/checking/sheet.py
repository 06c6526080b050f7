"""A contact sheet of own data: some identities, and whatever is suspicious, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from arcset.data.checking.canvas import GREY, INK, RED, Canvas, shortened
from arcset.data.checking.result import DataCheck, Twins, counted
from arcset.data.image import Reading
from arcset.data.own.listing import Listing
from arcset.errors import DataError

__all__ = ["contact_sheet"]

IDENTITIES, IMAGES = 12, 8  # shown at most: rows, and images in each
TWINS, TOGETHER, REASONS = 8, 4, 8  # shown at most: groups of twins, of each, reasons

T = TypeVar("T")

_MARGIN, _SIDE, _GAP, _LABEL, _SIGN = 32, 112, 8, 216, 36  # pixels
_WIDTH = 2 * _MARGIN + _LABEL + IMAGES * (_SIDE + _GAP) - _GAP
_INNER = _WIDTH - 2 * _MARGIN


@dataclass(frozen=True)
class _Cell:
    """An image with what stands below it: who, and where it is."""

    position: int
    who: str
    where: str


def contact_sheet(listing: Listing, check: DataCheck) -> Image.Image:
    """Up to 12 identities with up to 8 images each; below them, what was found.

    The identities are evenly chosen between those with the most images and those with the fewest,
    and an identity's images between its first and its last.

    check: what `check_data` found in this listing. The images are read anew, a hundred or two.
    Pictures under two identities and repeated ones stand side by side, up to eight groups each;
    then come images that show nothing, and the names of files that cannot be read.
    """
    sheet = _Sheet(listing)
    places: dict[str, list[int]] = {}
    for position, name in enumerate(listing.names):
        places.setdefault(name, []).append(position)
    shown = _evenly(sorted(places, key=lambda name: -len(places[name])), IDENTITIES)
    sheet.title(check, len(shown))
    for name in shown:
        sheet.identity(name, places[name])
    if check.across:
        sheet.heading("Under two identities or more: one of the labels is wrong", RED)
        sheet.cells([_group(twins) for twins in check.across], TWINS)
    if check.within:
        sheet.heading("More than once under one identity", INK)
        sheet.cells([_group(twins) for twins in check.within], TWINS)
    blank = {*check.black, *check.plain}
    if blank:
        sheet.heading("Showing nothing", RED)
        cells = [
            [_cell(position, listing.names[position], path)]
            for position, path in enumerate(listing.paths)
            if path in blank
        ]
        sheet.cells(cells, IMAGES)
    if check.unreadable:
        sheet.heading("Unreadable", RED)
        sheet.reasons(check.unreadable)
    return sheet.drawn()


class _Sheet:
    """Blocks from top to bottom, collected first, so that the height is known when they are drawn.

    Each block is a height and a function that draws it, given the page and the block's top.
    """

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._reading = Reading(3, _SIDE, _SIDE, "pad")
        self._blocks: list[tuple[int, Callable[[Canvas, int], None]]] = []

    def title(self, check: DataCheck, shown: int) -> None:
        """What the sheet is of."""
        count = len(check.per_identity)
        said = f"{counted(check.images, 'image')} of {counted(count, 'identity', 'identities')}"
        if shown < count:
            said += f", {shown} of them shown"
        place = Path(check.place).resolve().name or check.place

        def draw(canvas: Canvas, top: int) -> None:
            canvas.text((_MARGIN, top), shortened(place, _INNER, 26, True), 26, bold=True)
            canvas.text((_MARGIN, top + 38), f"{said} · {check.kind}", 15, GREY)

        self._blocks.append((80, draw))

    def identity(self, name: str, places: Sequence[int]) -> None:
        """A row: the name, the number of its images, and some of them."""

        def draw(canvas: Canvas, top: int) -> None:
            above, _, last = name.rpartition("/")
            middle, wide = top + _SIDE // 2, _LABEL - 16
            if above:
                canvas.text((_MARGIN, middle - 39), shortened(f"{above}/", wide, 14), 14, GREY)
            words = shortened(last, wide, 16, True)
            canvas.text((_MARGIN, middle - 20), words, 16, bold=True)
            canvas.text((_MARGIN, middle + 3), counted(len(places), "image"), 14, GREY)
            for column, position in enumerate(_evenly(places, IMAGES)):
                left = _MARGIN + _LABEL + column * (_SIDE + _GAP)
                self._picture(canvas, (left, top), position)

        self._blocks.append((_SIDE + _GAP, draw))

    def heading(self, words: str, colour: str) -> None:
        """A line above what follows."""

        def draw(canvas: Canvas, top: int) -> None:
            canvas.rule(top + 14, _MARGIN, _WIDTH - _MARGIN)
            canvas.text((_MARGIN, top + 28), words, 18, colour, bold=True)

        self._blocks.append((64, draw))

    def cells(self, groups: Sequence[Sequence[_Cell]], most: int) -> None:
        """Groups of images, = between the images of a group, as many in a row as fit."""
        row: list[Sequence[_Cell]] = []
        used = 0
        for group in groups[:most]:
            width = len(group) * (_SIDE + _SIGN)
            if row and used + width - _SIGN > _INNER:
                self._row(row)
                row, used = [], 0
            row.append(group)
            used += width
        self._row(row)
        self._more(len(groups) - most)

    def reasons(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Lines of text: which file, and why."""
        for path, why in pairs[:REASONS]:

            def draw(canvas: Canvas, top: int, path: str = path, why: str = why) -> None:
                third = _INNER // 3
                canvas.text((_MARGIN, top), shortened(path, third - 16, 14), 14)
                words = shortened(why, 2 * third, 14)
                canvas.text((_MARGIN + third, top), words, 14, GREY)

            self._blocks.append((24, draw))
        self._more(len(pairs) - REASONS)

    def drawn(self) -> Image.Image:
        """The page."""
        height = 2 * _MARGIN + sum(height for height, _ in self._blocks)
        canvas, top = Canvas(_WIDTH, height), _MARGIN
        for height, draw in self._blocks:
            draw(canvas, top)
            top += height
        return canvas.image

    def _row(self, groups: Sequence[Sequence[_Cell]]) -> None:
        def draw(canvas: Canvas, top: int) -> None:
            left = _MARGIN
            for group in groups:
                for place, cell in enumerate(group):
                    if place:
                        canvas.between((left - _SIGN // 2, top + _SIDE // 2), "=")
                    self._picture(canvas, (left, top), cell.position)
                    wide = _SIDE + _SIGN - 16
                    canvas.text((left, top + _SIDE + 6), shortened(cell.who, wide, 13, True), 13)
                    where = shortened(cell.where, wide, 12)
                    canvas.text((left, top + _SIDE + 24), where, 12, GREY)
                    left += _SIDE + _SIGN

        self._blocks.append((_SIDE + 52, draw))

    def _more(self, count: int) -> None:
        if count > 0:
            self._blocks.append(
                (24, lambda canvas, top: canvas.text((_MARGIN, top), f"… {count:,} more", 14, GREY))
            )

    def _picture(self, canvas: Canvas, place: tuple[int, int], position: int) -> None:
        try:
            content = self._listing.content(position)
            canvas.picture(place, self._reading.read(content, self._listing.paths[position]))
        except DataError:
            canvas.missing(place, _SIDE)


def _group(twins: Twins) -> list[_Cell]:
    cells = zip(twins.positions, twins.names, twins.paths, strict=True)
    return [_cell(*cell) for cell in cells][:TOGETHER]


def _cell(position: int, name: str, path: str) -> _Cell:
    folder, _, file = path.rpartition("/")
    return _Cell(position, name, file if folder == name else path)


def _evenly(items: Sequence[T], most: int) -> list[T]:
    """At most so many, from the first to the last."""
    count = min(len(items), most)
    return [items[place] for place in np.linspace(0, len(items) - 1, count).round().astype(int)]
