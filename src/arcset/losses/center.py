"""Center loss: softmax plus a pull towards the class mean."""

import torch
from torch import Tensor, nn

from arcset.losses.base import LOSSES, AuxiliaryLoss, Loss
from arcset.numerics import widen


@LOSSES.register("center")
class Center(AuxiliaryLoss):
    """softmax + λ/2 · mean‖x − c_y‖².

    Paper: Wen, Zhang, Li, Qiao: A discriminative feature learning approach for deep face
    recognition, ECCV 2016. The means c (C, D) are parameters that follow the gradient of this
    same term, instead of the paper's separate update rule. They are not `loss.centers`, which are
    the base's, but stand in `loss.means`.
    """

    default_base = "softmax"
    scale_free = False

    def __init__(self, base: Loss, *, weight: float = 0.1) -> None:
        super().__init__(base, weight=weight)
        self.means = nn.Parameter(torch.zeros(self.classes, self.dim))

    def term(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self.terms(embeddings, labels).mean()

    def terms(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        offset = embeddings - widen(self.means)[labels]  # (B, D)
        return offset.square().sum(dim=1) / 2
