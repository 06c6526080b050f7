"""The reference: all centers in one parameter, all logits in one matrix."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arcset.centers.start import first_directions
from arcset.margins import Margin, Samples
from arcset.numerics import unit_rows, widen

__all__ = ["PlainCenters"]


class PlainCenters(nn.Module):
    """C class centers in R^D, compared with embeddings by cosine.

    Used as normalized copies only; the parameter itself stays free. Its length then sets the
    effective learning rate, since the gradient of a direction falls as 1/‖W_j‖: rows start with
    length 1 (`first_directions`), and only weight decay and the optimizer's steps change that.

    Sums and products run in float32 at least, autocast or not.
    """

    def __init__(self, dim: int, classes: int, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(first_directions(classes, dim))  # (C, D)
        self.bias = nn.Parameter(torch.zeros(classes)) if bias else None

    def directions(self) -> Tensor:
        """The centers as unit rows, (C, D)."""
        return unit_rows(widen(self.weight))[0]

    def set(self, full: Tensor) -> None:
        """Replace all centers by `full` (C, D); lengths are kept as given."""
        with torch.no_grad():
            self.weight.copy_(full)

    def logits(
        self,
        embeddings: Tensor,  # (B, D)
        scale: float,
        margin: Margin | None = None,
        labels: Tensor | None = None,  # (B,)
        step: int = 0,
    ) -> Tensor:
        """s·cos θ_j (+ b_j), (B, C); with `margin` and `labels`, as training sees them."""
        with torch.autocast(embeddings.device.type, enabled=False):
            unit, norms = unit_rows(widen(embeddings))  # (B, D), (B,)
            directions = self.directions()  # (C, D)
            dtype = torch.promote_types(unit.dtype, directions.dtype)
            cosines = unit.to(dtype) @ directions.to(dtype).T  # (B, C)
            if margin is not None and labels is not None:
                samples = Samples(labels, norms, step)
                column = labels[:, None]  # (B, 1)
                target = margin(cosines.gather(1, column).squeeze(1), samples)[:, None]
                if margin.alters_negatives:
                    cosines = margin.negatives(cosines, target, samples)
                cosines = cosines.scatter(1, column, target)
            logits = scale * cosines
            return logits if self.bias is None else logits + widen(self.bias)

    def loss(
        self, embeddings: Tensor, labels: Tensor, margin: Margin, scale: float, step: int = 0
    ) -> Tensor:
        """Mean over the batch of −log softmax at the target, a scalar."""
        return F.cross_entropy(self.logits(embeddings, scale, margin, labels, step), labels)
