"""How a process that torchrun starts in a test begins and ends."""

import os
import sys
from contextlib import contextmanager

import torch
import torch.distributed as dist


def leave():
    """End the process, whose work is done, without taking the interpreter down.

    Threads of gloo's may abort it while Python tidies up behind it, and torchrun would call that a
    failure.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextmanager
def process_group():
    """One of several processes over gloo, with one thread; leaves when the block ends."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    yield
    dist.barrier()
    dist.destroy_process_group()
    leave()
