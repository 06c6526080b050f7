"""A run's curves for TensorBoard: `tensorboard --logdir RUN`."""

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arcset.errors import OptionError
from arcset.training.progress import Step, Watcher

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["TensorBoardWatcher", "scalars"]

_FLUSH = 10  # seconds that a curve may lag behind training


class TensorBoardWatcher(Watcher):
    """A `Watcher` that writes what it is told into event files in `folder`. One run has one folder.

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
        self._make = _writer_class()
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
        """Loss, learning rate and speed; the angles when they were measured."""
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
        """All numbers of the line."""
        own = {key: value for key, value in metrics.items() if not isinstance(value, Mapping)}
        nested = {key: value for key, value in metrics.items() if isinstance(value, Mapping)}
        self._write({"epoch": own, **nested})
        if self._writer is not None:
            self._writer.flush()

    def warned(self, text: str) -> None:
        """As text, at the step that was reached."""
        if self._writer is None:
            self._early.append(text)
            return
        self._writer.add_text("warning", text, self._step)
        self._writer.flush()

    def _write(self, content: Mapping[str, Any]) -> None:
        if self._writer is None:
            raise OptionError("the watcher is closed, or the run has not started")
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


def _writer_class() -> "type[SummaryWriter]":
    try:
        from torch.utils.tensorboard import (
            SummaryWriter,
        )  # late: it takes a second, and is an extra
    except ImportError:
        raise OptionError(
            "curves for TensorBoard need a package that is not installed: "
            "pip install 'arcset[tensorboard]'"
        ) from None
    return SummaryWriter
