"""What several margins share: cos(θ + φ) made to fall everywhere, and two families of margins."""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from arcset.checks import check_choice, check_number
from arcset.errors import OptionError
from arcset.margins.base import Law, Margin, Sample, Samples

FALLBACKS = ("default", "linear", "easy", "none")
KINDS = ("arc", "cos")
_PUBLISHED = {"arc": 0.5, "cos": 0.35}  # ArcFace's and CosFace's own
_LIMITS = {"arc": math.pi, "cos": 2.0}


def shifted_cosine(cosine: Tensor, shift: float | Tensor) -> Tensor:
    """cos(θ + φ) for cosines cos θ (B,), one φ in (−π, π) for all or one each; no arccos.

    Where θ + φ leaves [0, π], as past θ = π − m with a margin m, the cosine would rise again. There
    a chord takes over, parallel to cos θ: cos θ − (1 − cos φ) past π and cos θ + (1 − cos φ) below
    0. It meets cos(θ + φ) at the junction, so the result is continuous, and falls everywhere with a
    finite slope in cos θ.

        >>> shifted_cosine(torch.tensor([1.0, 0.5, -1.0]), 0.5)
        tensor([ 0.8776,  0.0236, -1.1224])
    """
    cos: float | Tensor
    sin: float | Tensor
    sign: float | Tensor
    if isinstance(shift, Tensor):
        cos, sin, sign = shift.cos(), shift.sin(), shift.sign()
    else:
        cos, sin, sign = math.cos(shift), math.sin(shift), math.copysign(1.0, shift)
    sine = ((1 - cosine) * (1 + cosine)).sqrt()
    outside = sign * cosine <= -cos  # θ + φ > π, or θ + φ < 0 where φ is negative
    return torch.where(outside, cosine - sign * (1 - cos), cosine * cos - sine * sin)


def shifted_cosine_reference(angle: float, shift: float) -> float:
    """The same for one angle, case by case.

    >>> round(shifted_cosine_reference(math.pi, 0.5), 4)
    -1.1224
    """
    if angle + shift > math.pi:
        return math.cos(angle) - (1 - math.cos(shift))
    if angle + shift < 0:
        return math.cos(angle) + (1 - math.cos(shift))
    return math.cos(angle + shift)


