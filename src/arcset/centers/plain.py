"""The reference: all logits in one matrix, in ordinary torch operations."""

import torch
from torch import Tensor
from torch.nn import functional as F

from arcset.centers.query import Query
from arcset.centers.sampling import Drawn
from arcset.centers.storage import Centers
from arcset.numerics import unit_rows, widen

__all__ = ["margined_logits", "plain_logits", "plain_losses"]


def plain_losses(centers: Centers, query: Query, drawn: Drawn | None = None) -> Tensor:
    """−log softmax at the margined target, (B,); over the classes drawn, or all C."""
    places = query.labels if drawn is None else drawn.labels
    cosines, chosen = _cosines(centers, query.unit, drawn)  # (B, C) both
    column = places[:, None]  # (B, 1)
    target = cosines.gather(1, column).squeeze(1)  # (B,)
    query.observe(target)
    if centers.subcenters > 1 and query.margin.training:
        centers.count(query.labels, chosen.gather(1, column).squeeze(1))
    logits = _margined(centers, query, cosines, drawn)  # (B, C)
    weighted, mean = logits, logits.mean(dim=1)  # (B, C), (B,)
    if drawn is not None and drawn.weights is not None:  # some stand for several classes
        weights = drawn.weights.to(logits)  # (C,)
        weighted, mean = logits + weights.log(), logits @ weights / weights.sum()
    query.observe_softmax(target, _logsumexp_without(weighted, places))
    losses = F.cross_entropy(weighted, places, reduction="none")
    if query.smoothing:  # torch's own label_smoothing loses digits over many classes in float32
        losses = losses + query.smoothing * (logits.gather(1, column).squeeze(1) - mean)
    return losses


def plain_logits(centers: Centers, embeddings: Tensor, scale: float) -> Tensor:
    """s·cos θ_j (+ b_j), (B, C), without any margin."""
    unit, _ = unit_rows(widen(embeddings))
    logits = scale * _cosines(centers, unit)[0]
    return logits if centers.bias is None else logits + widen(centers.bias)


def margined_logits(centers: Centers, query: Query) -> Tensor:
    """The logits (B, C) that training sees."""
    return _margined(centers, query, _cosines(centers, query.unit)[0])


def _cosines(centers: Centers, unit: Tensor, drawn: Drawn | None = None) -> tuple[Tensor, Tensor]:
    """Cosine with each class's nearest center, and which of its centers that is; both (B, C)."""
    classes, per_class = centers.classes, centers.subcenters
    weight: Tensor = centers.weight
    if drawn is not None:
        classes = len(drawn)
        weight = weight[drawn.rows(0, classes, per_class)]
    rows = widen(weight)  # (C·K, D)
    dtype = torch.promote_types(unit.dtype, rows.dtype)
    directions = unit_rows(rows.to(dtype))[0]  # widened first: a float32 direction is rounded
    cosines = unit.to(dtype) @ directions.T  # (B, C·K)
    return tuple(cosines.unflatten(1, (classes, per_class)).max(dim=2))


def _margined(
    centers: Centers, query: Query, cosines: Tensor, drawn: Drawn | None = None
) -> Tensor:
    column = (query.labels if drawn is None else drawn.labels)[:, None]  # (B, 1)
    target = query.target(cosines.gather(1, column).squeeze(1))  # (B,)
    if query.margin.alters_negatives:
        query = query.with_floor(_floor(query, cosines, column))
        cosines = query.negatives(cosines, target)
    logits = query.scale * cosines.scatter(1, column, target[:, None])
    if centers.bias is None:
        return logits
    return logits + widen(centers.bias if drawn is None else centers.bias[drawn.classes])


def _floor(query: Query, cosines: Tensor, column: Tensor) -> Tensor | None:
    """The cosine (B, 1) of the margin's `nearest`-th nearest wrong class."""
    count = min(query.margin.nearest, cosines.shape[1] - 1)
    if count < 1:
        return None
    wrong = cosines.detach().scatter(1, column, -torch.inf)
    return wrong.topk(count, dim=1).values[:, -1:]


def _logsumexp_without(logits: Tensor, labels: Tensor) -> Tensor:
    """ln Σ_{j≠y} exp(logit_j), (B,); −∞ where there is no other class."""
    return logits.detach().scatter(1, labels[:, None], -torch.inf).logsumexp(dim=1)
