"""Smooth random bending, as no hand draws a character twice alike."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from arcset.data.augment.base import Drawn, Shape, uniform
from arcset.data.augment.options import choice, number, whole
from arcset.data.augment.registry import AUGMENTATIONS
from arcset.data.augment.warp import FILLS, Places, Warp

__all__ = ["Elastic"]


@AUGMENTATIONS.register("elastic")
@dataclass(frozen=True)
class Elastic(Warp):
    """Every point of a coarse grid is moved at random, and the image between follows smoothly.

    The grid has points × points points, its corners on the corner pixels; each is displaced by up
    to `strength` of the width and of the height, drawn evenly, and bicubic interpolation fills the
    field. Simard, Steinkraus, Platt: Best practices for convolutional neural networks applied to
    visual document analysis (2003) blur noise instead, which is the same idea at more cost. The
    image cannot fold over itself while strength · (points − 1) is at most 0.12, as by default.

        >>> images = torch.full((2, 1, 8, 8), 0.5)
        >>> Elastic()(images, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 1, 8, 8])
    """

    name: ClassVar[str] = "elastic"
    description: ClassVar[str] = "bends smoothly, by a coarse grid of random displacements"

    strength: float = number(0.04, 0, 0.5, "largest displacement, a share of width and height")
    points: int = whole(4, 2, 32, "points of the coarse grid along each side")
    fill: str = choice("edge", FILLS, "what comes in from outside: edge pixels, 0 or −1 (black)")

    def idle(self, shape: Shape) -> bool:
        """Whether the strength is 0."""
        return self.strength == 0

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """`field` (B, 2, points, points): the displacements, a share of (width, height)."""
        return {"field": uniform(generator, batch, 2, self.points, self.points) * self.strength}

    def move(self, places: Places, drawn: Drawn, height: int, width: int) -> Places:
        """Each place, displaced by the field there."""
        size = torch.tensor([width, height])[:, None, None]
        field = (drawn["field"] * size).to(places.x)  # (B, 2, n, n), in pixels
        if places.untouched:  # far cheaper than looking each place up
            down = _weights(self.points, height).to(field)  # (H, n)
            across = _weights(self.points, width).to(field)  # (W, n)
            shift = down @ field @ across.T  # (B, 2, H, W)
        else:
            shift = _looked_up(field, places, height, width)
        return Places(places.x + shift[:, 0], places.y + shift[:, 1])


def _weights(points: int, pixels: int) -> Tensor:
    """How much each grid point has to say at each pixel of a line: (pixels, points), bicubic."""
    unit = torch.eye(points)[None, None]  # (1, 1, n, n)
    size = (pixels, points)
    return F.interpolate(unit, size, mode="bicubic", align_corners=True)[0, 0]


def _looked_up(field: Tensor, places: Places, height: int, width: int) -> Tensor:
    """The field (B, 2, n, n) at any places, by the same interpolation: (B, 2, H, W)."""
    x, y = torch.broadcast_tensors(
        places.x * (2 / max(width - 1, 1)), places.y * (2 / max(height - 1, 1))
    )
    grid = torch.stack((x, y), dim=-1).expand(len(field), height, width, 2)
    return F.grid_sample(field, grid, "bicubic", "border", align_corners=True)
