"""CurricularFace: hard negatives count more as training goes on."""

import math

import torch
from torch import Tensor

from arcset.checks import check_number
from arcset.margins.angular import shifted_cosine, shifted_cosine_reference
from arcset.margins.base import MARGINS, Margin, Sample, Samples


@MARGINS.register("curricularface")
class CurricularFace(Margin):
    """Target cos(θ + m); a wrong class above it becomes cos θ_j·(t + cos θ_j).

    t is the running mean of the bare target cosines. It starts at 0, where hard negatives are
    played down, and grows as training succeeds, until they are stressed.

    Paper: Huang, Wang, Tai, Liu, Shen, Li, Li, Huang: CurricularFace: Adaptive curriculum learning
    loss for deep face recognition, CVPR 2020.

    - `margin`: m in radians, 0 ≤ m < π; past π the target goes on falling (see `shifted_cosine`),
      and a wrong class is hard if it lies above that. The authors' code jumps there, by m·sin m.
    - `rate`: how fast t follows the batches, 0 … 1.

    Without a margin it is still no normalized softmax: whatever lies above the target is changed.

        >>> margin, batch = CurricularFace(), Samples(torch.zeros(1), torch.ones(1))
        >>> target = margin(torch.tensor([0.59]), batch)  # 0.1307
        >>> margin.negatives(torch.tensor([[0.1, 0.5]]), target[:, None], batch)
        tensor([[0.1000, 0.2500]])
    """

    alters_negatives = True
    t: Tensor

    def __init__(self, margin: float = 0.5, rate: float = 0.01) -> None:
        super().__init__()
        self.margin = check_number("margin", margin, 0, math.pi)
        self.rate = check_number("rate", rate, 0, 1, closed="both")
        self.register_buffer("t", torch.tensor(0.0))

    @classmethod
    def default_options(cls, spacing: float) -> dict[str, float]:
        """The paper's 0.5, and no more than half the way to the nearest other center."""
        return {"margin": min(0.5, spacing / 2)}

    def observe(self, cosine: Tensor, samples: Samples) -> None:
        """t ← (1 − rate)·t + rate·mean cos θ."""
        self.t.mul_(1 - self.rate).add_(self.rate * cosine.detach().mean())

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        return shifted_cosine(cosine, self.margin)

    def reference(self, angle: float, sample: Sample) -> float:
        return shifted_cosine_reference(angle, self.margin)

    def negatives(self, cosines: Tensor, target: Tensor, samples: Samples) -> Tensor:
        """cos θ_j·(t + cos θ_j) where cos θ_j lies above the target."""
        return torch.where(cosines > target, cosines * (self.t + cosines), cosines)

    def negative_reference(self, cosine: float, target: float, floor: float) -> float:
        return cosine * (self.t.item() + cosine) if cosine > target else cosine
