"""Numbers in bfloat16 that small steps still move.

bfloat16 has eight significant bits: a step of less than a 512th of an entry is lost when it is
rounded to the nearest, however often it is taken. Rounded up or down at random, with the
probability that makes the mean right, it is taken now and then, and on average as it should be.
"""

import torch
from torch import Tensor

__all__ = ["Noise", "round_stochastic"]

_LOW = 0xFFFF  # the bits of float32 that bfloat16 does not have


def round_stochastic(values: Tensor, noise: Tensor) -> Tensor:
    """float32 to bfloat16, up or down by `noise`: whole numbers in 0 … 65535, as many (int32).

    What bfloat16 can hold stays; the mean over all noise is the value itself.

        >>> round_stochastic(torch.full((2,), 1 / 3), torch.tensor([0, 65535], dtype=torch.int32))
        tensor([0.3320, 0.3340], dtype=torch.bfloat16)
    """
    limit = torch.finfo(torch.bfloat16).max
    bits = values.clamp(-limit, limit).view(torch.int32)  # sign and size: larger away from 0
    return (bits + noise).bitwise_and_(~_LOW).view(torch.float32).to(torch.bfloat16)


class Noise:
    """Random numbers for rounding, drawn once a step and used for every piece of rows.

    Entries of different pieces share their draw: each is still rounded rightly on average.
    """

    def __init__(self) -> None:
        self._drawn: Tensor | None = None

    def renew(self) -> None:
        """Draw anew at the next use."""
        self._drawn = None

    def like(self, values: Tensor) -> Tensor:
        """Numbers in 0 … 65535, one for each of the values (n, D)."""
        drawn = self._drawn
        if drawn is None or drawn.numel() < values.numel():
            words = torch.empty(-(-values.numel() // 4), dtype=torch.int64, device=values.device)
            words.random_(-(2**63), None)  # all 64 bits: four numbers
            drawn = self._drawn = words.view(torch.int16).to(torch.int32).bitwise_and_(_LOW)
        return drawn[: values.numel()].view(values.shape)
