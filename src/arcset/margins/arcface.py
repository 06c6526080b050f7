"""ArcFace: an additive angular margin."""

import math

from arcset.checks import check_number
from arcset.margins.angular import AngularMargin
from arcset.margins.base import MARGINS


@MARGINS.register("arcface")
class ArcFace(AngularMargin):
    """cos(θ + m): the target must be closer by m radians than its angle says.

    Paper: Deng, Guo, Xue, Zafeiriou: ArcFace, CVPR 2019. `margin` in radians, 0 ≤ m < π.
    What happens past θ = π − m: see `AngularMargin`.

        >>> import math, torch
        >>> from arcset.margins import Samples
        >>> nothing = Samples(labels=torch.zeros(1), norms=torch.ones(1), step=0)
        >>> ArcFace(margin=0.5)(torch.tensor([0.59]), nothing)
        tensor([0.1307])
    """

    neutral = {"margin": 0.0}

    def __init__(self, margin: float = 0.5, fallback: str = "default") -> None:
        super().__init__(m2=check_number("margin", margin, 0, math.pi), fallback=fallback)
        self.margin = self.m2

    @classmethod
    def default_options(cls, spacing: float) -> dict[str, float]:
        """The paper's 0.5, and no more than half the way to the nearest other center."""
        return {"margin": min(0.5, spacing / 2)}
