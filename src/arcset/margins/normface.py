"""NormFace: no margin at all."""

import math
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from arcset.margins.base import MARGINS, Margin, Sample, Samples


@MARGINS.register("normface")
class NormFace(Margin):
    """cos θ: normalized softmax, which every margin is measured against.

    Paper: Wang, Xiang, Cheng, Yuille: NormFace, ACM Multimedia 2017.
    """

    neutral: ClassVar[Mapping[str, float]] = {}

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        return cosine

    def reference(self, angle: float, sample: Sample) -> float:
        return math.cos(angle)
