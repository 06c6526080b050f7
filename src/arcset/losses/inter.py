"""Inter loss: normalized softmax plus a push between centers."""

import math

import torch
from torch import Tensor

from arcset.losses.base import LOSSES, AuxiliaryLoss
from arcset.numerics import angle, common_dtype, unit_rows, widen


@LOSSES.register("inter")
class Inter(AuxiliaryLoss):
    """normface − λ · mean over j ≠ y of ∠(W_y, W_j)/π: the centers of the batch's classes part.

    Paper: Deng et al.: ArcFace, CVPR 2019, where it serves as a comparison (λ = 1). With a single
    class there is nothing to part, and the term is 0.
    """

    default_base = "normface"
    uses_centers = True

    def term(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """−mean over the batch and over j ≠ y of ∠(W_y, W_j)/π."""
        centers = self._unit_centers(embeddings)
        present, counts = torch.unique(labels, return_counts=True)  # at most min(B, C) rows, not B
        angles = angle(centers[present] @ centers.T)  # (P, C)
        share = counts[:, None].to(angles) / (len(labels) * max(self.classes - 1, 1))
        others = torch.ones_like(angles).scatter(1, present[:, None], 0.0) * share
        return angles.mul(others).sum().div(-math.pi)

    def terms(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """−mean over j ≠ y of ∠(W_y, W_j)/π of each sample's class, (B,)."""
        centers = self._unit_centers(embeddings)
        present, rows = torch.unique(labels, return_inverse=True)
        angles = angle(centers[present] @ centers.T)  # (P, C)
        others = angles.scatter(1, present[:, None], 0.0).sum(dim=1)  # (P,)
        return others[rows] / (-math.pi * max(self.classes - 1, 1))

    def _unit_centers(self, embeddings: Tensor) -> Tensor:
        centers = widen(self.base.trained_centers())  # (C, D)
        return unit_rows(centers.to(common_dtype(embeddings, centers)))[0]
