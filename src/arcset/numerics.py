"""Small numerical pieces that margins, centers and losses share.

All of them keep values exact and gradients finite where the textbook formula does not: at
cos θ = ±1, for zero rows, and in half precision.
"""

from typing import Any

import torch
from torch import Tensor


class _Widen(torch.autograd.Function):
    """float16 or bfloat16 to float32; the gradient comes back saturated instead of infinite."""

    @staticmethod
    def forward(ctx: Any, narrow: Tensor) -> Tensor:
        ctx.narrow = narrow.dtype
        return narrow.float()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        limit = torch.finfo(ctx.narrow).max
        return gradients[0].clamp(-limit, limit).to(ctx.narrow)


def widen(values: Tensor) -> Tensor:
    """`values` in at least float32. Half precision is for storage and products, not for sums.

    A gradient too large for the narrow type returns as its largest finite number: the gradient
    of a direction grows as 1/‖x‖, which float16 cannot hold for short x.
    """
    if values.dtype in (torch.float16, torch.bfloat16):
        return _Widen.apply(values)  # type: ignore[no-any-return,no-untyped-call]
    return values


def common_dtype(*tensors: Tensor) -> torch.dtype:
    """The narrowest type, from float32 on, that holds the values of all tensors.

    >>> common_dtype(torch.zeros(1, dtype=torch.float16), torch.zeros(1, dtype=torch.float64))
    torch.float64
    """
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def unit_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """A normalized *copy* of `rows` (N, D) and their lengths (N,).

    Rows are first divided by their largest entry, so that neither 1e-30 nor 1e+30 under- or
    overflows when squared; the result does not depend on that divisor, so it needs no gradient.
    A zero row has no direction: it stays zero, with the gradient it would have at length 1; and so
    does one so short that the gradient, which grows as 1/‖x‖, could not be held (about 1e-30 in
    float32).

        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        (tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]]), tensor([5., 0.]))
    """
    peak = rows.detach().abs().amax(dim=1, keepdim=True)  # (N, 1)
    long = peak > torch.finfo(rows.dtype).tiny * 1e8
    peak = torch.where(long, peak, 1.0)
    scaled = rows / peak
    length = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)  # (N, 1)
    unit = scaled / torch.where(long, length, 1.0)
    return unit, (length * peak).squeeze(1)


def anchored(cosine: Tensor) -> tuple[Tensor, Tensor]:
    """Two views of a cosine: one to take slopes from, one to take values from.

    Functions of θ, such as sin θ or arccos, have an infinite slope in cos θ at ±1. The first
    result is moved to the nearest cosine inside (−1, 1) that the dtype can hold, and lets the
    gradient pass unchanged; the second is the cosine clamped to [−1, 1], without gradient.
    `f(first) + (f(second) − f(first)).detach()` then has f's exact value everywhere, and at ±1
    the slope that f has one rounding step away: finite, and no dead zone.
    """
    step = torch.finfo(cosine.dtype).eps
    exact = cosine.detach()
    inside = exact.clamp(-1 + step, 1 - step)
    return cosine + (inside - exact), exact.clamp(-1, 1)


def angle(cosine: Tensor) -> Tensor:
    """θ = arccos(cosine) in radians, exact in value and with a finite slope at cos θ = ±1.

    >>> angle(torch.tensor([1.0, 0.0, -1.0]))
    tensor([0.0000, 1.5708, 3.1416])
    """
    slope, value = anchored(cosine)
    theta = slope.arccos()
    return theta + (value.arccos() - theta).detach()
