"""Choosing where to compute, and how much memory is free there."""

import os
from contextlib import suppress
from pathlib import Path

import torch

from arcset.errors import OptionError


def choose_device(name: str = "auto") -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU; a device that is not there is refused.

    Of several processes that torchrun has started on one machine, each takes a GPU of its own for
    `auto` and `cuda`.

        >>> choose_device("cpu")
        device(type='cpu')
    """
    if name in ("auto", "cuda") and torch.cuda.is_available():
        return own_gpu(int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count())
    if name == "auto":
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # meta and the like can hold no values
    except (RuntimeError, AssertionError, NotImplementedError):
        cuda = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        mps = ["mps"] if torch.backends.mps.is_available() else []
        here = ", ".join(["auto", "cpu", *cuda, *mps])
        raise OptionError(f"this machine has no device {name!r}; there are {here}") from None
    return device


def own_gpu(process: int, count: int) -> torch.device:
    """Of `count` GPUs, that of a process, by its number on this machine.

    >>> own_gpu(3, 4)
    device(type='cuda', index=3)
    """
    if process >= count:
        raise OptionError(
            f"every process needs a GPU of its own, and this machine has {count}: start so many "
            "processes on it, or use --device cpu"
        )
    return torch.device("cuda", process)


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


def check_memory(what: str, needed: int, device: torch.device, advice: str) -> None:
    """Raise `OptionError` where so many bytes are not free on a device.

    To be asked before something large is made: a configuration may come from anywhere, and say
    anything.
    """
    free = free_memory(device)
    if needed > free > 0:
        raise OptionError(
            f"{what} would take {needed / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free: {advice}"
        )


def seed_draws(seed: int, device: torch.device) -> None:
    """Decide what layers and losses draw from here on, on the CPU and on `device`.

    As `torch.manual_seed`, which tries every kind of device there is and takes about as long as a
    small step for it.

        >>> seed_draws(3, torch.device("cpu"))
        >>> drawn = torch.rand(2)
        >>> torch.equal(drawn, torch.rand(2, generator=torch.Generator().manual_seed(3)))
        True
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
