from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Pictures = Callable[..., Tensor]


@pytest.fixture
def pictures() -> Pictures:
    """Random images in −1 .. 1, smooth enough to be read between pixels."""

    def make(*shape: int, seed: int = 0) -> Tensor:
        pixels = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
        pixels[..., 0, 0], pixels[..., -1, -1] = -1.0, 1.0  # both ends of the range
        return pixels

    return make
