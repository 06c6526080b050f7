"""What training tells whoever watches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Several", "Silent", "Step", "Watcher"]


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


class Watcher(Protocol):
    """Told about every step and every epoch of a run."""

    def started(self, name: str, done: int, steps: int) -> None:
        """A run begins: its name, the steps done before (when resumed) and all steps."""

    def stepped(self, now: Step) -> None:
        """A step is done."""

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        """An epoch ended; `metrics` is its line in metrics.jsonl."""

    def warned(self, text: str) -> None:
        """Something looks wrong; training goes on."""


class Silent:
    """A watcher that looks away."""

    def started(self, name: str, done: int, steps: int) -> None:
        """Nothing."""

    def stepped(self, now: Step) -> None:
        """Nothing."""

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        """Nothing."""

    def warned(self, text: str) -> None:
        """Nothing."""


class Several:
    """Passes everything on to several watchers."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self.watchers = watchers

    def started(self, name: str, done: int, steps: int) -> None:
        """To all."""
        for watcher in self.watchers:
            watcher.started(name, done, steps)

    def stepped(self, now: Step) -> None:
        """To all."""
        for watcher in self.watchers:
            watcher.stepped(now)

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        """To all."""
        for watcher in self.watchers:
            watcher.epoch_ended(metrics)

    def warned(self, text: str) -> None:
        """To all."""
        for watcher in self.watchers:
            watcher.warned(text)
