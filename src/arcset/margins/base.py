"""What a margin is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from arcset.errors import OptionError
from arcset.laws import Law
from arcset.numerics import anchored, lies_in

__all__ = ["Margin", "Samples"]


@dataclass(frozen=True)
class Samples:
    """What a margin may know about the batch besides the cosines. Most margins need none of it."""

    labels: Tensor  # (B,)
    norms: Tensor  # (B,) lengths of the embeddings before normalization
    step: int  # training steps taken so far


class Margin(nn.Module, ABC):
    """From target cosines (B,) to margined target cosines (B,); the scale comes after it.

    A subclass writes two formulas and nothing else: `shift` on tensors, and `reference` for one
    angle in plain Python, which the tests compare it with. `shift` may use √(1 − c²) or arccos
    freely: it is called on cosines strictly inside (−1, 1) for the slope, so that gradients are
    finite, and at the exact cosines for the value.

    A margin may own buffers and parameters. It knows nothing of how class centers are stored.
    """

    #: Options under which the margin does nothing; None where there are none.
    neutral: ClassVar[Mapping[str, float] | None] = None
    #: Whether `negatives` does something.
    alters_negatives: ClassVar[bool] = False

    @abstractmethod
    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        """The formula: target cosines (B,) in, margined target cosines (B,) out."""

    @abstractmethod
    def reference(self, angle: float) -> float:
        """The same formula for one angle in radians, as plainly as it can be written."""

    def negatives(self, cosines: Tensor, target: Tensor, samples: Samples) -> Tensor:
        """The hook of the few margins that adjust negatives: (B, classes) in and out.

        `target` (B, 1) holds the margined target cosines. The target's own column may be changed
        too: it is overwritten afterwards. Works on any slice of the classes.
        """
        return cosines

    @property
    def laws(self) -> frozenset[Law]:
        """The laws about the target logit that this margin obeys, as it is configured."""
        laws = {Law.MONOTONE, Law.CONTINUOUS, Law.SCALE_FREE}
        if not self.alters_negatives:
            laws.add(Law.TARGET_ONLY)
        if self.neutral is not None:
            laws.add(Law.NEUTRAL)
        return frozenset(laws)

    @classmethod
    def fitted(cls, spacing: float) -> dict[str, float]:
        """Options that suit neighbouring centers `spacing` radians apart, where none are given.

        Empty by default: the constructor's own defaults stand.
        """
        return {}

    def settings(self) -> dict[str, float | str]:
        """The options in use, by the names of the constructor."""
        return {}

    def extra_repr(self) -> str:
        """The options, for printing."""
        return ", ".join(
            f"{option}={value:g}" if isinstance(value, float) else f"{option}={value}"
            for option, value in self.settings().items()
        )

    def forward(self, cosine: Tensor, samples: Samples) -> Tensor:
        """`shift` with exact values and finite slopes; see `arcset.numerics.anchored`."""
        slope, value = anchored(cosine)
        shifted = self.shift(slope, samples)
        return shifted + (self.shift(value, samples) - shifted).detach()

    def _in_range(self, option: str, value: float, low: float, high: float) -> float:
        """`value` as a float if it lies in [low, high), else an error that names the option."""
        if not lies_in(value, low, high):
            name = type(self).__name__
            raise OptionError(f"{name}: {option} must lie in [{low:g}, {high:.5g}), not {value!r}")
        return float(value)
