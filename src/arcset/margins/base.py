"""What a margin is, what it promises, how it comes in slowly, and the one list of margins."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from arcset.checks import check_choice, check_count
from arcset.numerics import anchored
from arcset.registry import Registry

SHAPES = ("linear", "exponential")
_LEFT = 1e-3  # of an exponential warm-up, what is still missing just before its end


class Law(Enum):
    """What a loss promises. The value is the promise in words, as help and tests print it.

    Each margin and each loss declares the laws that it obeys; one suite tests them all.
    """

    GRADIENT = "gradients agree with finite differences in float64"
    FINITE = "value and gradients are finite in every dtype, at every corner"
    REFERENCE = "the value equals a slow reference that works sample by sample"
    MEAN = "the loss is the mean of what its samples cost, and a weight of 2 is a sample twice"
    ROUND_TRIP = "a state dict keeps the centers"
    PLAIN_LOGITS = "logits(x) carries no margin"
    TARGET_ONLY = "the margin touches the target logit and no other"
    MONOTONE = "the target logit falls as the angle grows"
    CONTINUOUS = "the target logit has no jump"
    NEUTRAL = "with a neutral margin it equals normface"
    SCALE_FREE = "the length of an embedding changes nothing"


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


@dataclass(frozen=True)
class Samples:
    """What a margin may know about the batch besides the cosines. Most margins need none of it."""

    labels: Tensor  # (B,)
    norms: Tensor  # (B,) lengths of the embeddings before normalization, with their gradient
    step: int = 0  # training steps taken so far
    strength: float = 1.0  # 0 … 1: how far the margin has warmed up; see `Margin.ramps`
    floor: Tensor | None = None  # (B, 1) cosine of the k-th nearest wrong class, if asked for


@dataclass(frozen=True)
class Sample:
    """The same for one sample, in plain numbers, for `Margin.reference`."""

    label: int = 0
    norm: float = 1.0
    step: int = 0
    position: int = 0  # place in the batch
    rank: int = 0  # how many samples of the batch have a smaller target cosine
    size: int = 1  # of the batch


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
    #: Whether `shift` itself heeds `samples.strength`, by a smaller margin; otherwise a margin that
    #: warms up is mixed with the bare cosine.
    ramps: ClassVar[bool] = False
    #: Whether the margin finds the scale itself, in `scale`, so that none is given.
    finds_scale: ClassVar[bool] = False
    #: Whether gradients are those of the value; False where the margin holds something constant
    #: that the value depends on, as a measure of the embedding's length.
    exact_gradient: ClassVar[bool] = True
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        #: How many of the nearest wrong classes `negatives` wants to know the border of.
        self.nearest = 0
        self.warmup = Warmup()

    @abstractmethod
    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        """The formula: target cosines (B,) in, margined target cosines (B,) out."""

    @abstractmethod
    def reference(self, angle: float, sample: Sample) -> float:
        """The same formula for one angle in radians, as plainly as it can be written."""

    def negatives(self, cosines: Tensor, target: Tensor, samples: Samples) -> Tensor:
        """The hook of the few margins that adjust negatives: (B, classes) in and out.

        `target` (B, 1) holds the margined target cosines, without gradient, and so are the lengths
        here. The target's own column may be changed too: it is overwritten afterwards. Works on any
        slice of the classes, and gives the same when called again; `samples.floor` tells the cosine
        of the `nearest`-th nearest wrong class among all.
        """
        return cosines

    def negative_reference(self, cosine: float, target: float, floor: float) -> float:
        """The same for one negative, as plainly as it can be written."""
        return cosine

    def bind(self, classes: int) -> None:
        """Called once, with the number of classes: buffers that depend on it are made here."""

    def set_class_sizes(self, sizes: Tensor) -> None:
        """Told before training how many samples each class has (C,); most margins do not care."""

    def observe(self, cosine: Tensor, samples: Samples) -> None:
        """Called once per training step with the bare target cosines, before `shift`: statistics
        that the margin keeps in buffers are brought up to date here. No gradient is recorded."""

    def observe_softmax(self, cosine: Tensor, negatives: Tensor, scale: float) -> None:
        """Called once per training step, after the loss is known: the bare target cosines (B,) and
        ln Σ_{j≠y} exp(logit_j) (B,) at `scale`. No gradient is recorded."""

    def penalty(self, samples: Samples) -> Tensor | None:
        """Something to add to each sample's loss (B,), such as a wish about embedding lengths."""
        return None

    def penalty_reference(self, sample: Sample) -> float:
        """The same for one sample, as plainly as it can be written."""
        return 0.0

    @property
    def laws(self) -> frozenset[Law]:
        """The laws that this margin obeys, as it is configured."""
        laws = {Law.MONOTONE, Law.CONTINUOUS, Law.SCALE_FREE}
        if self.exact_gradient:
            laws.add(Law.GRADIENT)
        if not self.alters_negatives:
            laws.add(Law.TARGET_ONLY)
        if self.neutral is not None:
            laws.add(Law.NEUTRAL)
        return frozenset(laws)

    @classmethod
    def default_options(cls, spacing: float) -> dict[str, float]:
        """Options that suit neighbouring centers `spacing` radians apart, where none are given.

        Empty by default: the constructor's own defaults stand. Where they depend on other options,
        name these as further parameters with their defaults.
        """
        return {}

    def settings(self) -> dict[str, float | str]:
        """The options in use: each of the constructor, from the attribute of that name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def extra_repr(self) -> str:
        return format_options(self.settings())

    def forward(self, cosine: Tensor, samples: Samples) -> Tensor:
        """`shift` with exact values and finite slopes; see `arcset.numerics.anchored`."""
        if cosine.device.type == "cpu" and _all_inside(cosine):  # elsewhere it would cost a wait
            return self._warm(cosine, self.shift(cosine, samples), samples)
        slope, value = anchored(cosine)
        shifted = self._warm(slope, self.shift(slope, samples), samples)
        exact = self._warm(value, self.shift(value, samples), samples)
        return shifted + (exact - shifted).detach()

    def forward_negatives(self, cosines: Tensor, target: Tensor, samples: Samples) -> Tensor:
        """`negatives`, as far as the margin has warmed up."""
        return self._warm(cosines, self.negatives(cosines, target, samples), samples)

    def _warm(self, bare: Tensor, margined: Tensor, samples: Samples) -> Tensor:
        if self.ramps or samples.strength >= 1:
            return margined
        return bare + samples.strength * (margined - bare)

    def _apply(self, fn: Any, recurse: bool = True) -> "Margin":
        """As for any module, but statistics stay in float32 at least: half precision stalls them"""
        before = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in self.named_buffers(recurse=False):
            if buffer.dtype in (torch.float16, torch.bfloat16):
                setattr(self, name, before[name].to(device=buffer.device))
        return self


MARGINS: Registry[type[Margin]] = Registry("margin", "arcset.margins")


def build_margin(name: str, **options: object) -> Margin:
    """Build a margin by name.

    >>> build_margin("arcface", margin=0.3)
    ArcFace(margin=0.3, fallback=default)
    """
    return MARGINS[name](**options)


def _all_inside(cosine: Tensor) -> bool:
    """Whether every cosine lies so far inside (−1, 1) that `anchored` would change nothing."""
    exact = cosine.detach()
    return len(exact) > 0 and exact.abs().amax().item() <= 1 - torch.finfo(exact.dtype).eps


def format_options(options: Mapping[str, object]) -> str:
    """Options as they stand in a repr.

    >>> format_options({"margin": 0.50, "fallback": "easy"})
    'margin=0.5, fallback=easy'
    """
    return ", ".join(
        f"{option}={value:g}" if isinstance(value, float) else f"{option}={value}"
        for option, value in options.items()
    )
