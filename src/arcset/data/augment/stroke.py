"""Another pen."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from arcset.data.augment.base import Augmentation, Drawn, Shape
from arcset.data.augment.options import number
from arcset.data.augment.registry import AUGMENTATIONS

__all__ = ["Stroke"]


@AUGMENTATIONS.register("stroke")
@dataclass(frozen=True)
class Stroke(Augmentation):
    """Bright strokes on a dark ground, as in MNIST and Omniglot here, become thicker or thinner.

    An amount is drawn evenly from −thinner .. thicker; the image is mixed by it with the greatest
    of each pixel and its eight neighbours (thicker: at 1, by a pixel on either side), or with the
    least of them (thinner). Where the ink is dark, the two change roles.

        >>> line = torch.tensor([[[[-1.0, -1, 1, -1, -1]]]])
        >>> Stroke().apply(line, {"amount": torch.tensor([0.5])})
        tensor([[[[-1.,  0.,  1.,  0., -1.]]]])
    """

    name: ClassVar[str] = "stroke"
    description: ClassVar[str] = "makes bright strokes thicker or thinner"

    thicker: float = number(0.6, 0, 1, "largest share of the image dilated by a pixel")
    thinner: float = number(0.3, 0, 1, "largest share of the image eroded by a pixel")

    def idle(self, shape: Shape) -> bool:
        """Whether both strengths are 0."""
        return not (self.thicker or self.thinner)

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """`amount` (B,): above 0 thicker, below 0 thinner."""
        chance = torch.rand(batch, generator=generator)
        return {"amount": chance * (self.thicker + self.thinner) - self.thinner}

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """The images with other strokes."""
        amount = drawn["amount"].to(images)[:, None, None, None]
        # One pass for both: eroding is dilating the negative.
        sign = torch.where(amount < 0, -1.0, 1.0).to(images)
        signed = images * sign
        return torch.lerp(signed, _dilated(signed), amount.abs()) * sign


def _dilated(images: Tensor) -> Tensor:
    """The greatest of each pixel and its eight neighbours; several times faster than max_pool2d."""
    for side in (-1, -2):
        size = images.shape[side]
        if size == 1:
            continue
        pairs = torch.maximum(images.narrow(side, 0, size - 1), images.narrow(side, 1, size - 1))
        middle = torch.maximum(pairs.narrow(side, 0, size - 2), pairs.narrow(side, 1, size - 2))
        first, last = pairs.narrow(side, 0, 1), pairs.narrow(side, size - 2, 1)
        images = torch.cat((first, middle, last), dim=side)
    return images
