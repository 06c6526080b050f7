"""What a reader finds in the pages and pictures that arcset makes: headings, captions, words."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from PIL.ImageDraw import ImageDraw

from contract.outside import arcset_command

__all__ = ["Drawn", "card", "drawing", "outline", "typed", "without_numbers", "write_stills"]

_NUMBER = re.compile(r"[-+−]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
_SENTENCE = re.compile(r"(?<=[.?:!]) (?=[A-Z])")
_WORD = re.compile(r"[^$]*[^\W\d_]")  # outside of formulas


def write_stills(run: Path, out: Path) -> None:
    """OUT/report.html and OUT/pictures of a run, as docs/pictures.md makes them from Python."""
    from arcset.reports import RunReport, RunView

    RunReport(title="stills", runs=[RunView(run)]).write(out, separate=True)


def typed(line: str) -> str:
    """What `arcset LINE` prints; the pages that it writes quote the line."""
    with mock.patch.object(sys, "argv", ["arcset", *line.split()]):
        return arcset_command(*line.split())[1]


def without_numbers(text: str) -> str:
    """
    >>> without_numbers("AUC 0.9918 [−1e-05, 1,000] at FAR 0.1 %")
    'AUC # [#, #] at FAR # %'
    """
    return _NUMBER.sub("#", text)


# Pages


def outline(page: Path) -> dict[str, list[str]]:
    """By heading, the sentences below it, whatever elements they stand in.

    Cells of tables are left out, not so the names of their rows and columns; of a picture its
    description is there, in brackets; of listings only commands are. The first item holds the
    headings in their order.
    """
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    found = {heading: _sentences("".join(pieces)) for heading, pieces in reader.found.items()}
    return {"headings": list(found), **found}


def _sentences(text: str) -> list[str]:
    blocks = [" ".join(block.split()) for block in text.split("\0")]
    split = ([block] if block.startswith("[") else _SENTENCE.split(block) for block in blocks)
    return [sentence for sentences in split for sentence in sentences if sentence]


class _Reader(HTMLParser):
    _HEADINGS = ("h1", "h2")
    _INLINE = ("a", "b", "code", "em", "i", "small", "span")
    _SILENT = ("pre", "script", "style", "td", "title", *_HEADINGS)

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {"": []}
        self._heading = ""
        self._within = [""]  # the innermost of the silent elements comes last

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._SILENT or (tag == "ul" and "confusions" in list(self.found)[-1]):
            self._within.append(tag)  # which samples are confused is not the same everywhere
        if self._within[-1] == "ul":
            return
        if tag == "img":
            # Which model is compared with the others depends on which comes out best.
            shown = re.sub(r".+ against .+", "… against …", dict(attrs)["alt"] or "")
            self._say(f"[{shown}]\0")
        elif tag not in self._INLINE:
            self._say("\0")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._within[-1]:
            self._within.pop()
        if tag in self._HEADINGS:
            heading = " ".join(self._heading.split())
            assert heading not in self.found, f"two sections are called {heading!r}"
            self.found[heading], self._heading = [], ""
        if tag not in self._INLINE:
            self._say("\0")

    def handle_data(self, data: str) -> None:
        inner = self._within[-1]
        if inner in self._HEADINGS:
            self._heading += data
        elif not inner or (inner == "pre" and data.startswith("arcset ")):
            self._say(data)

    def _say(self, text: str) -> None:
        list(self.found.values())[-1].append(text)


def card(path: Path) -> dict[str, list[str]]:
    """By heading, the lines of a model card, without tables, listings and numbers; see `outline`.

    Before the first heading come the keys of the front matter.
    """
    _, front, text = path.read_text(encoding="utf-8").split("---\n", 2)
    found = {"": re.findall(r"^[a-z_]+(?=:)", front, re.MULTILINE)}
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for part in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
        heading, *lines = part.splitlines()
        said = [line for line in lines if line and not line.startswith("|")]
        found[heading] = [without_numbers(line) for line in said]
    return {"headings": list(found), **found}


# Pictures


class Drawn:
    """What was drawn: figures of matplotlib, and the words in each of them and of Pillow's."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self._texts: dict[object, set[str]] = {}

    @property
    def words(self) -> list[list[str]]:
        """By picture, the texts that hold a word, sorted and with # for numbers."""
        return [sorted(filter(_WORD.match, texts)) for texts in self._texts.values()]

    def begin(self, canvas: FigureCanvasAgg) -> None:
        """A figure is drawn, for the first time or again."""
        if canvas.figure not in self.figures:
            self.figures.append(canvas.figure)

    def read(self, text: str, picture: object = None) -> None:
        """A text is drawn in a picture, or in the newest figure."""
        texts = self._texts.setdefault(picture or self.figures[-1], set())
        texts.add(" ".join(without_numbers(text).split()))


@contextmanager
def drawing() -> Iterator[Drawn]:
    """Watch what matplotlib and Pillow draw meanwhile."""
    drawn = Drawn()

    def watched(owner: type, name: str, watch: Callable[..., None]) -> Any:
        original = getattr(owner, name)

        def method(*arguments: Any, **options: Any) -> Any:
            watch(*arguments)
            return original(*arguments, **options)

        return mock.patch.object(owner, name, method)

    with (
        watched(FigureCanvasAgg, "draw", drawn.begin),
        watched(RendererAgg, "draw_text", lambda renderer, gc, x, y, s, *_: drawn.read(s)),
        watched(ImageDraw, "text", lambda draw, xy, text, *_: drawn.read(text, draw)),
    ):
        yield drawn
