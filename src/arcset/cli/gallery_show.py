"""Galleries on a terminal: columns that fit, names as they are, progress."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from arcset.cli.output import counting
from arcset.text import printable

__all__ = ["columns", "plain", "progress_bar"]

_LEAST = 8  # cells that a column keeps, whatever else there is


def plain(text: object) -> str:
    """One line that does nothing to the terminal: paths may hold anything.

    >>> plain("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return printable(str(text)).replace("\n", "?").replace("\t", "?")


def columns(
    heading: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    """Aligned lines, as wide as the terminal at most: the widest column gives way, the first one at
    its left end, others at their right ends. Elsewhere they are as wide as they need be.

    right: the columns whose text stands at the right, as numbers do.
    """
    table = [[plain(cell) for cell in row] for row in (heading, *rows)]
    widths = [max(cell_len(row[place]) for row in table) for place in range(len(heading))]
    if sys.stdout.isatty():
        _squeeze(widths, shutil.get_terminal_size().columns)
    lines = []
    for row in table:
        cells = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            fitting = _fit(cell, width, keep_end=place == 0)
            space = " " * (width - cell_len(fitting))
            cells.append(space + fitting if place in right else fitting + space)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _squeeze(widths: list[int], total: int) -> None:
    """Make columns narrower until they fit, whichever is widest."""
    room = total - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1


def _fit(text: str, width: int, *, keep_end: bool) -> str:
    """`text` in at most so many cells, with an ellipsis for what is left out.

    >>> _fit("photos/anna/1.jpg", 10, keep_end=True), _fit("anna karenina", 8, keep_end=False)
    ('…nna/1.jpg', 'anna ka…')
    """
    if cell_len(text) <= width:
        return text
    if not keep_end:
        return chop_cells(text, width - 1)[0] + "…"
    return "…" + chop_cells(text[::-1], width - 1)[0][::-1]


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to be told how many are done of how many; shows a bar, or in a log plain lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield counting(what)
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
