"""A batch of embeddings with its margin, and the reference: all logits in one matrix, in ordinary
torch operations.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from arcset.centers.sampled import SampledClasses
from arcset.centers.storage import Centers
from arcset.margins import Margin, Samples
from arcset.numerics import common_dtype, unit_rows, widen


@dataclass(frozen=True)
class MarginBatch:
    """A batch of embeddings with labels, and how their losses are to be formed."""

    unit: Tensor  # (B, D) the embeddings' directions, float32 or wider
    margin: Margin
    samples: Samples  # labels, lengths, step
    scale: float
    smoothing: float = 0.0  # share of the target that is spread evenly over all classes
    straight_through: bool = False

    @classmethod
    def of(
        cls,
        embeddings: Tensor,  # (B, D)
        labels: Tensor,  # (B,)
        margin: Margin,
        scale: float,
        *,
        step: int = 0,
        smoothing: float = 0.0,
        straight_through: bool = False,
        norms: Tensor | None = None,
    ) -> "MarginBatch":
        """The batch as it is after `step` training steps.

        norms: (B,) the lengths that the embeddings had, if they are unit rows by now.
        """
        unit = embeddings
        if norms is None:
            unit, norms = unit_rows(widen(embeddings))  # (B, D), (B,)
        samples = Samples(labels, norms, step, margin.warmup.strength(step))
        return cls(unit, margin, samples, scale, smoothing, straight_through)

    @property
    def labels(self) -> Tensor:
        return self.samples.labels

    def with_floor(self, floor: Tensor | None) -> "MarginBatch":
        """The same, with the cosines (B, 1) of the margin's `nearest`-th nearest wrong class."""
        return replace(self, samples=replace(self.samples, floor=floor))

    def target(self, cosine: Tensor) -> Tensor:
        """Margined target cosines (B,) from bare ones.

        `straight_through` keeps the value and takes the slope of the bare cosine, 1: the gradient
        of implementations that apply the margin outside of autograd, as InsightFace's does.
        """
        margined: Tensor = self.margin(cosine, self.samples)
        if self.straight_through:
            return cosine + (margined - cosine).detach()
        return margined

    def negatives(self, cosines: Tensor, target: Tensor) -> Tensor:
        """Cosines (B, c) of any classes as the margin changes them; `target` (B,) is margined."""
        samples = replace(self.samples, norms=self.samples.norms.detach())
        altered = self.margin.forward_negatives(cosines, target.detach()[:, None], samples)
        if self.straight_through:
            return cosines + (altered - cosines).detach()
        return altered

    @torch.no_grad()
    def observe(self, cosine: Tensor) -> None:
        """Let a margin in training mode bring its statistics up to date."""
        if self.margin.training:
            self.margin.observe(cosine.detach(), self.samples)

    @torch.no_grad()
    def observe_softmax(self, cosine: Tensor, negatives: Tensor) -> None:
        """Likewise with ln Σ_{j≠y} exp(logit_j), (B,)."""
        if self.margin.training:
            self.margin.observe_softmax(cosine.detach(), negatives.detach(), self.scale)


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
