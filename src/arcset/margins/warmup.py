"""Margins that come in slowly."""

from dataclasses import dataclass

from arcset.checks import check_choice, check_count

__all__ = ["SHAPES", "Warmup"]

SHAPES = ("linear", "exponential")
_LEFT = 1e-3  # of an exponential warm-up, what is still missing just before its end


@dataclass(frozen=True)
class Warmup:
    """How strong a margin is after so many steps: 0 at the start, 1 from step `steps` on.

    - `linear`: step/steps.
    - `exponential`: 1 − 0.001^(step/steps), which comes in fast and settles slowly.

        >>> [Warmup(100).strength(step) for step in (0, 50, 100, 200)]
        [0.0, 0.5, 1.0, 1.0]
        >>> round(Warmup(100, "exponential").strength(50), 3)
        0.968
        >>> Warmup().strength(0)
        1.0

    A margin from the first step on can keep a network from starting at all; see docs/choosing.md.
    """

    steps: int = 0
    shape: str = "linear"

    def __post_init__(self) -> None:
        check_count("warmup", self.steps, least=0)
        check_choice("warmup_shape", self.shape, SHAPES)

    def strength(self, step: int) -> float:
        """How much of the margin counts after `step` training steps, 0 … 1."""
        if step >= self.steps:
            return 1.0
        share = step / self.steps
        return share if self.shape == "linear" else 1 - _LEFT**share
