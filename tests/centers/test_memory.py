"""Recycled buffers: never seen twice, and not hoarded."""

import gc
import threading

import torch

from arcset.centers.storage import Recycler

CPU = torch.device("cpu")
MEGA = (512, 1024)  # 2 MB of float32


def test_memory_returns_only_when_the_last_view_is_gone():
    recycler = Recycler()
    whole = recycler.empty(MEGA, torch.float32, CPU)
    address = whole.data_ptr()
    row = whole[3].detach()
    array = whole.numpy()
    del whole
    others = [recycler.empty(MEGA, torch.float32, CPU)]
    assert others[0].data_ptr() != address
    del row
    others.append(recycler.empty(MEGA, torch.float32, CPU))
    assert others[1].data_ptr() != address
    del array
    gc.collect()
    assert recycler.empty(MEGA, torch.float32, CPU).data_ptr() == address


def test_threads():
    recycler, clashes = Recycler(), []

    def work(number):
        for _ in range(200):
            tensor = recycler.empty(MEGA, torch.float32, CPU)
            tensor[:, 0] = number
            if not bool((tensor[:, 0] == number).all()):
                clashes.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes
