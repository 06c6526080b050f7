"""All three margins in one."""

import math

from arcset.checks import check_number
from arcset.margins.angular import AngularMargin
from arcset.margins.base import MARGINS


@MARGINS.register("combined")
class Combined(AngularMargin):
    """ψ(m1·θ + m2) − m3: SphereFace's factor, ArcFace's angle and CosFace's offset at once.

    Paper: Deng et al.: ArcFace, CVPR 2019, section on combined margins, where (1, 0.3, 0.2) and
    (0.9, 0.4, 0.15) did about as well as ArcFace. (m1, 0, 0) is sphereface, (1, m2, 0) arcface,
    (1, 0, m3) cosface, (1, 0, 0) normface.
    """

    neutral = {"m1": 1.0, "m2": 0.0, "m3": 0.0}

    def __init__(
        self,
        m1: float = 1.0,
        m2: float = 0.3,
        m3: float = 0.2,
        fallback: str = "default",
    ) -> None:
        super().__init__(
            m1=check_number("m1", m1, 1e-3, 100),
            m2=check_number("m2", m2, 0, math.pi),
            m3=check_number("m3", m3, 0, 2),
            fallback=fallback,
        )

    @classmethod
    def default_options(cls, spacing: float) -> dict[str, float]:
        """The paper's first pair, together no more than half the way to the nearest center."""
        return {"m2": min(0.3, spacing / 4), "m3": min(0.2, (1 - math.cos(spacing)) / 4)}
