"""What the machine is, how much memory is free, and how much this process has used at most."""

import ctypes
import os
import platform
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import arcset

PROC = Path("/proc")


def description() -> dict[str, Any]:
    return {
        "cpu": _field(PROC / "cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": _kilobytes(PROC / "meminfo", "MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "arcset": arcset.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def available() -> int | None:
    """Bytes that can be had without swapping; None where the system does not tell."""
    return _kilobytes(PROC / "meminfo", "MemAvailable")


class Company:
    """How much of the processors others took since this was made.

    With as many threads as cores, a step with many short parallel parts waits at the end of each
    for whichever thread was put aside: company slows it down far more than its share.
    """

    def __init__(self) -> None:
        self._start = self._times()

    def share(self) -> float | None:
        """0 … 1; None where the system does not tell."""
        if self._start is None:
            return None
        everything, busy, own = (
            now - then for now, then in zip(self._times(), self._start, strict=True)
        )
        return max(0.0, busy - own) / everything if everything else 0.0

    @staticmethod
    def _times() -> tuple[float, float, float] | None:
        """Seconds of all processors, those of them not idle, and those of this process."""
        if not (PROC / "stat").exists():
            return None
        ticks = [int(field) for field in (PROC / "stat").read_text().split("\n")[0].split()[1:9]]
        second = os.sysconf("SC_CLK_TCK")
        idle = ticks[3] + ticks[4]  # and waiting for a disk
        return sum(ticks) / second, (sum(ticks) - idle) / second, time.process_time()


def resident() -> int:
    """Bytes of this process in memory now. Linux only."""
    return int((PROC / "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def trim() -> None:
    """Give freed memory back to the system, as far as the C library can."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def peak_of(work: Callable[[], None]) -> tuple[int, str]:
    """Bytes of this process at its largest during `work`, and how that was found out."""
    try:
        (PROC / "self/clear_refs").write_text("5")  # resets VmHWM
    except OSError:
        return _sampled(work), "sampled every 2 ms"
    work()
    return _kilobytes(PROC / "self/status", "VmHWM") or 0, "VmHWM"


def _sampled(work: Callable[[], None]) -> int:
    done, seen = threading.Event(), [resident()]

    def watch() -> None:
        while not done.is_set():
            seen[0] = max(seen[0], resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return seen[0]


def _kilobytes(file: Path, key: str) -> int | None:
    value = _field(file, key)
    return int(value.split()[0]) * 1024 if value else None


def _field(file: Path, key: str) -> str | None:
    if not file.exists():
        return None
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None
