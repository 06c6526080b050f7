"""A margin on the angle or on the cosine, by choice."""

import math

from torch import Tensor

from arcset.checks import check_choice, check_number
from arcset.margins.base import Margin
from arcset.margins.turn import turned, turned_reference

__all__ = ["KINDS", "ArcOrCos"]

KINDS = ("arc", "cos")
_PUBLISHED = {"arc": 0.5, "cos": 0.35}  # ArcFace's and CosFace's own
_LIMITS = {"arc": math.pi, "cos": 2.0}


class ArcOrCos(Margin):
    """The common body of margins that come in two kinds.

    - `arc`: cos(θ + m), ArcFace's; continuous and falling past π, see `turned`.
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
    def fitted(cls, spacing: float, kind: str = "arc") -> dict[str, float]:
        """The kind's published margin, and no more than half the way to the nearest center."""
        room = (1 - math.cos(spacing)) / 2 if kind == "cos" else spacing / 2
        return {"margin": min(_PUBLISHED.get(kind, room), room)}

    def _moved(self, cosine: Tensor, margin: float | Tensor) -> Tensor:
        """The target by this kind; one margin for all, or one each (B,)."""
        return turned(cosine, margin) if self.kind == "arc" else cosine - margin

    def _moved_reference(self, angle: float, margin: float) -> float:
        """The same for one angle."""
        return turned_reference(angle, margin) if self.kind == "arc" else math.cos(angle) - margin
