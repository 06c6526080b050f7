"""Mirrored images."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from arcset.data.augment.base import Augmentation, Drawn, Shape
from arcset.data.augment.options import number
from arcset.data.augment.registry import AUGMENTATIONS

__all__ = ["Flip"]


@AUGMENTATIONS.register("flip")
@dataclass(frozen=True)
class Flip(Augmentation):
    """Left and right change places, or top and bottom, each with its own probability; exact.

    Good for faces. A mirrored character is another one: leave it out there, or make it a class of
    its own (`class_transforms`).

        >>> Flip(probability=1)(torch.tensor([[[[0.1, 0.2, 0.3]]]]), torch.Generator())
        tensor([[[[0.3000, 0.2000, 0.1000]]]])
    """

    name: ClassVar[str] = "flip"
    description: ClassVar[str] = "mirrors left and right, on request top and bottom"

    probability: float = number(0.5, 0, 1, "of changing left and right")
    vertical: float = number(0.0, 0, 1, "probability of changing top and bottom")

    def idle(self, shape: Shape) -> bool:
        """Whether both probabilities are 0."""
        return not (self.probability or self.vertical)

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """`sideways` and `upside_down` (B,), each true or false."""
        sideways, upside_down = torch.rand(2, batch, generator=generator)
        return {
            "sideways": sideways < self.probability,
            "upside_down": upside_down < self.vertical,
        }

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """The images, those chosen with their pixels in the other order."""
        for chosen, side in ((drawn["sideways"], -1), (drawn["upside_down"], -2)):
            if chosen.any():
                mirrored = chosen.to(images.device)[:, None, None, None]
                images = torch.where(mirrored, images.flip(side), images)
        return images
