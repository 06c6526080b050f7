"""CosFace: a margin on the cosine itself."""

import math

from torch import Tensor

from arcset.checks import check_number
from arcset.margins.base import MARGINS, Margin, Sample, Samples


@MARGINS.register("cosface")
class CosFace(Margin):
    """cos θ − m: the target's cosine must lead by m.

    Papers: Wang et al.: CosFace, CVPR 2018; Wang, Cheng, Liu, Liu: Additive margin softmax, 2018.
    `margin` is a difference of cosines, 0 ≤ m < 2. It never rises with θ, so it needs no fallback.
    """

    neutral = {"margin": 0.0}

    def __init__(self, margin: float = 0.35) -> None:
        super().__init__()
        self.margin = check_number("margin", margin, 0, 2)

    @classmethod
    def default_options(cls, spacing: float) -> dict[str, float]:
        """The paper's 0.35, and no more than half of the cosine between neighbouring centers."""
        return {"margin": min(0.35, (1 - math.cos(spacing)) / 2)}

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        return cosine - self.margin

    def reference(self, angle: float, sample: Sample) -> float:
        return math.cos(angle) - self.margin
