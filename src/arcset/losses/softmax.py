"""Plain softmax: the classifier that knows a closed set."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arcset.centers.storage import check_room
from arcset.checks import check_bool
from arcset.losses.base import (
    LOSSES,
    Loss,
    check_batch,
    check_centers,
    check_embeddings,
    check_overflow,
    check_weights,
    reduce_losses,
)
from arcset.margins.base import Law
from arcset.numerics import common_dtype, widen


@LOSSES.register("softmax")
class Softmax(Loss):
    """−log softmax of W_j·x + b_j, nothing normalized; `bias=False` leaves b out.

    Starts as a linear layer does: W uniform in ±1/√D, b zero.
    """

    def __init__(self, dim: int, classes: int, *, bias: bool = True) -> None:
        super().__init__(dim, classes)
        check_room(self.classes, self.dim)
        self.weight = nn.Parameter((torch.rand(classes, dim) * 2 - 1) / dim**0.5)  # (C, D)
        self.bias = nn.Parameter(torch.zeros(classes)) if check_bool("bias", bias) else None

    @property
    def normalized(self) -> bool:
        """False: the length of an embedding counts."""
        return False

    @property
    def laws(self) -> frozenset[Law]:
        """Those of every loss with a classifier; there is no margin to make promises about."""
        return frozenset(
            {
                Law.GRADIENT,
                Law.FINITE,
                Law.REFERENCE,
                Law.MEAN,
                Law.ROUND_TRIP,
                Law.PLAIN_LOGITS,
            }
        )

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        weights: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Mean over the batch of −log softmax at the target."""
        labels = check_batch(self, embeddings, labels)
        weights = check_weights(weights, reduction, embeddings)
        scores = self._scores(embeddings)  # (B, C)
        if weights is None:
            value = F.cross_entropy(scores, labels, reduction=reduction)
        else:
            losses = F.cross_entropy(scores, labels, reduction="none")  # (B,)
            value = reduce_losses(losses, weights, reduction)
        return check_overflow(value, embeddings)

    def logits(self, embeddings: Tensor, labels: Tensor | None = None) -> Tensor:
        """W_j·x + b_j (B, C), the same with and without labels."""
        if labels is not None:
            check_batch(self, embeddings, labels)
        return self._scores(check_embeddings(self, embeddings))

    def _scores(self, embeddings: Tensor) -> Tensor:
        with torch.autocast(embeddings.device.type, enabled=False):
            dtype = common_dtype(embeddings, self.weight)
            bias = None if self.bias is None else widen(self.bias).to(dtype)
            return F.linear(widen(embeddings).to(dtype), widen(self.weight).to(dtype), bias)

    @property
    def centers(self) -> Tensor:
        """W as it is, (C, D)."""
        return self.weight.detach()

    @property
    def biases(self) -> Tensor | None:
        return None if self.bias is None else self.bias.detach()

    def trained_centers(self) -> Tensor:
        return self.weight

    def set_centers(self, full: Tensor) -> None:
        """Replace W by `full` (C, D); the bias stays."""
        with torch.no_grad():
            self.weight.copy_(check_centers(self, full))
