"""Intra loss: normalized softmax plus a pull on the target angle."""

import math

from torch import Tensor

from arcset.losses.base import LOSSES, AuxiliaryLoss
from arcset.numerics import angle, common_dtype, unit_rows, widen

__all__ = ["Intra"]


@LOSSES.register("intra")
class Intra(AuxiliaryLoss):
    """normface + λ · mean(θ_y)/π: samples are drawn to their own center.

    Paper: Deng et al.: ArcFace, CVPR 2019, where it serves as a comparison (λ = 1).
    """

    default_base = "normface"
    uses_centers = True

    def term(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        unit, _ = unit_rows(embeddings)  # (B, D)
        centers = widen(self.base.trained_centers())[labels]  # (B, D)
        own, _ = unit_rows(centers.to(common_dtype(unit, centers)))
        return angle((unit * own).sum(dim=1)).mean() / math.pi
