"""The reference: all logits in one matrix, in ordinary torch operations."""

import torch
from torch import Tensor
from torch.nn import functional as F

from arcset.centers.batch import MarginBatch
from arcset.centers.sampled import SampledClasses
from arcset.centers.storage import Centers
from arcset.numerics import common_dtype, unit_rows, widen

__all__ = ["margined_logits", "plain_logits", "plain_losses"]


def plain_losses(
    centers: Centers, batch: MarginBatch, sampled: SampledClasses | None = None
) -> Tensor:
    """−log softmax at the margined target, (B,); over the classes drawn, or all C."""
    labels = batch.labels if sampled is None else sampled.labels  # as columns of the logits
    cosines, chosen = _cosines(centers, batch.unit, sampled)  # (B, C) both
    column = labels[:, None]  # (B, 1)
    target = cosines.gather(1, column).squeeze(1)  # (B,)
    batch.observe(target)
    if centers.subcenters > 1 and batch.margin.training:
        centers.count_usage(batch.labels, chosen.gather(1, column).squeeze(1))
    logits = _margined(centers, batch, cosines, sampled)  # (B, C)
    weighted, mean = logits, logits.mean(dim=1)  # (B, C), (B,)
    if sampled is not None and sampled.weights is not None:  # some stand for several classes
        weights = sampled.weights.to(logits)  # (C,)
        weighted, mean = logits + weights.log(), logits @ weights / weights.sum()
    batch.observe_softmax(target, _logsumexp_without(weighted, labels))
    losses = F.cross_entropy(weighted, labels, reduction="none")
    if batch.smoothing:  # torch's own label_smoothing loses digits over many classes in float32
        losses = losses + batch.smoothing * (logits.gather(1, column).squeeze(1) - mean)
    return losses


def plain_logits(centers: Centers, embeddings: Tensor, scale: float) -> Tensor:
    """s·cos θ_j (+ b_j), (B, C), without any margin."""
    unit, _ = unit_rows(widen(embeddings))
    logits = scale * _cosines(centers, unit)[0]
    return logits if centers.bias is None else logits + widen(centers.bias)


def margined_logits(centers: Centers, batch: MarginBatch) -> Tensor:
    """The logits (B, C) that training sees."""
    return _margined(centers, batch, _cosines(centers, batch.unit)[0])


def _cosines(
    centers: Centers, unit: Tensor, sampled: SampledClasses | None = None
) -> tuple[Tensor, Tensor]:
    """Cosine with each class's nearest center, and which of its centers that is; both (B, C)."""
    classes, per_class = centers.classes, centers.subcenters
    weight: Tensor = centers.weight
    if sampled is not None:
        classes = len(sampled)
        weight = weight[sampled.rows(0, classes, per_class)]
    rows = widen(weight)  # (C·K, D)
    dtype = common_dtype(unit, rows)
    directions = unit_rows(rows.to(dtype))[0]  # widened first: a float32 direction is rounded
    cosines = unit.to(dtype) @ directions.T  # (B, C·K)
    return tuple(cosines.unflatten(1, (classes, per_class)).max(dim=2))


def _margined(
    centers: Centers, batch: MarginBatch, cosines: Tensor, sampled: SampledClasses | None = None
) -> Tensor:
    column = (batch.labels if sampled is None else sampled.labels)[:, None]  # (B, 1)
    target = batch.target(cosines.gather(1, column).squeeze(1))  # (B,)
    if batch.margin.alters_negatives:
        batch = batch.with_floor(_floor(batch, cosines, column))
        cosines = batch.negatives(cosines, target)
    logits = batch.scale * cosines.scatter(1, column, target[:, None])
    if centers.bias is None:
        return logits
    return logits + widen(centers.bias if sampled is None else centers.bias[sampled.classes])


def _floor(batch: MarginBatch, cosines: Tensor, column: Tensor) -> Tensor | None:
    """The cosine (B, 1) of the margin's `nearest`-th nearest wrong class."""
    count = min(batch.margin.nearest, cosines.shape[1] - 1)
    if count < 1:
        return None
    wrong = cosines.detach().scatter(1, column, -torch.inf)
    return wrong.topk(count, dim=1).values[:, -1:]


def _logsumexp_without(logits: Tensor, labels: Tensor) -> Tensor:
    """ln Σ_{j≠y} exp(logit_j), (B,); −∞ where there is no other class."""
    return logits.detach().scatter(1, labels[:, None], -torch.inf).logsumexp(dim=1)
