"""Inter-topK: the nearest wrong classes are made to look nearer."""

import math

import torch
from torch import Tensor

from arcset.checks import check_count, check_number
from arcset.margins.angular import shifted_cosine, shifted_cosine_reference
from arcset.margins.base import MARGINS, Margin, Sample, Samples
from arcset.numerics import anchored


@MARGINS.register("intertopk")
class InterTopK(Margin):
    """Target cos(θ + m); the k nearest wrong classes become cos(θ_j − m′).

    Paper: Zhao, Ma, Ding, Zheng, Liu, Xu: Multi-query multi-head attention pooling and inter-topK
    penalty for speaker verification, ICASSP 2022.

    - `margin`: m in radians, 0 ≤ m < π.
    - `penalty`: m′ in radians, 0 ≤ m′ < π; a wrong class closer than m′ goes on rising past 1 (see
      `shifted_cosine`). With 0 it is arcface.
    - `k`: how many wrong classes, k ≥ 1; all of them where there are no more than k. Classes that
      tie with the k-th are changed with it.

        >>> batch = Samples(torch.zeros(1), torch.ones(1), floor=torch.tensor([[0.5]]))
        >>> InterTopK(k=2).negatives(torch.tensor([[0.1, 0.5, 0.7]]), torch.zeros(1, 1), batch)
        tensor([[0.1000, 0.5510, 0.7416]])
    """

    neutral = {"margin": 0.0, "penalty": 0.0}
    alters_negatives = True

    def __init__(self, margin: float = 0.2, penalty: float = 0.06, k: int = 5) -> None:
        super().__init__()
        self.margin = check_number("margin", margin, 0, math.pi)
        self.penalty_angle = check_number("penalty", penalty, 0, math.pi)
        self.nearest = check_count("k", k, 1)

    @classmethod
    def default_options(cls, spacing: float) -> dict[str, float]:
        """The paper's 0.2 and 0.06, together no more than half the way to the nearest center."""
        crowded = min(1.0, spacing / 2 / 0.26)
        return {"margin": 0.2 * crowded, "penalty": 0.06 * crowded}

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        return shifted_cosine(cosine, self.margin)

    def reference(self, angle: float, sample: Sample) -> float:
        return shifted_cosine_reference(angle, self.margin)

    def negatives(self, cosines: Tensor, target: Tensor, samples: Samples) -> Tensor:
        """cos(θ_j − m′) from the k-th nearest wrong class on; unchanged if that is not known."""
        if samples.floor is None:
            return cosines
        slope, value = anchored(cosines)
        nearer = shifted_cosine(slope, -self.penalty_angle)
        nearer = nearer + (shifted_cosine(value, -self.penalty_angle) - nearer).detach()
        return torch.where(cosines >= samples.floor, nearer, cosines)

    def negative_reference(self, cosine: float, target: float, floor: float) -> float:
        if cosine < floor:
            return cosine
        return shifted_cosine_reference(math.acos(min(max(cosine, -1.0), 1.0)), -self.penalty_angle)

    def settings(self) -> dict[str, float | str]:
        """The options in use; `penalty` is a method of every margin, so it is held elsewhere."""
        return {"margin": self.margin, "penalty": self.penalty_angle, "k": self.nearest}
