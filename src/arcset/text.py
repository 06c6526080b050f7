"""Words for people: plurals, percents, durations, sentences, and text that is safe to print."""

import html
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from rich.cells import cell_len, chop_cells

_NAMED = 5  # skipped files that are named
HALF_MINUTE = 30.0  # seconds that a log stays silent, at most

# A path from the root, or from somebody's home, within other text such as `weights=/a/b/c`.
_ROOTED = re.compile(
    r"""(?<![^\s=:,;'"(\[])(?:~[^\s/,;]*)?/(?!/)(?:[^\s/,;'")\]]+/)*([^\s/,;'")\]]+)"""
)
_NARROWEST = 8  # cells that a column keeps, whatever else there is
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def plural(number: int, one: str, several: str = "") -> str:
    """A number and what it counts.

    >>> plural(1, "identity", "identities"), plural(1600, "image")
    ('1 identity', '1,600 images')
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def percent(share: float, digits: int | None = None) -> str:
    """A share in percent: with so many digits, or as many as it has.

    >>> percent(0.12345, 2), percent(0.001), percent(1e-6)
    ('12.35 %', '0.1 %', '0.0001 %')
    """
    text = f"{100 * share:.4g}" if digits is None else f"{100 * share:.{digits}f}"
    return f"{text} %"


def duration(seconds: float, *, about: bool = False) -> str:
    """A time as people say it; with `about`, in one unit below an hour.

    >>> duration(3.21), duration(200), duration(7500)
    ('3.2 s', '3 min 20 s', '2 h 5 min')
    >>> duration(0.2, about=True), duration(75, about=True), duration(200, about=True)
    ('1 s', '75 s', '3 min')
    """
    if about and seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, left = divmod(minutes + (about and rest >= 30), 60)
    if hours:
        return f"{hours:,} h {left} min"
    if about:
        return f"{left} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def sentence(text: object) -> str:
    """Text, or what an error says, with a capital and a full stop.

    >>> sentence("two identities are too few")
    'Two identities are too few.'
    """
    line = " ".join(str(text).split())
    return line[:1].upper() + line[1:] + ("" if line.endswith((".", "!", "?", "…")) else ".")


def printable(text: str) -> str:
    """Text that does nothing to the terminal but fill its lines: names in files may hold anything.

    >>> printable("anna\\x1b[2J\\nben")
    'anna?[2J\\nben'
    """
    if text.isprintable():  # quick, and true of nearly all texts
        return text
    return "".join("?" if _acts(letter) else letter for letter in text)


def _acts(letter: str) -> bool:
    """Whether a terminal would obey a character, or write what follows in another direction."""
    kind = unicodedata.category(letter)
    turns = unicodedata.bidirectional(letter) in _TURNING or letter in "\u200e\u200f\u061c"
    return letter not in "\n\t" and (kind in ("Cc", "Cs", "Zl", "Zp") or turns)


def progress_lines(what: str, write: Callable[[str], None]) -> Callable[[int, int], None]:
    """For logs: takes how many are done of how many, and says so at first and each half minute.

    What is done at once leaves no line.
    """
    began, said = time.monotonic(), 0.0

    def count(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if (done >= total and not said) or (said and now - said < HALF_MINUTE):
            return
        left = (now - began) / done * (total - done) if said and done else 0
        more = f", about {duration(left, about=True)} left" if left else ""
        said = now
        write(f"{what}: {done:,} of {total:,}{more}")

    return count


def one_line(text: object) -> str:
    """One line that does nothing to the terminal: paths may hold anything.

    >>> one_line("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return printable(str(text)).replace("\n", "?").replace("\t", "?")


def skipped_lines(
    skipped: Mapping[Any, str] | Sequence[tuple[str, str]],
    *,
    count: int | None = None,
    more: str = "see `arcset data check`",
) -> list[str]:
    """Which files could not be read, and why; the first few by name.

    count: of all of them, where `skipped` has the first only. more: where the others are named.
    """
    pairs = list(skipped.items()) if isinstance(skipped, Mapping) else skipped
    count = len(pairs) if count is None else count
    if not count:
        return []
    lines = [f"skipped {plural(count, 'file')}:"]
    lines += [f"  {one_line(path)}: {one_line(why)}" for path, why in pairs[:_NAMED]]
    return lines + ([f"  … and {count - _NAMED:,} more; {more}"] if count > _NAMED else [])


def html_table(
    rows: Iterable[Sequence[str]], heading: Sequence[str] = (), caption: str = ""
) -> str:
    """A table for notebooks, the first cell of each row its name.

    >>> html_table([["AUC", "0.9 < 1"]])
    '<table><tr><th>AUC</th><td>0.9 &lt; 1</td></tr></table>'
    """
    lines = [[("th", cell) for cell in heading]] if heading else []
    lines += [[("td" if number else "th", cell) for number, cell in enumerate(row)] for row in rows]
    cells = ("".join(f"<{tag}>{html.escape(cell)}</{tag}>" for tag, cell in line) for line in lines)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"


def without_folders(text: str) -> str:
    """Text in which a path from the root, or from a home, is shortened to its last part.

    >>> without_folders("/home/anna/faces"), without_folders("init=~/a/b.safetensors")
    ('faces', 'init=b.safetensors')
    >>> without_folders("Latin/*"), without_folders("https://a.org/b")  # these tell of no machine
    ('Latin/*', 'https://a.org/b')
    """
    for kind in (PureWindowsPath, PurePosixPath):
        path = kind(text)
        if path.drive or path.is_absolute() or text.startswith("~"):
            return path.name
    return _ROOTED.sub(r"\1", text)


def columns(
    heading: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    """Aligned lines, as wide as the terminal at most: the widest column gives way, the first one at
    its left end, others at their right ends. Elsewhere they are as wide as they need be.

    right: the columns whose text is aligned at the right, as numbers are.
    """
    table = [[one_line(cell) for cell in row] for row in (heading, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns - 2 * (len(widths) - 1)
        while sum(widths) > room and max(widths) > _NARROWEST:
            widths[widths.index(max(widths))] -= 1
    lines = []
    for row in table:
        cells = []
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            text = _shorten(cell, width, keep_end=number == 0)
            space = " " * (width - cell_len(text))
            cells.append(space + text if number in right else text + space)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _shorten(text: str, width: int, *, keep_end: bool) -> str:
    """`text` in at most so many cells, with an ellipsis for what is left out.

    >>> _shorten("photos/anna/1.jpg", 10, keep_end=True)
    '…nna/1.jpg'
    >>> _shorten("anna karenina", 8, keep_end=False)
    'anna ka…'
    """
    if cell_len(text) <= width:
        return text
    if not keep_end:
        return chop_cells(text, width - 1)[0] + "…"
    return "…" + chop_cells(text[::-1], width - 1)[0][::-1]
