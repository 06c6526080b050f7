"""A batch on its way through the softmax: embeddings, labels, the margin and the scale."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from arcset.margins import Margin, Samples
from arcset.numerics import unit_rows, widen

__all__ = ["MarginBatch"]


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
