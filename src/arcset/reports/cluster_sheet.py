"""A contact sheet of groups: one page that shows who was put together with whom."""

import base64
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.files import write_text
from arcset.reports.report.page import digest

__all__ = ["GROUPS", "PICTURES", "SheetGroup", "SheetPicture", "evenly", "write_cluster_sheet"]

#: Shown at most: groups, pictures of each, and pictures that are alone.
GROUPS, PICTURES, ALONE = 200, 24, 60

T = TypeVar("T")

_WIDE = 6  # pictures from which on a group takes the whole width


@dataclass(frozen=True, eq=False)
class SheetPicture:
    """One picture: pixels (H, W) or (H, W, 3), a name that tells where it is, and whom it shows.

    pixels: None where it cannot be shown. label: None where nobody says.
    """

    pixels: npt.NDArray[np.uint8] | None
    name: str
    label: str | None = None


@dataclass(frozen=True, eq=False)
class SheetGroup:
    """Some pictures of a group.

    number: of the group, as elsewhere. size: how many are in it. labels: of all that are, where
    they are known. pictures: those to show.
    """

    number: int
    size: int
    labels: Counter[str]
    pictures: Sequence[SheetPicture]

    @property
    def usual(self) -> str | None:
        """The label that most of the group have; None where nobody has one."""
        return max(self.labels, key=lambda name: (self.labels[name], name), default=None)


def write_cluster_sheet(
    out: Path,
    groups: Sequence[SheetGroup],
    alone: Sequence[SheetPicture],
    *,
    title: str,
    lead: Sequence[str],
    count: tuple[int, int],
    command: str = "",
) -> None:
    """Write `out`: one HTML file that needs nothing else, light or dark as the reader's system is.

    groups: of several pictures each, in the order in which they are shown; `GROUPS` at most.
    alone: pictures that belong to no group, as many as are to be shown.
    lead: lines about what was done and how well. command: how to do it again.
    count: how many groups of several pictures, and how many pictures alone, there are in all.

    The page holds no script. The same input gives the same bytes.
    """
    style = _read("arcset.reports", "templates/style.css")
    mixed = any(len(group.labels) > 1 for group in groups)
    page = Template(_read("arcset.reports", "cluster_sheet.html")).substitute(
        title=escape(title),
        style=style,
        style_hash=digest(style),
        lead="".join(f"<p>{escape(line[:1].upper() + line[1:])}.</p>" for line in lead),
        key=_KEY if mixed else "",
        groups="\n".join(_group(group) for group in groups)
        + _more(count[0] - len(groups), "group", "groups"),
        alone=_alone(alone, count[1]),
        command=f"<section><h2>Make it again</h2><pre>{escape(command)}</pre></section>"
        if command
        else "",
    )
    write_text(out, page)


def evenly(items: Sequence[T], most: int) -> list[T]:
    """At most so many, from the first to the last.

    >>> evenly("abcdefghi", 3)
    ['a', 'e', 'i']
    """
    count = min(len(items), most)
    return [items[place] for place in np.linspace(0, len(items) - 1, count).round().astype(int)]


_KEY = (
    '<p class="key">Folders say who is who: pictures that are <span class="odd">marked</span> come '
    "from another folder than most of their group. The most typical picture of a group comes first."
    "</p>"
)


def _group(group: SheetGroup) -> str:
    said = f"{group.size:,} pictures"
    if group.usual is not None:
        others = len(group.labels) - 1
        said += (
            f" · {group.usual}"
            if not others
            else (
                f" · {group.labels[group.usual]:,} of {group.usual}, "
                f"{group.labels.total() - group.labels[group.usual]:,} of {others:,} "
                f"{'other' if others == 1 else 'others'}"
            )
        )
    wide = " wide" if len(group.pictures) > _WIDE else ""
    shown = "".join(_picture(picture, group.usual) for picture in group.pictures)
    return (
        f'<section class="group{wide}"><h2>Group {group.number} <small>{escape(said)}</small></h2>'
        f'<ul class="pictures">{shown}</ul>'
        f"{_more(group.size - len(group.pictures), 'picture', 'pictures')}</section>"
    )


def _alone(pictures: Sequence[SheetPicture], count: int) -> str:
    if not count:
        return ""
    shown = "".join(_picture(picture, picture.label) for picture in pictures)
    said = "1 picture is" if count == 1 else f"{count:,} pictures are"
    return (
        f"<section><h2>Alone</h2><p>{said} like no other.</p>"
        f'<ul class="pictures">{shown}</ul>'
        f"{_more(count - len(pictures), 'picture', 'pictures')}</section>"
    )


def _picture(picture: SheetPicture, usual: str | None) -> str:
    differs = picture.label is not None and picture.label != usual
    odd = ' class="odd"' if differs else ""
    caption = (str(picture.label) if differs else picture.name).rpartition("/")[2]
    name = escape(picture.name, quote=True)
    image = (
        f'<img src="{_address(picture.pixels)}" alt="{name}" loading="lazy">'
        if picture.pixels is not None
        else "cannot be shown"
    )
    return f'<li{odd} title="{name}">{image}<span>{escape(caption)}</span></li>'


def _more(count: int, one: str, several: str) -> str:
    return (
        f'<p class="more">… {count:,} more {one if count == 1 else several}</p>'
        if count > 0
        else ""
    )


def _address(pixels: npt.NDArray[np.uint8]) -> str:
    """The picture as text: as JPEG, or as PNG where that is smaller, as it is for drawings."""
    image = Image.fromarray(pixels)
    jpeg, png = io.BytesIO(), io.BytesIO()
    image.save(jpeg, "JPEG", quality=82)
    image.save(png, "PNG")
    kind, content = min(
        (("jpeg", jpeg.getvalue()), ("png", png.getvalue())), key=lambda item: len(item[1])
    )
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _read(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
