"""What training tells a watcher, and the watcher that prints plain lines."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from arcset.text import duration, progress_lines

__all__ = ["HALF_MINUTE", "Lines", "Several", "Silent", "Step", "Watcher"]

HALF_MINUTE = 30.0  # seconds without a word, at most
_SHORT = 1.0  # seconds: shorter epochs do not get a line each …
_APART = 5.0  # … but one so many seconds after the last


@dataclass(frozen=True)
class Step:
    """One step of training, just done.

    step: how many are done. loss, rate: of this one. images_per_second: over the last second or so.
    target_degrees, other_degrees: mean angle of samples to their own class's center and to the
        nearest other center, measured now and then; None for losses without centers.
    """

    step: int
    loss: float
    rate: float
    images_per_second: float
    target_degrees: float | None = None
    other_degrees: float | None = None


class Watcher:
    """Told about every step and every epoch of a run; this one looks away. Others override."""

    def started(self, name: str, done: int, steps: int) -> None:
        """A run begins: its name, the steps done before (when resumed) and all steps."""

    def stepped(self, now: Step) -> None:
        """A step is done."""

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        """An epoch ended; `metrics` is its line in metrics.jsonl."""

    def warned(self, text: str) -> None:
        """Something looks wrong; training goes on."""

    def noted(self, text: str) -> None:
        """A sentence about settings or data, before training begins or after it."""

    def reading(self, done: int, total: int) -> None:
        """So many images of the data are read, of so many."""

    def working(self, text: str) -> AbstractContextManager[None]:
        """For the while that something else takes, as measuring."""
        return nullcontext()


Silent = Watcher


class Lines(Watcher):
    """A watcher that prints plain lines, for logs and for Python: a line per epoch, and at least
    one every half minute. Epochs of less than a second share a line.

    write: takes each line; to stderr if left out.
    """

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write or _to_stderr
        self._count = progress_lines("reading images", self._write)

    def started(self, name: str, done: int, steps: int) -> None:
        """Its name, and how much there is to do."""
        self._steps, self._first, self._step = steps, done, done
        self._began = self._said = self._epoch_began = time.monotonic()
        before = f", {done:,} of them done before" if done else ""
        self._write(f"{name}: {steps:,} {'step' if steps == 1 else 'steps'}{before}")

    def stepped(self, now: Step) -> None:
        """A line where the last was half a minute ago."""
        self._step, self._speed = now.step, now.images_per_second
        if time.monotonic() - self._said >= HALF_MINUTE:
            self._tell(f"step {now.step:,}/{self._steps:,}", f"loss {now.loss:.3f}")

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        """A line for the first epoch, the last, and all in between that are not too short."""
        now, epoch = time.monotonic(), metrics["epoch"]
        took, self._epoch_began = now - self._epoch_began, now
        is_end = epoch == 1 or self._step == self._steps
        if not (is_end or took > _SHORT or now - self._said >= _APART):
            return
        parts = [f"loss {metrics['loss']:.3f}"]
        if "validation" in metrics:
            parts.append(f"validation recall {metrics['validation']['recall']:.3f}")
        elif "test_accuracy" in metrics:
            parts.append(f"test accuracy {metrics['test_accuracy']:.3f}")
        epochs = round(self._steps * epoch / self._step) if self._step else epoch
        self._tell(f"epoch {epoch}/{epochs}", *parts)

    def warned(self, text: str) -> None:
        """As it is."""
        self._write(f"warning: {text}")

    def noted(self, text: str) -> None:
        """As it is."""
        self._write(text)

    def reading(self, done: int, total: int) -> None:
        """A line at first and each half minute."""
        self._count(done, total)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """A line at the start."""
        self._write(f"{text} …")
        yield

    def _tell(self, *parts: str) -> None:
        self._said = time.monotonic()
        said = [*parts, f"{self._speed:,.0f} images/s"]
        left = self._steps - self._step
        if left:
            each = (self._said - self._began) / max(1, self._step - self._first)
            said.append(f"about {duration(each * left, about=True)} left")
        self._write("  ".join(said))


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class Several(Watcher):
    """Passes everything on to several watchers."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self.watchers = watchers

    def started(self, name: str, done: int, steps: int) -> None:
        for watcher in self.watchers:
            watcher.started(name, done, steps)

    def stepped(self, now: Step) -> None:
        for watcher in self.watchers:
            watcher.stepped(now)

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        for watcher in self.watchers:
            watcher.epoch_ended(metrics)

    def warned(self, text: str) -> None:
        for watcher in self.watchers:
            watcher.warned(text)

    def noted(self, text: str) -> None:
        for watcher in self.watchers:
            watcher.noted(text)

    def reading(self, done: int, total: int) -> None:
        for watcher in self.watchers:
            watcher.reading(done, total)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        with ExitStack() as stack:
            for watcher in self.watchers:
                stack.enter_context(watcher.working(text))
            yield
