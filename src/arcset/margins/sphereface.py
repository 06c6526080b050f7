"""SphereFace: a multiplicative angular margin."""

from arcset.checks import check_number
from arcset.margins.angular import AngularMargin
from arcset.margins.base import MARGINS


@MARGINS.register("sphereface")
class SphereFace(AngularMargin):
    """ψ(m·θ): the target's angle counts m times.

    Paper: Liu, Wen, Yu, Li, Raj, Song: SphereFace, CVPR 2017; here with normalized embeddings and
    a scale, as the ArcFace paper compares it (m = 1.35). `margin` is the factor, m ≥ 1.

        >>> import torch
        >>> from arcset.margins import Samples
        >>> nothing = Samples(labels=torch.zeros(1), norms=torch.ones(1), step=0)
        >>> SphereFace(margin=4)(torch.tensor([1.0, -1.0]), nothing)   # 0 and 4π
        tensor([ 1., -7.])
    """

    neutral = {"margin": 1.0}
    fallbacks = ("default", "easy", "none")

    def __init__(self, margin: float = 1.35, fallback: str = "default") -> None:
        super().__init__(m1=check_number("margin", margin, 1, 100), fallback=fallback)
        self.margin = self.m1
