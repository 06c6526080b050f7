"""Grainy images."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from arcset.data.augment.base import Augmentation, Drawn, Shape
from arcset.data.augment.options import number
from arcset.data.augment.registry import AUGMENTATIONS

__all__ = ["Noise"]


@AUGMENTATIONS.register("noise")
@dataclass(frozen=True)
class Noise(Augmentation):
    """Gaussian noise on every value, its standard deviation drawn evenly from 0 .. strength.

    The whole range of values, −1 .. 1, is 2; the result is cut to it.

        >>> images = Noise(strength=0.5)(torch.zeros(4, 1, 28, 28), torch.Generator())
        >>> bool(images.std() > 0.1), bool(images.abs().max() <= 1)
        (True, True)
    """

    name: ClassVar[str] = "noise"
    description: ClassVar[str] = "adds Gaussian noise of random strength"

    strength: float = number(0.1, 0, 2, "largest standard deviation, on the scale −1 .. 1")

    def idle(self, shape: Shape) -> bool:
        """Whether the strength is 0."""
        return self.strength == 0

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """`sigma` (B,) and `noise` (B, C, H, W) of unit variance."""
        return {
            "sigma": torch.rand(batch, generator=generator) * self.strength,
            "noise": torch.randn(batch, *shape, generator=generator),
        }

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """The noisy images."""
        sigma = drawn["sigma"].to(images)[:, None, None, None]
        return torch.addcmul(images, drawn["noise"].to(images), sigma).clamp_(-1, 1)
