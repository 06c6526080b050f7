"""Large buffers used again instead of being asked from the system at every step.

Fresh memory is slow on the CPU: the system hands it out page by page and zeroes each. At a million
classes that takes as long as the arithmetic. CUDA's allocator in torch keeps freed blocks for this
reason; on the CPU `Recycler` does.
"""

import os
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arcset.errors import OptionError

__all__ = ["Recycler", "check_room", "free_memory"]

_WORTHWHILE = 2**20  # bytes; the system's own allocator is good at smaller blocks
_LONGER = 32
_LARGE = 1 << 30  # bytes from which on it is asked how much memory is free
_KEPT = 4  # free blocks at most: logits, gradient, and room for one chunk there and back


class Recycler:
    """Hands out uninitialized tensors; their memory returns when the last reference to it is gone.

    So a tensor is never handed out twice while anyone can still see it: not while an optimizer
    reads the gradient, nor while a user keeps it.

        >>> recycler = Recycler()
        >>> first = recycler.empty((1000, 1000), torch.float32, torch.device("cpu"))
        >>> address = first.data_ptr()
        >>> del first
        >>> recycler.empty((1000, 1000), torch.float32, torch.device("cpu")).data_ptr() == address
        True
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray[Any, Any]] = []  # each (bytes,), the oldest first
        self._lock = threading.RLock()  # a tensor may be dropped at any moment, by any thread

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Like `torch.empty`, contiguous."""
        size = torch.Size(shape).numel() * dtype.itemsize
        if device.type != "cpu" or size < _WORTHWHILE:
            return torch.empty(shape, dtype=dtype, device=device)
        block = self._take(size)
        view = block[:size]  # a new array on the same memory, which the tensor keeps alive
        weakref.finalize(view, _give_back, weakref.ref(self), block).atexit = False
        return torch.from_numpy(view).view(dtype).view(shape)

    def release(self) -> None:
        """Return the free blocks to the system."""
        self._free.clear()

    def idle(self) -> int:
        """Bytes that are kept and not in use."""
        return sum(len(block) for block in list(self._free))

    def _take(self, size: int) -> "np.ndarray[Any, Any]":
        with self._lock:
            for block in list(self._free):
                if size <= len(block) <= size + size // 4:
                    self._free = [other for other in self._free if other is not block]
                    return block
        # Somewhat longer, which costs nothing until it is used: where classes are drawn, the next
        # step may need a few rows more.
        return np.empty(size + size // _LONGER, dtype=np.uint8)

    def _give_back(self, block: "np.ndarray[Any, Any]") -> None:
        with self._lock:
            self._free = [*self._free, block][-_KEPT:]

    def __deepcopy__(self, memo: object) -> "Recycler":
        return Recycler()

    def __reduce__(self) -> tuple[type["Recycler"], tuple[()]]:
        return Recycler, ()


def _give_back(recycler: "weakref.ref[Recycler]", block: "np.ndarray[Any, Any]") -> None:
    owner = recycler()
    if owner is not None:
        owner._give_back(block)


def free_memory(device: torch.device) -> int:
    """Bytes that can still be had on a device, as far as the system tells; 0 if it does not."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    bounds = []
    with suppress(OSError, KeyError, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        table = dict(line.split(":", 1) for line in lines)
        bounds.append(int(table["MemAvailable"].split()[0]) * 1024)
    with suppress(OSError, ValueError):  # a container's own limit; ValueError where it has none
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        bounds.append(limit - int((group / "memory.current").read_text(encoding="ascii")))
    if not bounds:
        with suppress(AttributeError, OSError, ValueError):
            bounds.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(min(bounds, default=0), 0)


def check_room(rows: int, dim: int, dtype: torch.dtype = torch.float32) -> None:
    """Raise `OptionError` where class centers (rows, dim) do not fit into the memory that is free.

    Asked before they are made: a configuration may come from anywhere, and say anything.
    """
    device = torch.get_default_device()
    needed = rows * dim * dtype.itemsize
    if needed < _LARGE or device.type == "meta":
        return
    free = free_memory(device)
    if needed > free > 0:
        raise OptionError(
            f"{rows:,} class centers of {dim:,} dimensions need {needed / 1e9:,.3g} GB, and"
            f" {free / 1e9:,.3g} GB are free: choose a smaller dim, fewer classes or subcenters"
        )
