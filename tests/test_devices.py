"""Where to compute."""

import pytest
import torch

from arcset import OptionError
from arcset.devices import choose_device, free_memory, own_gpu


def test_each_process_has_a_gpu_of_its_own():
    assert [own_gpu(process, 3).index for process in range(3)] == [0, 1, 2]
    with pytest.raises(OptionError, match="3"):
        own_gpu(3, 3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_is_not_there_is_refused():
    assert choose_device("auto").type in ("cpu", "mps")
    with pytest.raises(OptionError, match=r"'cuda'.*CUDA") as refused:
        choose_device("cuda")
    offered = str(refused.value).partition(";")[2]
    assert "cpu" in offered
    assert "cuda" not in offered
    with pytest.raises(OptionError, match="'meta'"):
        choose_device("meta")


def test_free_memory_is_plausible():
    assert 2**20 < free_memory(torch.device("cpu")) < 2**60
