"""What people see: tables on stdout, notes and progress on stderr."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Column, Table

from arcset.files import finite
from arcset.launch import is_main_process
from arcset.text import one_line, printable, progress_lines, skipped_lines
from arcset.training.watchers import Lines, Step, Watcher

_NAMED = 5  # skipped files that are named


def stderr_console() -> Console:
    """Of several processes that train together the first speaks for all."""
    return Console(stderr=True, quiet=not is_main_process())


def say(text: str, console: Console | None = None) -> None:
    """One line on stderr, as it is: neither wrapped nor coloured."""
    (console or stderr_console()).print(
        printable(text), markup=False, highlight=False, emoji=False, soft_wrap=True
    )


def tell_skipped(skipped: Mapping[Any, str] | Sequence[tuple[str, str]], **options: Any) -> None:
    """Which files could not be read, and why, as `skipped_lines` says it."""
    for line in skipped_lines(skipped, **options):
        say(line)


def tell_notes(notes: Sequence[str]) -> None:
    """Sentences about some of many files, the first few of them."""
    for note in notes[:_NAMED]:
        say(f"note: {one_line(note)}")
    if len(notes) > _NAMED:
        say(f"note: … and {len(notes) - _NAMED:,} more like this")


def print_json(content: Any) -> None:
    """One JSON object on stdout; infinite values and NaN, which JSON lacks, become null."""
    sys.stdout.write(json.dumps(finite(content), indent=2, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """Plain lines on stdout."""
    sys.stdout.write(printable(text) + "\n")


def print_result(as_json: bool, content: Any, text: str) -> None:
    """What a verb found, on stdout: for programs, or for people."""
    if as_json:
        print_json(content)
    else:
        print_text(text)


def print_table(table: Table) -> None:
    """A table on stdout, as wide as it needs where nobody looks at a terminal."""
    console = Console()
    Console(width=console.width if console.is_terminal else 120).print(_Harmless(table))


class _Harmless:
    """A table whose cells do nothing to the terminal."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in console.render(self._table, options):
            yield part if part.control else Segment(printable(part.text), part.style)


def working(text: str) -> AbstractContextManager[object]:
    """While something takes a moment: a spinner on a terminal, and nothing in a log."""
    console = stderr_console()
    return console.status(text) if console.is_terminal else nullcontext()


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function that takes how many are done of how many; shows a bar, or in a log plain lines."""
    console = stderr_console()
    if not console.is_terminal:
        yield progress_lines(what, say)
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


@contextmanager
def show_progress() -> Iterator[Watcher]:
    """A watcher of runs: bars on a terminal, plain lines elsewhere."""
    console = stderr_console()
    if not console.is_terminal:
        yield Lines(say)
        return
    bars = _Bars(console)
    with bars.progress:
        yield bars


class _Bars(Watcher):
    """One bar for each run: loss, angles, images per second, time left."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            # Whatever room the figures leave: they tell more than the bar.
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
            expand=True,
        )
        self._reading: TaskID | None = None

    def started(self, name: str, done: int, steps: int) -> None:
        self._score = ""
        self._run = self.progress.add_task(name, completed=done, total=steps, note="")

    def reading(self, done: int, total: int) -> None:
        if self._reading is None:
            self._reading = self.progress.add_task("reading images", note="")
        self.progress.update(self._reading, completed=done, total=total)

    def stepped(self, now: Step) -> None:
        parts = [f"loss {now.loss:.3f}"]
        if now.target_degrees is not None and now.other_degrees is not None:
            parts.append(f"own {now.target_degrees:.0f}° other {now.other_degrees:.0f}°")
        parts += [f"{now.images_per_second:,.0f}/s", self._score]
        self.progress.update(self._run, completed=now.step, note="  ".join(parts).rstrip())

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        """Show from now on how well held-out identities, or else test images, are recognized."""
        if "validation" in metrics:
            self._score = f"recall {metrics['validation']['recall']:.3f}"
        elif "test_accuracy" in metrics and not self._score.startswith("recall"):
            self._score = f"test {metrics['test_accuracy']:.3f}"

    def warned(self, text: str) -> None:
        say(f"warning: {text}", self.progress.console)

    def noted(self, text: str) -> None:
        """Above the bars, where it stays."""
        say(text, self.progress.console)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """A bar that moves without saying how far it is."""
        task = self.progress.add_task(text, total=None, note="")
        try:
            yield
        finally:
            self.progress.remove_task(task)
