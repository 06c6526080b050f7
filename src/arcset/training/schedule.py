"""What changes with the step alone: the learning rate, and the moving average of the weights.

Both are pure functions of the step, so that a continued run needs no state for them.
"""

import copy
import math

import torch
from torch import Tensor, nn

__all__ = ["WeightAverage", "learning_rate"]

_RISE = 0.3  # share of all steps in which one-cycle rises
_START, _END = 1 / 25, 1e-5  # of the peak


def learning_rate(
    step: int, steps: int, peak: float, schedule: str, warm_up: float | None = None
) -> float:
    """The learning rate of step `step` (0 … steps − 1).

    `one-cycle` rises to the peak in the first 30 % of the steps and falls to almost nothing, both
    along a cosine (Smith and Topin, 2018); `cosine` falls from the peak; `constant` stays.
    `warm_up` is another share of the steps for the rise: along a cosine from 1/25 of the peak in
    one-cycle, along a line from next to nothing in the others, where it is 0 if not given.

        >>> [round(learning_rate(step, 10, 1.0, "one-cycle"), 3) for step in (0, 2, 9)]
        [0.04, 1.0, 0.0]
        >>> [round(learning_rate(step, 11, 1.0, "cosine"), 3) for step in (0, 5, 10)]
        [1.0, 0.5, 0.0]
        >>> [round(learning_rate(step, 10, 1.0, "cosine", 0.2), 3) for step in (0, 1, 2, 9)]
        [0.5, 1.0, 1.0, 0.0]
    """
    last = max(steps - 1, 1)
    if schedule == "one-cycle":
        share = _RISE if warm_up is None else warm_up
        warm = share * steps - 1  # the step of the peak, as torch's OneCycleLR counts
        if step < warm:
            return _along_cosine(_START * peak, peak, step / warm)
        return _along_cosine(peak, _END * peak, (step - warm) / (last - warm))
    rising = round((warm_up or 0.0) * steps)
    if step < rising:
        return peak * (step + 1) / rising
    if schedule == "constant":
        return peak
    return _along_cosine(peak, _END * peak, (step - rising) / max(last - rising, 1))


def _along_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


class WeightAverage:
    """A copy of a network whose weights follow it: average ← d·average + (1 − d)·weights.

    The average recognizes better than the weights themselves (Polyak and Juditsky, Acceleration of
    stochastic approximation by averaging, 1992). d grows from 0.1 to `decay` in the first steps,
    (1 + t)/(10 + t), so that the random weights at the start are forgotten soon. Running statistics
    are averaged like weights; whole numbers, as counts of batches, are copied.

        >>> network = nn.Linear(1, 1, bias=False)
        >>> _ = network.weight.data.fill_(0.0)
        >>> average = WeightAverage(network, decay=0.9)
        >>> _ = network.weight.data.fill_(1.0)
        >>> average.update(network, step=0)
        >>> round(average.network.weight.item(), 3)
        0.9
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        """Follow `network` after training step `step` (from 0)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averages: list[Tensor] = []
        weights: list[Tensor] = []
        for average, weight in zip(_tensors(self.network), _tensors(network), strict=True):
            if average.is_floating_point():
                averages.append(average)
                weights.append(weight.detach())
            else:
                average.copy_(weight)
        torch._foreach_lerp_(averages, weights, 1 - decay)


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]
