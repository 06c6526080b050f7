"""Other light, other colours."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from arcset.data.augment.base import Augmentation, Drawn, Shape, uniform
from arcset.data.augment.options import number
from arcset.data.augment.registry import AUGMENTATIONS

__all__ = ["Colour"]

# Rows: how red, green and blue make up brightness (Y) and the two colour differences (I, Q) of
# NTSC video, where a turn of (I, Q) is a change of hue.
_YIQ = torch.tensor(
    [[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]],
    dtype=torch.float64,
)


@AUGMENTATIONS.register("colour")
@dataclass(frozen=True)
class Colour(Augmentation):
    """Brightness, contrast, saturation and hue, each by an amount drawn evenly.

    Brightness multiplies what is above black (−1) by 1 ± brightness; contrast multiplies each
    pixel's distance from the image's mean brightness by 1 ± contrast; saturation each pixel's
    distance from its own grey by 1 ± saturation; hue turns colours by a share of the full circle.
    The result is cut to −1 .. 1. On images of one channel saturation and hue do nothing.

        >>> Colour(brightness=1)(torch.full((1, 1, 1, 2), -1.0), torch.Generator())
        tensor([[[[-1., -1.]]]])
    """

    name: ClassVar[str] = "colour"
    description: ClassVar[str] = "changes brightness, contrast, saturation and hue"

    brightness: float = number(0.2, 0, 1, "0.2: times 0.8 .. 1.2")
    contrast: float = number(0.2, 0, 1, "0.2: times 0.8 .. 1.2")
    saturation: float = number(0.2, 0, 1, "0.2: times 0.8 .. 1.2; nothing on grey images")
    hue: float = number(0.0, 0, 0.5, "share of the colour circle, to either side")

    def idle(self, shape: Shape) -> bool:
        """Whether all that these images can show is 0."""
        tint = (self.saturation or self.hue) and shape[0] == 3
        return not (self.brightness or self.contrast or tint)

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """`brightness`, `contrast`, `saturation` (B,), factors, and `hue` (B,) in radians."""
        amounts = uniform(generator, 4, batch).double()
        return {
            "brightness": 1 + amounts[0] * self.brightness,
            "contrast": 1 + amounts[1] * self.contrast,
            "saturation": 1 + amounts[2] * self.saturation,
            "hue": amounts[3] * self.hue * 2 * math.pi,
        }

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """b (c x + (1 − c) m) with x above black and m its mean, after turning the colours."""
        if images.shape[1] == 3 and (self.saturation or self.hue):
            mixing = _mixing(drawn["saturation"], drawn["hue"]).to(images)  # (B, 3, 3)
            images = torch.einsum("bij,bjhw->bihw", mixing, images)  # grey stays: so does the mean
        light, contrast = (
            drawn[option].to(images)[:, None, None, None] for option in ("brightness", "contrast")
        )
        offset = light * (contrast + (1 - contrast) * (_mean(images) + 1)) - 1
        return torch.addcmul(offset, images, light * contrast).clamp_(-1, 1)


def _mean(images: Tensor) -> Tensor:
    """Each image's mean brightness, (B, 1, 1, 1)."""
    means = images.mean(dim=(2, 3), keepdim=True)  # (B, C, 1, 1)
    if images.shape[1] != 3:
        return means.mean(dim=1, keepdim=True)
    return (means * _YIQ[0].to(images)[:, None, None]).sum(dim=1, keepdim=True)


def _mixing(saturation: Tensor, hue: Tensor) -> Tensor:
    """The matrices (B, 3, 3) that stretch and turn the colour differences of RGB pixels."""
    cosine, sine = saturation * hue.cos(), saturation * hue.sin()
    one, none = torch.ones_like(hue), torch.zeros_like(hue)
    turn = torch.stack((one, none, none, none, cosine, -sine, none, sine, cosine), dim=-1)
    mixing: Tensor = torch.linalg.inv(_YIQ) @ turn.reshape(-1, 3, 3) @ _YIQ
    return mixing
