"""What training tells whoever watches."""

from typing import Any, Protocol

__all__ = ["Silent", "Watcher"]


class Watcher(Protocol):
    """Told about every step and every epoch of a run."""

    def started(self, name: str, done: int, steps: int) -> None:
        """A run begins: its name, the steps done before (when resumed) and all steps."""

    def stepped(self, step: int, loss: float) -> None:
        """`step` steps are done, the last with this loss."""

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        """An epoch ended; `metrics` is its line in metrics.jsonl."""


class Silent:
    """A watcher that looks away."""

    def started(self, name: str, done: int, steps: int) -> None:
        """Nothing."""

    def stepped(self, step: int, loss: float) -> None:
        """Nothing."""

    def epoch_ended(self, metrics: dict[str, Any]) -> None:
        """Nothing."""
