"""Choosing where to compute."""

import os

import torch

from arcset.errors import OptionError

__all__ = ["choose_device"]


def choose_device(name: str = "auto") -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU; a device that is not there is refused.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        if torch.cuda.is_available():
            # Of several processes on one machine, each has a GPU of its own.
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # meta and the like can hold no values
    except (RuntimeError, AssertionError, NotImplementedError):
        raise OptionError(
            f"device {name!r} is not available here; use auto, cpu, cuda or mps"
        ) from None
    return device
