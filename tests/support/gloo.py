"""How a process that torchrun starts in a test begins and ends."""

import os
import sys
from contextlib import contextmanager

import torch
import torch.distributed as dist


@contextmanager
def process_group():
    """One of several processes over gloo, with one thread; ends when the block does.

    It leaves without taking the interpreter down: threads of gloo's may abort a process whose work
    is done while Python tidies up behind it, and torchrun would call that a failure.
    """
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    yield
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
