"""Requests that wait share a batch; a failure is nobody else's."""

import asyncio
import os
import threading

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from arcset.service.batching import Batcher, Job, share_processors
from support.apart import apart


class Network:
    """Doubles what it gets; waits while `free` is not set; refuses 13."""

    def __init__(self):
        self.sizes, self.free = [], threading.Event()
        self.free.set()

    def __call__(self, arrays):
        assert self.free.wait(10)
        self.sizes.append(len(arrays))
        if (arrays == 13).any():
            raise ValueError("13")
        return 2 * arrays


def as_they_are(jobs, rows):
    return [row.ravel().tolist() for row in rows]


def answers(network, requests, *, cancelled=()):
    """What each of the requests, lists of numbers, is answered; all wait while the network is busy
    with a single one.
    """

    async def ask():
        loop = asyncio.get_running_loop()
        batcher = Batcher(network, as_they_are, most=4)
        network.free.clear()
        futures = []
        for numbers in [[0], *requests]:
            futures.append(loop.create_future())
            batcher.submit(Job([np.array([n]) for n in numbers], None, futures[-1]))
            while len(futures) == 1 and len(batcher):
                await asyncio.sleep(0.001)
        del futures[0]
        for place in cancelled:
            futures[place].cancel()
        network.free.set()
        found = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 10)
        await loop.run_in_executor(None, batcher.close)
        with pytest.raises(RuntimeError):
            batcher.submit(Job([np.array([1])], None, loop.create_future()))
        return found

    return apart(asyncio.run, ask())


@pytest.mark.parametrize(
    ("requests", "sizes"),
    [
        ([[n] for n in range(1, 10)], [1, 4, 4, 1]),
        ([[1, 2, 3], [4, 5], [6]], [1, 3, 3]),  # a request is not taken apart
        ([list(range(1, 11))], [1, 4, 4, 2]),  # but where it is more than a batch
    ],
)
def test_what_waits_goes_together_up_to_the_limit(requests, sizes):
    network = Network()
    assert answers(network, requests) == [[2 * n for n in numbers] for numbers in requests]
    assert network.sizes == sizes


def test_a_failure_is_nobody_elses():
    network = Network()
    first, second, third = answers(network, [[1], [13], [3]])
    assert (first, third) == ([2], [6])
    assert isinstance(second, ValueError)


def test_those_who_went_away_are_not_worked_on():
    network = Network()
    found = answers(network, [[1], [13], [3]], cancelled=[1])
    assert (found[0], found[2]) == ([2], [6])
    assert network.sizes == [1, 2]


def test_several_threads_answer_everybody():
    async def ask():
        loop = asyncio.get_running_loop()
        batcher = Batcher(Network(), as_they_are, most=4, workers=3)
        futures = [loop.create_future() for _ in range(200)]
        for number, future in enumerate(futures):
            batcher.submit(Job([np.array([100 + number])], None, future))
        found = await asyncio.wait_for(asyncio.gather(*futures), 10)
        await loop.run_in_executor(None, batcher.close)
        return found

    assert apart(asyncio.run, ask()) == [[2 * (100 + number)] for number in range(200)]


@pytest.fixture
def threads_afterwards(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    with threadpool_limits():  # puts back what it found
        yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("threads", "workers", "each"), [(1, 1, 1), (3, 3, 1), (16, 4, 4)])
@pytest.mark.parametrize("needs_torch", [True, False])
def test_processors_are_divided_among_batches(
    threads_afterwards, threads, workers, each, needs_torch
):
    torch.set_num_threads(threads)
    assert share_processors("cpu", needs_torch=needs_torch) == workers
    assert os.environ["OMP_NUM_THREADS"] == str(each)
    assert torch.get_num_threads() == each
