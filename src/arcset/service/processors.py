"""How a machine's processors are shared among batches."""

import torch
from threadpoolctl import threadpool_limits

from arcset.devices import choose_device

__all__ = ["share_processors"]

_MOST_WORKERS = 4


def share_processors(device: str) -> int:
    """Divide the processors among batches that are computed side by side; returns how many are.

    Several threads that compute one batch together wait for each other at every layer, all the
    more where decoding and clients take a processor away from one of them. Batches side by side
    wait for nobody. On a graphics card one batch at a time has all of it.

    To be called before a model is loaded, which keeps the number of its threads.
    """
    if choose_device(device).type != "cpu":
        return 1
    threads = torch.get_num_threads()
    workers = min(threads, _MOST_WORKERS)
    each = max(1, threads // workers)
    torch.set_num_threads(each)
    threadpool_limits(each, user_api="blas")  # whose threads keep a processor busy while they wait
    return workers
