"""A moving average of the network's weights, which recognizes better than the weights themselves.

Polyak and Juditsky, Acceleration of stochastic approximation by averaging (1992).
"""

import copy

import torch
from torch import Tensor, nn

__all__ = ["Average"]


class Average:
    """Keeps `network`, whose weights follow those of another: w ← d·w + (1 − d)·theirs.

    d grows from 0.1 to `decay` in the first steps, (1 + t)/(10 + t), so that the random weights at
    the start are forgotten soon. Running statistics are averaged like weights; whole numbers, as
    counts of batches, are copied.

        >>> source = nn.Linear(1, 1, bias=False)
        >>> _ = source.weight.data.fill_(0.0)
        >>> average = Average(source, decay=0.9)
        >>> _ = source.weight.data.fill_(1.0)
        >>> average.update(source, step=0)
        >>> round(average.network.weight.item(), 3)
        0.9
    """

    def __init__(self, source: nn.Module, decay: float) -> None:
        self.network = copy.deepcopy(source).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, source: nn.Module, step: int) -> None:
        """Follow `source` after training step `step` (from 0)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        mine: list[Tensor] = []
        theirs: list[Tensor] = []
        for own, other in zip(_tensors(self.network), _tensors(source), strict=True):
            if own.is_floating_point():
                mine.append(own)
                theirs.append(other.detach())
            else:
                own.copy_(other)
        torch._foreach_lerp_(mine, theirs, 1 - decay)


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]
