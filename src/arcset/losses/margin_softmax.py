"""Margin softmax: any margin on class centers."""

import torch
from torch import Tensor

from arcset.centers import PlainCenters
from arcset.laws import Law
from arcset.losses.base import Loss
from arcset.losses.checks import (
    check_batch,
    check_centers,
    check_embeddings,
    check_real,
    check_truth,
)
from arcset.margins import Margin

__all__ = ["MarginSoftmax"]


class MarginSoftmax(Loss):
    """−log softmax of s·cos θ_j, with the target's cosine moved by a margin.

    This one class is normface, sphereface, cosface, arcface, combined and every other margin.
    `bias=True` adds a trained b_j to each logit; for open-set use there is rarely a reason to, as
    a class is then no longer given by its direction alone.

        >>> import arcset, torch
        >>> loss = arcset.build_loss("arcface", dim=2, classes=3, scale=16.0, margin=0.5)
        >>> loss.set_centers(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
        >>> loss.logits(torch.tensor([[5.0, 0.0]]))
        tensor([[ 16.,   0., -16.]], grad_fn=<MulBackward0>)
        >>> loss.logits(torch.tensor([[5.0, 0.0]]), torch.tensor([0]))[0, 0].item()  # 16 cos 0.5
        14.041...
    """

    step: Tensor

    def __init__(
        self, dim: int, classes: int, *, margin: Margin, scale: float, bias: bool = False
    ) -> None:
        super().__init__(dim, classes)
        self.scale = check_real("scale", scale, 0, above=True)
        self.margin = margin
        self.head = PlainCenters(dim, classes, bias=check_truth("bias", bias))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    @property
    def laws(self) -> frozenset[Law]:
        """Those of every loss with a classifier, and the margin's own."""
        general = {Law.GRADIENT, Law.FINITE, Law.REFERENCE, Law.ROUND_TRIP, Law.PLAIN_LOGITS}
        laws = general | self.margin.laws
        return frozenset(laws - {Law.NEUTRAL} if self.head.bias is not None else laws)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Mean over the batch of −log softmax at the margined target."""
        labels = check_batch(embeddings, labels, self.dim, self.classes)
        return self.head.loss(embeddings, labels, self.margin, self.scale, int(self.step))

    def logits(self, embeddings: Tensor, labels: Tensor | None = None) -> Tensor:
        """s·cos θ_j (B, C); with labels, the target column carries the margin."""
        if labels is None:
            return self.head.logits(check_embeddings(embeddings, self.dim), self.scale)
        labels = check_batch(embeddings, labels, self.dim, self.classes)
        return self.head.logits(embeddings, self.scale, self.margin, labels, int(self.step))

    @property
    def centers(self) -> Tensor:
        """Unit rows (C, D)."""
        return self.head.directions().detach()

    @property
    def biases(self) -> Tensor | None:
        """b, or None."""
        return None if self.head.bias is None else self.head.bias.detach()

    def trained_centers(self) -> Tensor:
        """W, not normalized."""
        return self.head.weight

    def set_centers(self, full: Tensor) -> None:
        """Replace all centers; only their directions count."""
        self.head.set(check_centers(full, (self.classes, self.dim)))

    def advance(self, steps: int = 1) -> None:
        """Count training steps, for margins that change over time."""
        self.step += steps

    def settings(self) -> dict[str, float | str]:
        """The scale and the margin's own options."""
        return {"scale": self.scale, **self.margin.settings()}
