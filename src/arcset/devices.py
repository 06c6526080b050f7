"""Choosing where to compute."""

import os

import torch

from arcset.errors import OptionError

__all__ = ["choose_device", "own_gpu"]


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
        raise OptionError(_unavailable(name)) from None
    return device


def _unavailable(name: str) -> str:
    """Why a device cannot be used, and which can."""
    here = ["auto", "cpu"]
    if torch.cuda.is_available():
        here += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        here.append("mps")
    kind = str(name).partition(":")[0]
    known = {"cuda": "CUDA", "mps": "MPS (Apple's GPU)"}
    if kind in known and kind not in here:
        reason = f"{known[kind]} is not available on this machine"
    else:
        reason = "there is no such device on this machine"
    return f"device {name!r}: {reason}; use {', '.join(here[:-1])} or {here[-1]}"


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
