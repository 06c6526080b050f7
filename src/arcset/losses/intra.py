"""Intra loss: normalized softmax plus a pull on the target angle."""

import math

from torch import Tensor

from arcset.losses.base import LOSSES, AuxiliaryLoss
from arcset.numerics import angle, common_dtype, unit_rows, widen


@LOSSES.register("intra")
class Intra(AuxiliaryLoss):
    """normface + λ · mean(θ_y)/π: samples are drawn to their own center.

    Paper: Deng et al.: ArcFace, CVPR 2019, where it serves as a comparison (λ = 1).
    """

    default_base = "normface"
    uses_centers = True

    def term(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self._target_angles(embeddings, labels).mean() / math.pi

    def terms(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self._target_angles(embeddings, labels) / math.pi

    def _target_angles(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """θ_y of each sample, (B,)."""
        unit, _ = unit_rows(embeddings)  # (B, D)
        centers = widen(self.base.trained_centers())[labels]  # (B, D)
        own, _ = unit_rows(centers.to(common_dtype(unit, centers)))
        return angle((unit * own).sum(dim=1))
