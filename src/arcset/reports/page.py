"""Pages: one HTML file each, made from a Jinja2 template, that needs nothing else to be read.

Every page extends `templates/base.html`; its macros (`section`, `table`) are in
`templates/parts.html`. Whatever a template inserts is escaped. Nothing in a page is a date, a path
or a machine's name, so the same input gives the same bytes.
"""

import base64
import hashlib
import io
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from matplotlib.figure import Figure
from PIL import Image

from arcset.files import write_text
from arcset.reports.style import pixels
from arcset.text import percent, without_folders

T = TypeVar("T")

THUMBNAIL = 40  # largest side in pixels; small images stay as they are


@dataclass(frozen=True)
class Picture:
    """A picture within a page: src is a data URI, alt says what it shows."""

    src: str
    width: int
    height: int
    alt: str = ""


@dataclass(frozen=True, eq=False)
class Section:
    """A heading with figures and how to read them.

    figures: matplotlib figures, or the bytes of PNG images.
    meaning, misleads: what the figures say, and when one would read too much into them.
    rows: a table below the figures, its first row the heading.
    alts: what each figure shows, for those who do not see it; the title where not given.
    """

    title: str
    figures: Sequence[Figure | bytes]
    meaning: str
    misleads: str
    rows: Sequence[Sequence[str]] = ()
    alts: Sequence[str] = ()

    @property
    def pictures(self) -> list[Picture]:
        """The figures, ready for a page."""
        alts = [*self.alts, *[self.title] * (len(self.figures) - len(self.alts))]
        return [embed_figure(figure, alt) for figure, alt in zip(self.figures, alts, strict=True)]


def choose_evenly(items: Sequence[T], most: int) -> list[T]:
    """At most so many, from the first to the last.

    >>> choose_evenly("abcdefghi", 3)
    ['a', 'e', 'i']
    """
    positions = np.linspace(0, len(items) - 1, min(len(items), most)).round().astype(int)
    return [items[position] for position in positions]


def render(template: str, **context: Any) -> str:
    """The text of `templates/TEMPLATE` with `context` filled in; escaped where it ends in .html.

    In every template `read(name, …)` is the text of files of this package, as markup, and
    `text | digest` its hash as a content security policy wants it.
    """
    return _environment().get_template(template).render(**context)


def write_page(path: Path, template: str, **context: Any) -> None:
    """`render` into the file `path`, which is written whole or left as it was."""
    write_text(path, render(template, **context))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("arcset.reports"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters["digest"] = _digest
    environment.filters["portable"] = _portable
    environment.filters["percent"] = percent
    environment.globals["read"] = _read
    return environment


def _read(*names: str) -> Markup:
    folder = files("arcset.reports")
    return Markup("".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names))


def _portable(command: str) -> str:
    """A command line without the folders of this machine."""
    return shlex.join(without_folders(word) for word in shlex.split(command))


def _digest(text: str) -> Markup:
    """For the page's security policy: only this very text may run or style."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(f"sha256-{digest}")  # base64


# Pictures within a page


def encode_figure(figure: Figure | bytes) -> bytes:
    """A figure as PNG with at most 256 colours, a third of the size and the same to look at."""
    if not isinstance(figure, Figure):
        return figure
    picture = Image.fromarray(pixels(figure)).convert("RGB")
    return _png(picture.quantize(256, dither=Image.Dither.NONE))


def embed_figure(figure: Figure | bytes, alt: str = "") -> Picture:
    """A matplotlib figure, or the bytes of a PNG, within a page."""
    content = encode_figure(figure)
    with Image.open(io.BytesIO(content)) as image:
        return Picture(_data_uri("image/png", content), *image.size, alt)


def embed_image(image: npt.NDArray[np.uint8], alt: str = "") -> Picture:
    """An image (H, W) or (H, W, 3): as JPEG, or as PNG where that is smaller, as for drawings."""
    picture, jpeg, png = Image.fromarray(image), io.BytesIO(), io.BytesIO()
    picture.save(jpeg, "JPEG", quality=82)
    picture.save(png, "PNG")
    kind, content = min(
        (("image/jpeg", jpeg.getvalue()), ("image/png", png.getvalue())),
        key=lambda item: len(item[1]),
    )
    return Picture(_data_uri(kind, content), *picture.size, alt)


def sprite_sheet(images: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """All images (N, H, W[, 3]) on one PNG, row by row: its URL, columns, and tile size."""
    tiles = [Image.fromarray(image) for image in images]
    for tile in tiles:
        tile.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
    width, height = tiles[0].size
    columns = math.ceil(math.sqrt(len(tiles)))
    sheet = Image.new(tiles[0].mode, (columns * width, math.ceil(len(tiles) / columns) * height))
    for number, tile in enumerate(tiles):
        sheet.paste(tile, (number % columns * width, number // columns * height))
    colours = 16 if sheet.mode == "L" else 256
    content = _png(sheet.quantize(colours, dither=Image.Dither.NONE))
    url = _data_uri("image/png", content)
    return {"url": url, "columns": columns, "width": width, "height": height}


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    # The next level takes five times as long, for some hundredths of the size.
    image.save(file, format="PNG", compress_level=8)
    return file.getvalue()


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
