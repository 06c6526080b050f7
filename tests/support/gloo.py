"""How a process that torchrun starts in a test begins and ends."""

from contextlib import contextmanager

import torch
import torch.distributed as dist

from arcset.launch import leave


@contextmanager
def process_group():
    """One of several processes over gloo, with one thread; leaves when the block ends."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    yield
    dist.barrier()
    dist.destroy_process_group()
    leave(0)
