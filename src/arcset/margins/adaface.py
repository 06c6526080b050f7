"""AdaFace: the kind of margin follows the quality of the image."""

import math

import torch
from torch import Tensor

from arcset.checks import check_choice, check_number
from arcset.margins.angular import shifted_cosine, shifted_cosine_reference
from arcset.margins.base import MARGINS, Law, Margin, Sample, Samples

_SHORTEST, _LONGEST = 1e-3, 100.0  # norms are clipped to this, as the authors do
_EPS = 1e-3


@MARGINS.register("adaface")
class AdaFace(Margin):
    """cos(θ − m·ẑ) − m·(1 + ẑ), where ẑ says how good the image is, by its embedding's length.

    ẑ = clip(h·(‖x‖ − μ)/(σ + 0.001), −1, 1), without gradient; μ and σ are running statistics of
    the lengths. Poor images (ẑ = −1) see ArcFace, cos(θ + m); middling ones (ẑ = 0) CosFace,
    cos θ − m; good ones (ẑ = 1) cos(θ − m) − 2m, which stresses the hard among them.

    Paper: Kim, Jain, Liu: AdaFace: Quality adaptive margin for face recognition, CVPR 2022.

    - `margin`: m, 0 ≤ m < π.
    - `h`: how strongly lengths are told apart, 0 ≤ h < 100; 0.333 makes 3σ the bound.
    - `rate`: how fast μ and σ follow the batches, 0 … 1; 1 is the last batch alone. They start at
      20 and 100, the authors' values, so early on every image counts as middling.
    - `fallback`: where θ − m·ẑ leaves [0, π], `default` goes on falling (see `shifted_cosine`);
      `clamp` holds it at the border, as the authors' code does: good images closer than m·ẑ and
      poor ones past π − m then get no gradient, nor do cosines beyond ±0.999. (The authors also
      clamp the cosines of the wrong classes to ±0.999; here those stay as they are.)

        >>> from arcset.margins import Samples
        >>> norms = torch.tensor([0.0, 20.0, 100.0])  # the running mean is 20
        >>> AdaFace(h=10)(torch.full((3,), 0.6), Samples(torch.zeros(3), norms))
        tensor([0.2411, 0.2000, 0.0642])
    """

    neutral = {"margin": 0.0}
    exact_gradient = False  # ẑ counts as a constant
    norm_mean: Tensor
    norm_std: Tensor

    def __init__(
        self, margin: float = 0.4, h: float = 0.333, rate: float = 0.01, fallback: str = "default"
    ) -> None:
        super().__init__()
        self.margin = check_number("margin", margin, 0, math.pi)
        self.h = check_number("h", h, 0, 100)
        self.rate = check_number("rate", rate, 0, 1, closed="both")
        self.fallback = check_choice("fallback", fallback, ("default", "clamp"))
        self.register_buffer("norm_mean", torch.tensor(20.0))
        self.register_buffer("norm_std", torch.tensor(100.0))

    @property
    def laws(self) -> frozenset[Law]:
        """Lengths matter; a clamped angle stands still at both ends, even without a margin."""
        given_up = {Law.SCALE_FREE}
        if self.fallback == "clamp":
            given_up |= {Law.MONOTONE, Law.NEUTRAL}
        return super().laws - given_up

    @classmethod
    def default_options(cls, spacing: float) -> dict[str, float]:
        """The paper's 0.4, and no more than half of the cosine between neighbouring centers."""
        return {"margin": min(0.4, spacing / 2, (1 - math.cos(spacing)) / 2)}

    def observe(self, cosine: Tensor, samples: Samples) -> None:
        """μ ← (1 − rate)·μ + rate·mean‖x‖, and σ likewise; one sample alone has no σ."""
        norms = samples.norms.detach().clamp(_SHORTEST, _LONGEST)
        self.norm_mean.mul_(1 - self.rate).add_(self.rate * norms.mean())
        if len(norms) > 1:
            self.norm_std.mul_(1 - self.rate).add_(self.rate * norms.std())

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        """cos(θ − m·ẑ) − m·(1 + ẑ)."""
        norms = samples.norms.detach().clamp(_SHORTEST, _LONGEST).to(cosine.dtype)
        mean, std = self.norm_mean.to(cosine.dtype), self.norm_std.to(cosine.dtype)
        quality = ((norms - mean) / (std + _EPS) * self.h).clamp(-1, 1)  # (B,)
        turn, offset = -self.margin * quality, self.margin * (1 + quality)
        if self.fallback == "default":
            return shifted_cosine(cosine, turn) - offset
        angle = cosine.clamp(-1 + _EPS, 1 - _EPS).arccos()
        return (angle + turn).clamp(_EPS, math.pi - _EPS).cos() - offset

    def reference(self, angle: float, sample: Sample) -> float:
        norm = min(max(sample.norm, _SHORTEST), _LONGEST)
        quality = (norm - self.norm_mean.item()) / (self.norm_std.item() + _EPS) * self.h
        quality = min(max(quality, -1.0), 1.0)
        turn, offset = -self.margin * quality, self.margin * (1 + quality)
        if self.fallback == "default":
            return shifted_cosine_reference(angle, turn) - offset
        angle = math.acos(min(max(math.cos(angle), -1 + _EPS), 1 - _EPS))
        return math.cos(min(max(angle + turn, _EPS), math.pi - _EPS)) - offset
