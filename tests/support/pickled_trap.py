"""A pickle that leaves a trace when somebody unpickles it."""

from pathlib import Path

import torch


class _Trap:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return (Path.touch, (self.trace,))


def pickled_trap(path: Path) -> Path:
    """Write what torch.save makes of a trap: unpickled, it creates `path` with .ran behind it."""
    trace = path.with_name(path.name + ".ran")
    torch.save({"weight": torch.zeros(3), "trap": _Trap(trace)}, path)
    torch.load(path, weights_only=False)  # it does work
    assert trace.exists()
    trace.unlink()
    return path