class AngularMargin(Margin):
    """ψ(m1·θ + m2) − m3, the common body of ArcFace, SphereFace and their combination.

    The cosine of φ = m1·θ + m2 rises again past φ = π, where a larger angle would be rewarded.
    `fallback` says what is done about it:

    - `default`: continuous and monotone. For m1 = 1: cos θ − (1 − cos m2) − m3 past π, the chord
      that meets the cosine at φ = π and ψ at θ = π, with a finite slope. Otherwise
      ψ(φ) = (−1)^k cos φ − 2k with k = ⌊φ/π⌋ (SphereFace's).
    - `linear`: cos θ − m2 sin m2 − m3 past π, as InsightFace and others do; m1 = 1 only. It jumps
      down at φ = π, by m2 sin m2 − (1 − cos m2).
    - `easy`: the margin only where cos θ > 0, the bare cosine elsewhere. It jumps at θ = π/2.
    - `none`: the bare formula, which rises again.
    """

    ramps = True
    #: The fallbacks that this margin can offer.
    fallbacks: ClassVar[Sequence[str]] = FALLBACKS

    def __init__(
        self, m1: float = 1.0, m2: float = 0.0, m3: float = 0.0, fallback: str = "default"
    ) -> None:
        super().__init__()
        check_choice("fallback", fallback, self.fallbacks)
        if fallback == "linear" and m1 != 1:
            raise OptionError(f"fallback 'linear' is defined for m1 = 1 only, not for m1 = {m1:g}")
        self.m1, self.m2, self.m3, self.fallback = m1, m2, m3, fallback

    @property
    def laws(self) -> frozenset[Law]:
        """All of a margin's, less what the chosen fallback gives up."""
        rises = self.m2 * math.sin(self.m2) < 1 - math.cos(self.m2)  # from m2 = 2.33 on
        given_up = {
            "default": set(),
            "linear": {Law.CONTINUOUS, Law.MONOTONE} if rises else {Law.CONTINUOUS},
            "easy": {Law.CONTINUOUS, Law.MONOTONE},
            "none": {Law.MONOTONE},
        }
        return super().laws - given_up[self.fallback]

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        """ψ(m1·θ + m2) − m3, without an arccos where m1 = 1."""
        part = samples.strength  # while warming up: so much of the way from the neutral 1, 0, 0
        m1, m2, m3 = 1 + part * (self.m1 - 1), part * self.m2, part * self.m3
        if self.fallback == "default" and m1 == 1:
            return shifted_cosine(cosine, m2) - m3
        bare, past = self._additive(cosine, m2) if m1 == 1 else self._multiplied(cosine, m1, m2)
        if self.fallback == "easy":
            return torch.where(cosine > 0, bare - m3, cosine)
        return (bare if self.fallback == "none" else past) - m3

    def _additive(self, cosine: Tensor, m2: float) -> tuple[Tensor, Tensor]:
        """cos(θ + m2) by the addition theorem, and the same with `linear` past π."""
        sine = ((1 - cosine) * (1 + cosine)).sqrt()
        bare = cosine * math.cos(m2) - sine * math.sin(m2)
        return bare, torch.where(cosine > -math.cos(m2), bare, cosine - m2 * math.sin(m2))

    def _multiplied(self, cosine: Tensor, m1: float, m2: float) -> tuple[Tensor, Tensor]:
        """cos(m1·θ + m2), and ψ of the same phase."""
        phase = m1 * cosine.arccos() + m2
        turns = (phase.detach() / math.pi).floor()
        bare = phase.cos()
        return bare, (1 - 2 * turns.remainder(2)) * bare - 2 * turns

    def reference(self, angle: float, sample: Sample) -> float:
        """ψ(m1·θ + m2) − m3 for one angle, case by case as the class describes it."""
        phase = self.m1 * angle + self.m2
        if self.fallback == "easy" and math.cos(angle) <= 0:
            return math.cos(angle)
        if self.fallback in ("easy", "none") or phase <= math.pi:
            return math.cos(phase) - self.m3
        if self.fallback == "linear":
            return math.cos(angle) - self.m2 * math.sin(self.m2) - self.m3
        if self.m1 == 1:
            return shifted_cosine_reference(angle, self.m2) - self.m3
        turns = math.floor(phase / math.pi)
        sign = -1.0 if turns % 2 else 1.0
        return sign * math.cos(phase) - 2 * turns - self.m3


class ArcOrCosMargin(Margin):
    """The common body of margins that come in two kinds.

    - `arc`: cos(θ + m), ArcFace's; continuous and falling past π, see `shifted_cosine`.
    - `cos`: cos θ − m, CosFace's.

    `margin=None` means the kind's published value: 0.5 radians or 0.35.
    """

    def __init__(self, margin: float | None, kind: str) -> None:
        super().__init__()
        self.kind = check_choice("kind", kind, KINDS)
        self._limit = _LIMITS[kind]
        wanted = _PUBLISHED[kind] if margin is None else margin
        self.margin = check_number("margin", wanted, 0, self._limit)

    @classmethod
    def default_options(cls, spacing: float, kind: str = "arc") -> dict[str, float]:
        """The kind's published margin, and no more than half the way to the nearest center."""
        room = (1 - math.cos(spacing)) / 2 if kind == "cos" else spacing / 2
        return {"margin": min(_PUBLISHED.get(kind, room), room)}

    def _add_margin(self, cosine: Tensor, margin: float | Tensor) -> Tensor:
        """cos(θ + m) or cos θ − m, with one margin for all or one each (B,)."""
        return shifted_cosine(cosine, margin) if self.kind == "arc" else cosine - margin

    def _add_margin_reference(self, angle: float, margin: float) -> float:
        if self.kind == "arc":
            return shifted_cosine_reference(angle, margin)
        return math.cos(angle) - margin
