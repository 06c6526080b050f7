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


def test_shapes_and_dtypes_share_blocks_of_about_the_same_size():
    recycler = Recycler()
    address = recycler.empty(MEGA, torch.float32, CPU).data_ptr()
    again = recycler.empty((256, 1000), torch.float64, CPU)
    assert again.data_ptr() == address
    assert again.is_contiguous()
    again.fill_(1.5)
    assert again.sum().item() == 384_000
    del again
    assert recycler.empty((1024, 1024), torch.float32, CPU).data_ptr() != address  # too small


def test_a_block_serves_a_few_rows_more():
    """As where classes are drawn anew in every step, and there are now some more of them."""
    recycler = Recycler()
    address = recycler.empty((1000, 1024), torch.float32, CPU).data_ptr()
    for rows in (1010, 990, 1030):
        assert recycler.empty((rows, 1024), torch.float32, CPU).data_ptr() == address


def test_few_blocks_are_kept():
    recycler = Recycler()
    held = [recycler.empty((n, 1024), torch.float32, CPU) for n in range(300, 2300, 200)]
    whole = sum(one.numel() * one.element_size() for one in held)
    held.clear()
    assert 0 < recycler.idle() < whole / 2
    recycler.release()
    assert recycler.idle() == 0


def test_small_and_foreign_requests_are_left_to_torch():
    recycler = Recycler()
    recycler.empty((10, 10), torch.float32, CPU)
    assert recycler.idle() == 0
    assert recycler.empty(MEGA, torch.float32, torch.device("meta")).is_meta


def test_a_tensor_outlives_its_recycler():
    recycler = Recycler()
    tensor = recycler.empty(MEGA, torch.float32, CPU).fill_(2.0)
    del recycler
    gc.collect()
    assert tensor.sum().item() == 2 * tensor.numel()


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
