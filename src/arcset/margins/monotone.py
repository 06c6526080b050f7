"""cos(θ + φ), made to fall over the whole of [0, π]. What most angular margins are made of."""

import math

import torch
from torch import Tensor

__all__ = ["shifted_cosine", "shifted_cosine_reference"]


def shifted_cosine(cosine: Tensor, shift: float | Tensor) -> Tensor:
    """cos(θ + φ) for cosines cos θ (B,), one φ in (−π, π) for all or one each; no arccos.

    Where θ + φ leaves [0, π], the cosine would rise again. There a chord takes over, parallel to
    cos θ: cos θ − (1 − cos φ) past π and cos θ + (1 − cos φ) below 0. It meets cos(θ + φ) at the
    junction, so the result is continuous, and falls everywhere with a finite slope in cos θ.

        >>> shifted_cosine(torch.tensor([1.0, 0.5, -1.0]), 0.5)
        tensor([ 0.8776,  0.0236, -1.1224])
    """
    cos: float | Tensor
    sin: float | Tensor
    sign: float | Tensor
    if isinstance(shift, Tensor):
        cos, sin, sign = shift.cos(), shift.sin(), shift.sign()
    else:
        cos, sin, sign = math.cos(shift), math.sin(shift), math.copysign(1.0, shift)
    sine = ((1 - cosine) * (1 + cosine)).sqrt()
    outside = sign * cosine <= -cos  # θ + φ > π, or θ + φ < 0 where φ is negative
    return torch.where(outside, cosine - sign * (1 - cos), cosine * cos - sine * sin)


def shifted_cosine_reference(angle: float, shift: float) -> float:
    """The same for one angle, case by case.

    >>> round(shifted_cosine_reference(math.pi, 0.5), 4)
    -1.1224
    """
    if angle + shift > math.pi:
        return math.cos(angle) - (1 - math.cos(shift))
    if angle + shift < 0:
        return math.cos(angle) + (1 - math.cos(shift))
    return math.cos(angle + shift)
