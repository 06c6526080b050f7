"""MagFace: longer embeddings bear larger margins, and are wished to be long."""

import math

from torch import Tensor

from arcset.checks import check_number
from arcset.errors import OptionError
from arcset.margins.angular import shifted_cosine, shifted_cosine_reference
from arcset.margins.base import MARGINS, Law, Margin, Sample, Samples


@MARGINS.register("magface")
class MagFace(Margin):
    """cos(θ + m(a)) with a margin that grows with the embedding's length a, plus λ·g(a).

    m(a) = l_m + (u_m − l_m)·(a − l_a)/(u_a − l_a) and g(a) = 1/a + a/u_a², where a = ‖x‖ clamped to
    [l_a, u_a]. The margin alone would make all embeddings short; g, smallest at u_a, wants them
    long. Those that are easy to recognize end up long: the length becomes a measure of quality.

    Paper: Meng, Zhao, Huang, Zhou: MagFace: A universal representation for face recognition and
    quality assessment, CVPR 2021.

    - `l_a`, `u_a`: the shortest and longest that counts, 0.001 ≤ l_a < u_a < 10⁶. Outside of them
      the length has no gradient: a network whose embeddings start shorter than l_a everywhere never
      learns their lengths, so choose them to suit it.
    - `l_m`, `u_m`: the margins there in radians, 0 ≤ l_m ≤ u_m < π.
    - `penalty_weight`: λ ≥ 0; the loss grows by λ·mean g(a).

    Past π the target goes on falling (see `shifted_cosine`); the authors' code leaves out the
    margin where cos θ ≤ 0 instead (`easy_margin`).

        >>> import torch
        >>> lengths = Samples(torch.zeros(2), norms=torch.tensor([10.0, 200.0]))
        >>> MagFace()(torch.tensor([1.0, 1.0]), lengths)  # cos 0.45 and cos 0.8
        tensor([0.9004, 0.6967])
        >>> MagFace().penalty(lengths)
        tensor([3.5289, 0.6364])
    """

    neutral = {"l_m": 0.0, "u_m": 0.0, "penalty_weight": 0.0}

    def __init__(
        self,
        l_a: float = 10.0,
        u_a: float = 110.0,
        l_m: float = 0.45,
        u_m: float = 0.8,
        penalty_weight: float = 35.0,
    ) -> None:
        super().__init__()
        self.l_a = check_number("l_a", l_a, 1e-3, 1e6)
        self.u_a = check_number("u_a", u_a, 1e-3, 1e6)
        self.l_m = check_number("l_m", l_m, 0, math.pi)
        self.u_m = check_number("u_m", u_m, 0, math.pi)
        self.penalty_weight = check_number("penalty_weight", penalty_weight, 0, 1e9)
        if self.l_a >= self.u_a:
            raise OptionError(f"MagFace: l_a must be below u_a, not {l_a:g} beside {u_a:g}")
        if self.l_m > self.u_m:
            raise OptionError(f"MagFace: l_m must not exceed u_m, not {l_m:g} beside {u_m:g}")

    @property
    def laws(self) -> frozenset[Law]:
        """All but that lengths change nothing."""
        return super().laws - {Law.SCALE_FREE}

    @classmethod
    def default_options(cls, spacing: float) -> dict[str, float]:
        """The paper's 0.45 and 0.8, made smaller where ArcFace's 0.5 is, and as much."""
        crowded = min(1.0, spacing)
        return {"l_m": 0.45 * crowded, "u_m": 0.8 * crowded}

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        """cos(θ + m(a)); the gradient reaches the length too."""
        length = samples.norms.to(cosine.dtype).clamp(self.l_a, self.u_a)
        slope = (self.u_m - self.l_m) / (self.u_a - self.l_a)
        return shifted_cosine(cosine, self.l_m + slope * (length - self.l_a))

    def penalty(self, samples: Samples) -> Tensor:
        length = samples.norms.clamp(self.l_a, self.u_a)
        return self.penalty_weight * (1 / length + length / self.u_a**2)

    def reference(self, angle: float, sample: Sample) -> float:
        length = min(max(sample.norm, self.l_a), self.u_a)
        slope = (self.u_m - self.l_m) / (self.u_a - self.l_a)
        return shifted_cosine_reference(angle, self.l_m + slope * (length - self.l_a))

    def penalty_reference(self, sample: Sample) -> float:
        length = min(max(sample.norm, self.l_a), self.u_a)
        return self.penalty_weight * (1 / length + length / self.u_a**2)
