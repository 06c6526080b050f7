"""Progress of trainings on stderr: bars on a terminal, plain lines elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from arcset.cli.output import say, stderr_console
from arcset.training.watchers import Lines, Step, Watcher

__all__ = ["show_progress"]


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
