"""Which way the softmax over the centers is computed."""

import torch

from arcset.centers.memory import free_memory

__all__ = ["MODES", "choose_mode"]

MODES = ("auto", "plain", "store", "recompute")

_FEW = 2**16  # logits; below, ordinary operations are as fast
_SMALL = 2**26  # bytes of logits that are always affordable


def choose_mode(
    mode: str,
    batch: int,
    rows: int,
    dtype: torch.dtype,
    device: torch.device,
    idle: int = 0,
    free: int | None = None,
) -> str:
    """`mode`, or for `auto` the one that suits `batch` × `rows` logits and the free memory.

    Plain where the logits are few; else store, as long as the logits fit into half of the memory
    that is free or `idle`, kept from the last step; else recompute, which is about a third slower
    and keeps none of them. `free` says how much memory there is, instead of the device.

        >>> cpu = torch.device("cpu")
        >>> choose_mode("auto", 128, 10, torch.float32, cpu)
        'plain'
        >>> choose_mode("auto", 128, 10_000, torch.float32, cpu)
        'store'
        >>> choose_mode("auto", 512, 1_000_000_000, torch.float32, cpu)
        'recompute'
    """
    if mode != "auto":
        return mode
    logits = batch * rows
    if logits <= _FEW:
        return "plain"
    size = logits * dtype.itemsize
    if free is None and size > _SMALL:
        free = free_memory(device)
    fits = size <= _SMALL or size <= ((free or 0) + idle) // 2
    return "store" if fits else "recompute"
