"""What training reports to: plain lines, curves for TensorBoard. And the signals that stop it."""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from types import FrameType
from typing import Any

from arcset.errors import OptionError
from arcset.launch import is_main_process
from arcset.text import HALF_MINUTE, duration, progress_lines

_SHORT = 1.0  # seconds: shorter epochs do not get a line each …
_APART = 5.0  # … but one so many seconds after the last
_FLUSH = 10  # seconds that a curve may lag behind training


@dataclass(frozen=True)
class Step:
    """One step of training, just done.

    step: how many are done. loss, rate: of this one. images_per_second: in this epoch so far.
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
    """Told about every step and every epoch of a run; override what you want to hear of."""

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
        """Entered while something else takes time, such as measuring."""
        return nullcontext()


Silent = Watcher


class Watchers(Watcher):
    """Passes everything on to several watchers."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self.watchers = watchers

    def started(self, name: str, done: int, steps: int) -> None:
        self._tell("started", name, done, steps)

    def stepped(self, now: Step) -> None:
        self._tell("stepped", now)

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        self._tell("epoch_ended", metrics)

    def warned(self, text: str) -> None:
        self._tell("warned", text)

    def noted(self, text: str) -> None:
        self._tell("noted", text)

    def reading(self, done: int, total: int) -> None:
        self._tell("reading", done, total)

    def _tell(self, event: str, *news: Any) -> None:
        for watcher in self.watchers:
            getattr(watcher, event)(*news)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        with ExitStack() as stack:
            for watcher in self.watchers:
                stack.enter_context(watcher.working(text))
            yield


class Lines(Watcher):
    """Prints plain lines, for logs and for Python: one per epoch, and at least one every half
    minute. Epochs of less than a second share a line.

    write: takes each line; if left out, they go to stderr, of several processes the first one's.
    """

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write or _to_stderr
        self._count = progress_lines("reading images", self._write)

    def started(self, name: str, done: int, steps: int) -> None:
        self._steps, self._first, self._step = steps, done, done
        self._began = self._written = self._epoch_began = time.monotonic()
        before = f", {done:,} of them done before" if done else ""
        self._write(f"{name}: {steps:,} {'step' if steps == 1 else 'steps'}{before}")

    def stepped(self, now: Step) -> None:
        self._step, self._speed = now.step, now.images_per_second
        if time.monotonic() - self._written >= HALF_MINUTE:
            self._write_line(f"step {now.step:,}/{self._steps:,}", f"loss {now.loss:.3f}")

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        now, epoch = time.monotonic(), metrics["epoch"]
        took, self._epoch_began = now - self._epoch_began, now
        is_end = epoch == 1 or self._step == self._steps
        if not (is_end or took > _SHORT or now - self._written >= _APART):
            return
        parts = [f"loss {metrics['loss']:.3f}"]
        if "validation" in metrics:
            parts.append(f"validation recall {metrics['validation']['recall']:.3f}")
        elif "test_accuracy" in metrics:
            parts.append(f"test accuracy {metrics['test_accuracy']:.3f}")
        epochs = round(self._steps * epoch / self._step) if self._step else epoch
        self._write_line(f"epoch {epoch}/{epochs}", *parts)

    def warned(self, text: str) -> None:
        self._write(f"warning: {text}")

    def noted(self, text: str) -> None:
        self._write(text)

    def reading(self, done: int, total: int) -> None:
        self._count(done, total)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        self._write(f"{text} …")
        yield

    def _write_line(self, *parts: str) -> None:
        self._written = time.monotonic()
        parts = (*parts, f"{self._speed:,.0f} images/s")
        left = self._steps - self._step
        if left:
            each = (self._written - self._began) / max(1, self._step - self._first)
            parts = (*parts, f"about {duration(each * left, about=True)} left")
        self._write("  ".join(parts))


def _to_stderr(text: str) -> None:
    if is_main_process():
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class TensorBoardWatcher(Watcher):
    """Writes curves into event files in `folder`, for `tensorboard --logdir RUN`.

        step/...     loss, learning_rate, images_per_second, target_degrees, other_degrees
        epoch/...    the numbers of a line of metrics.jsonl
        validation/… those of a dict in that line, under its name; whichever dicts there are
        warning      text

    All of them over the number of steps done, so that a resumed run continues its curves: what an
    earlier process wrote beyond the point of resumption is hidden. A folder that held another run
    shows the new one only. The names of event files hold the name of the machine, as TensorBoard
    wants it.

    Close it, or use it in a `with` statement, so that the last figures reach the file. Raises
    `OptionError` where tensorboard is not installed.
    """

    def __init__(self, folder: Path | str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # takes a second, and is an extra
        except ImportError:
            raise OptionError(
                "curves for TensorBoard need a package that is not installed: "
                "pip install 'arcset[tensorboard]'"
            ) from None
        self._make = SummaryWriter
        self._folder = Path(folder)
        self._writer: SummaryWriter | None = None
        self._early: list[str] = []  # warnings from before the start, which tells the step
        self._step = 0

    def __enter__(self) -> "TensorBoardWatcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left; nothing where nothing was started."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def started(self, name: str, done: int, steps: int) -> None:
        """Open a new event file that takes over after `done` steps."""
        self.close()
        self._step = done
        self._writer = self._make(
            log_dir=str(self._folder), purge_step=done + 1 if done else 0, flush_secs=_FLUSH
        )
        early, self._early = self._early, []
        for text in early:
            self.warned(text)

    def stepped(self, now: Step) -> None:
        self._step = now.step
        self._write(
            {
                "step/loss": now.loss,
                "step/learning_rate": now.rate,
                "step/images_per_second": now.images_per_second,
                "step/target_degrees": now.target_degrees,
                "step/other_degrees": now.other_degrees,
            }
        )

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        flat = {key: value for key, value in metrics.items() if not isinstance(value, Mapping)}
        nested = {key: value for key, value in metrics.items() if isinstance(value, Mapping)}
        self._write({"epoch": flat, **nested})
        if self._writer is not None:
            self._writer.flush()

    def warned(self, text: str) -> None:
        if self._writer is None:
            self._early.append(text)
            return
        self._writer.add_text("warning", text, self._step)
        self._writer.flush()

    def _write(self, content: Mapping[str, Any]) -> None:
        if self._writer is not None:
            for tag, value in scalars(content):
                self._writer.add_scalar(tag, value, self._step)


def scalars(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The finite numbers in nested dicts, each under the path that leads to it.

    Truth counts as 1 and 0; text, lists, None and NaN are no points of a curve and are left out.

        >>> list(scalars({"epoch": 2, "validation": {"recall": 0.5, "auc": None}, "note": "slow"}))
        [('epoch', 2.0), ('validation/recall', 0.5)]
    """
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from scalars(value, f"{prefix}{key}/")
        elif isinstance(value, Real) and math.isfinite(value):
            yield f"{prefix}{key}", float(value)


class StopRequest:
    """Whether training was asked to stop. It then ends its step, writes a checkpoint and leaves."""

    is_set = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first is a request, the second is obeyed at once."""
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Within the block, Ctrl-C and the SIGTERM of schedulers set the request instead of ending the
    process. Signals reach the main thread only: in others it is never set."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            if handler is not None:  # one that was not installed from Python cannot be put back
                signal.signal(number, handler)
