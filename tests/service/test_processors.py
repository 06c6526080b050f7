"""Processors are divided among batches, and none is left out or promised twice."""

import pytest
import torch
from threadpoolctl import threadpool_limits

from arcset.service.batching import share_processors


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    with threadpool_limits():  # puts back what it found
        yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("threads", "workers", "each"), [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1), (16, 4, 4)]
)
def test_workers_and_their_threads(threads, workers, each):
    torch.set_num_threads(threads)
    assert share_processors("cpu") == workers
    assert torch.get_num_threads() == each
