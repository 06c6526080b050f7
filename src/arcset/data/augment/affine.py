"""Turning, scaling, stretching, slanting and shifting."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from arcset.data.augment.base import Drawn, Shape, uniform
from arcset.data.augment.options import choice, number
from arcset.data.augment.registry import AUGMENTATIONS
from arcset.data.augment.warp import FILLS, Places, Warp

__all__ = ["Affine"]


@AUGMENTATIONS.register("affine")
@dataclass(frozen=True)
class Affine(Warp):
    """A random linear map and a shift, about the middle of the image, bilinear.

    An image is scaled (by a factor between 1/(1 + scale) and 1 + scale) and stretched (width
    against height by such a factor, at the same area), then slanted sideways, turned, and shifted;
    each amount is drawn evenly, factors on a logarithmic scale. Angles are in degrees, and hold in
    pixels, so that a circle in a rectangular image stays one. Moving blurs small images a little;
    with a probability below 1 some stay as sharp as those that are recognized later.

        >>> images = torch.full((2, 1, 8, 8), 0.5)
        >>> moved = Affine(rotate=45)(images, torch.Generator().manual_seed(0))
        >>> moved.shape, bool((moved - 0.5).abs().max() < 1e-6)
        (torch.Size([2, 1, 8, 8]), True)
    """

    name: ClassVar[str] = "affine"
    description: ClassVar[str] = "turns, scales, stretches, slants and shifts"

    rotate: float = number(10.0, 0, 180, "degrees, to either side")
    scale: float = number(0.1, 0, 3, "0.1: smaller or larger by a factor of up to 1.1")
    stretch: float = number(0.1, 0, 3, "0.1: width against height by a factor of up to 1.1")
    shear: float = number(5.0, 0, 60, "degrees by which uprights lean, to either side")
    shift: float = number(0.05, 0, 1, "share of width and of height, to either side")
    probability: float = number(1.0, 0, 1, "of an image being moved at all")
    fill: str = choice("edge", FILLS, "what comes in from outside: edge pixels, 0 or −1 (black)")

    def idle(self, shape: Shape) -> bool:
        """Whether every strength is 0, or the probability."""
        strengths = (self.rotate, self.scale, self.stretch, self.shear, self.shift)
        return not (self.probability and any(strengths))

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """`matrix` (B, 2, 2) of the forward map, `shift` (B, 2) as a share of (width, height)."""
        turn, scale, stretch, shear, *shift = uniform(generator, 6, batch).double()
        angle = turn * math.radians(self.rotate)
        lean = torch.tan(shear * math.radians(self.shear))
        size = torch.exp(scale * math.log1p(self.scale))
        half = torch.exp(stretch * math.log1p(self.stretch) / 2)
        cosine, sine = angle.cos(), angle.sin()
        # turn · slant · scale: [[c, −s], [s, c]] · [[1, lean], [0, 1]] · diag(size·half, size/half)
        left, right = size * half, size / half
        rows = (
            torch.stack((cosine * left, (cosine * lean - sine) * right), dim=-1),
            torch.stack((sine * left, (sine * lean + cosine) * right), dim=-1),
        )
        matrix, moved = torch.stack(rows, dim=1), torch.stack(shift, dim=-1) * self.shift
        if self.probability < 1:
            still = torch.rand(batch, generator=generator) >= self.probability
            matrix[still], moved[still] = torch.eye(2, dtype=matrix.dtype), 0.0
        return {"matrix": matrix, "shift": moved}

    def move(self, places: Places, drawn: Drawn, height: int, width: int) -> Places:
        """The inverse of the forward map p ↦ M p + t: M⁻¹ (q − t)."""
        back = torch.linalg.inv(drawn["matrix"])  # (B, 2, 2)
        offset = drawn["shift"] * torch.tensor([width, height])  # (B, 2), in pixels
        start = -(back @ offset[..., None])  # (B, 2, 1)
        table = torch.cat((back, start), dim=-1).to(places.x)[..., None, None]  # (B, 2, 3, 1, 1)
        xx, xy, x0 = table[:, 0].unbind(1)  # each (B, 1, 1)
        yx, yy, y0 = table[:, 1].unbind(1)
        # The small operands first: on the grid of pixels, only the outer sums are (B, H, W).
        x = xx * places.x + (xy * places.y + x0)
        y = yx * places.x + (yy * places.y + y0)
        return Places(x, y)
