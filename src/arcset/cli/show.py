"""What people see: tables on stdout, notes and progress on stderr."""

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from arcset.numerics import finite
from arcset.training.processes import is_chief
from arcset.training.progress import Step

__all__ = [
    "ProgressBars",
    "comparison_table",
    "print_json",
    "print_table",
    "print_text",
    "say",
    "tell_skipped",
    "working",
]

_NAMED = 5  # skipped files that are named


def say(text: str) -> None:
    """One line on stderr, wrapped by nobody and coloured by nobody."""
    _console(soft_wrap=True, emoji=False).print(text, markup=False, highlight=False)


def _console(**options: Any) -> Console:
    """On stderr; of several processes that train together the first speaks for all."""
    return Console(stderr=True, quiet=not is_chief(), **options)


def tell_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Which files could not be read, and why; the first few by name."""
    if not skipped:
        return
    count = len(skipped)
    say(f"skipped {count:,} {'file' if count == 1 else 'files'} that cannot be read:")
    for path, why in skipped[:_NAMED]:
        say(f"  {path}: {why}")
    if count > _NAMED:
        say(f"  … and {count - _NAMED:,} more; see `arcset data check`")


def print_json(content: Any) -> None:
    """One JSON object on stdout; infinite values and NaN, which JSON lacks, become null."""
    sys.stdout.write(json.dumps(finite(content), indent=2, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """Plain lines on stdout, as they are."""
    sys.stdout.write(text + "\n")


def print_table(table: Table) -> None:
    """A table on stdout, as wide as it needs where nobody looks at a terminal."""
    console = Console()
    Console(width=console.width if console.is_terminal else 120).print(table)


def working(text: str) -> Status:
    """A spinner on stderr while something takes a moment."""
    return _console().status(text)


class ProgressBars:
    """Watches runs with one bar each on stderr: loss, angles, images per second, time left."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            # Whatever room the figures leave: they tell more than the bar.
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=_console(),
            expand=True,
        )
        self._note: list[str] = []
        self._validated = False
        self._read: TaskID | None = None

    def __enter__(self) -> "ProgressBars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def started(self, name: str, done: int, steps: int) -> None:
        """A new bar for a new run."""
        self._note, self._validated = [], False
        self._task = self._progress.add_task(name, completed=done, total=steps, note="")

    def reading(self, done: int, total: int) -> None:
        """A bar for the images that are read before training begins."""
        if self._read is None:
            self._read = self._progress.add_task("reading images", total=total, note="")
        self._progress.update(self._read, completed=done, total=total)

    def stepped(self, now: Step) -> None:
        """Move the bar."""
        parts = [f"loss {now.loss:.3f}"]
        if now.target_degrees is not None and now.other_degrees is not None:
            parts.append(f"own {now.target_degrees:.0f}° other {now.other_degrees:.0f}°")
        parts.append(f"{now.images_per_second:,.0f}/s")
        note = "  ".join([*parts, *self._note])
        self._progress.update(self._task, completed=now.step, note=note)

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        """Show from now on how well held-out identities, or test images, are recognized."""
        if "validation" in metrics:
            self._note = [f"recall {metrics['validation']['recall']:.3f}"]
            self._validated = True
        elif "test_accuracy" in metrics and not self._validated:
            self._note = [f"test {metrics['test_accuracy']:.3f}"]

    def warned(self, text: str) -> None:
        """Above the bars, where it stays."""
        self._progress.console.print(f"warning: {text}", markup=False, highlight=False)


def comparison_table(summary: dict[str, dict[str, dict[str, float]]], title: str) -> Table:
    """The comparison as people read it: mean ± half the range over the seeds."""
    columns = {
        "accuracy": ("accuracy", 3),
        "dunn": ("Dunn", 1),
        "dunn_trimmed": ("Dunn trimmed", 1),
        "dunn_trimmed_unit": ("… on unit", 1),
        "unseen_auc": ("unseen AUC", 3),
    }
    table = Table(title=Text(title), title_justify="left")
    table.add_column("loss")
    for heading, _ in columns.values():
        table.add_column(heading, justify="right")
    for label, measures in summary.items():
        cells = [_cell(measures.get(name), digits) for name, (_, digits) in columns.items()]
        table.add_row(Text(label), *cells)
    return table


def _cell(measure: dict[str, float] | None, digits: int) -> str:
    if measure is None:
        return "–"
    mean, low, high = (measure[key] for key in ("mean", "low", "high"))
    if not math.isfinite(mean):
        return "∞" if mean > 0 else "?"
    text = f"{mean:.{digits}f}"
    return text if low == high else f"{text} ± {(high - low) / 2:.{digits}f}"
