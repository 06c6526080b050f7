"""The reference: all logits in one matrix, in ordinary torch operations."""

import torch
from torch import Tensor
from torch.nn import functional as F

from arcset.centers.query import Query
from arcset.centers.storage import Centers
from arcset.numerics import unit_rows, widen

__all__ = ["margined_logits", "plain_logits", "plain_losses"]


def plain_losses(centers: Centers, query: Query) -> Tensor:
    """−log softmax at the margined target, (B,)."""
    cosines, chosen = _cosines(centers, query.unit)  # (B, C) both
    column = query.labels[:, None]  # (B, 1)
    target = cosines.gather(1, column).squeeze(1)  # (B,)
    query.observe(target)
    if centers.subcenters > 1 and query.margin.training:
        centers.count(query.labels, chosen.gather(1, column).squeeze(1))
    logits = _margined(centers, query, cosines)  # (B, C)
    query.observe_softmax(target, _logsumexp_without(logits, query.labels))
    losses = F.cross_entropy(logits, query.labels, reduction="none")
    if query.smoothing:  # torch's own label_smoothing loses digits over many classes in float32
        spread = logits.gather(1, column).squeeze(1) - logits.mean(dim=1)
        losses = losses + query.smoothing * spread
    return losses


def plain_logits(centers: Centers, embeddings: Tensor, scale: float) -> Tensor:
    """s·cos θ_j (+ b_j), (B, C), without any margin."""
    unit, _ = unit_rows(widen(embeddings))
    logits = scale * _cosines(centers, unit)[0]
    return logits if centers.bias is None else logits + widen(centers.bias)


def margined_logits(centers: Centers, query: Query) -> Tensor:
    """The logits (B, C) that training sees."""
    return _margined(centers, query, _cosines(centers, query.unit)[0])


def _cosines(centers: Centers, unit: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine with each class's nearest center, and which of its centers that is; both (B, C)."""
    directions = centers.directions()  # (C·K, D)
    dtype = torch.promote_types(unit.dtype, directions.dtype)
    cosines = unit.to(dtype) @ directions.to(dtype).T  # (B, C·K)
    return tuple(cosines.unflatten(1, (centers.classes, centers.subcenters)).max(dim=2))


def _margined(centers: Centers, query: Query, cosines: Tensor) -> Tensor:
    column = query.labels[:, None]  # (B, 1)
    target = query.target(cosines.gather(1, column).squeeze(1))  # (B,)
    if query.margin.alters_negatives:
        query = query.with_floor(_floor(query, cosines))
        cosines = query.negatives(cosines, target)
    logits = query.scale * cosines.scatter(1, column, target[:, None])
    return logits if centers.bias is None else logits + widen(centers.bias)


def _floor(query: Query, cosines: Tensor) -> Tensor | None:
    """The cosine (B, 1) of the margin's `nearest`-th nearest wrong class."""
    count = min(query.margin.nearest, cosines.shape[1] - 1)
    if count < 1:
        return None
    wrong = cosines.detach().scatter(1, query.labels[:, None], -torch.inf)
    return wrong.topk(count, dim=1).values[:, -1:]


def _logsumexp_without(logits: Tensor, labels: Tensor) -> Tensor:
    """ln Σ_{j≠y} exp(logit_j), (B,); −∞ where there is no other class."""
    return logits.detach().scatter(1, labels[:, None], -torch.inf).logsumexp(dim=1)
