"""Triplet loss on angles, with batch-hard mining."""

import torch
from torch import Tensor

from arcset.checks import check_number
from arcset.errors import OptionError
from arcset.losses.base import LOSSES, Loss, check_batch, check_weights, place_rows, reduce_losses
from arcset.margins.base import Law
from arcset.numerics import angle, unit_rows, widen


@LOSSES.register("triplet")
class Triplet(Loss):
    """mean over anchors of [θ(anchor, positive) − θ(anchor, negative) + m]₊, hardest of the batch.

    Papers: Schroff, Kalenichenko, Philbin: FaceNet, CVPR 2015; batch-hard mining: Hermans, Beyer,
    Leibe: In defense of the triplet loss, 2017. `margin` in radians. For every anchor the farthest
    sample of its class and the nearest of another count; anchors that lack either are left out,
    and a batch without any valid anchor costs 0. There is no classifier: `centers` is None.

    Weights are those of anchors; a sample counts as a positive or negative of others as it is.
    `reduction="none"` gives 0 for anchors that are left out, so that the mean is not theirs.
    """

    classifies = False

    def __init__(self, dim: int, classes: int, *, margin: float = 0.5) -> None:
        super().__init__(dim, classes)
        self.margin = check_number("margin", margin, 0, 1e6)

    @property
    def laws(self) -> frozenset[Law]:
        """No classifier, so only the laws about the value."""
        return frozenset({Law.GRADIENT, Law.FINITE, Law.REFERENCE, Law.SCALE_FREE, Law.ROUND_TRIP})

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        weights: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """The mean hinge over the valid anchors of the batch."""
        labels = check_batch(self, embeddings, labels)
        weights = check_weights(weights, reduction, embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            unit, _ = unit_rows(widen(embeddings))  # (B, D)
            theta = angle(unit @ unit.T)  # (B, B)
        same = labels[:, None] == labels
        positive = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        valid = positive.any(dim=1) & (~same).any(dim=1)
        farthest = theta.masked_fill(~positive, -torch.inf).amax(dim=1)[valid]
        nearest = theta.masked_fill(same, torch.inf).amin(dim=1)[valid]
        hinge = (farthest - nearest + self.margin).clamp(min=0)
        if weights is None and reduction == "mean":
            return hinge.sum() / max(len(hinge), 1)
        value = reduce_losses(hinge, None if weights is None else weights[valid], reduction)
        return place_rows(value, valid) if reduction == "none" else value

    @property
    def centers(self) -> None:
        """None: triplets know samples, not classes."""
        return

    def set_centers(self, full: Tensor) -> None:
        raise OptionError("triplet has no class centers to set")

    def logits(self, embeddings: Tensor, labels: Tensor | None = None) -> Tensor:
        raise OptionError("triplet has no classifier, so it gives no logits")

    def settings(self) -> dict[str, float | str]:
        return {"margin": self.margin}
