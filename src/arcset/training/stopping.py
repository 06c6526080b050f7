"""Asked to stop, training finishes its step, writes a checkpoint and only then ends."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Stop", "stopping"]


class Stop:
    """Whether somebody has asked."""

    asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """A signal has come: the first is a request, the second is obeyed at once."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def stopping() -> Iterator[Stop]:
    """Ctrl-C, and the SIGTERM of schedulers, set `asked` for so long instead of ending the process.

    Signals reach the main thread only: elsewhere nothing is asked.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before: dict[signal.Signals, Any] = {}
    for one in (signal.SIGINT, signal.SIGTERM):
        before[one] = signal.signal(one, stop)
    try:
        yield stop
    finally:
        for one, handler in before.items():
            if handler is not None:  # one that was not installed from Python cannot be put back
                signal.signal(one, handler)
