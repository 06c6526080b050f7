"""Augmentations that move pixels: all that stand next to each other read the image only once.

Each says where an output pixel comes from; the places go through all of them, last first, and one
bilinear `grid_sample` reads the original there. So a chain of them is as fast and as sharp as one.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from arcset.data.augment.base import Augmentation, Drawn

__all__ = ["FILLS", "Places", "Warp", "resample"]

#: What lies outside of the image: its nearest pixel, 0 (middle grey), or −1 (black).
FILLS = ("edge", "zero", "low")


class Places(NamedTuple):
    """Where pixels come from: x and y in pixels from the middle of the image, right and down.

    Both broadcast to (B, H, W). untouched: whether these are every pixel's own place, where x is
    (1, 1, W) and y is (1, H, 1).
    """

    x: Tensor
    y: Tensor
    untouched: bool = False

    @classmethod
    def of_pixels(cls, height: int, width: int, device: torch.device) -> "Places":
        """Every pixel's own place."""
        x = torch.arange(width, device=device, dtype=torch.float32) - (width - 1) / 2
        y = torch.arange(height, device=device, dtype=torch.float32) - (height - 1) / 2
        return cls(x[None, None, :], y[None, :, None], untouched=True)


class Warp(Augmentation):
    """An augmentation that only says where pixels come from.

    `fill`, where a subclass has that option, is what lies outside; None never looks there.
    """

    fill: str | None = None

    @abstractmethod
    def move(self, places: Places, drawn: Drawn, height: int, width: int) -> Places:
        """Where in the original what is to stand at `places` comes from."""

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """This warp alone."""
        return resample(images, [(self, drawn)])


def resample(images: Tensor, warps: Sequence[tuple[Warp, Drawn]]) -> Tensor:
    """The images (B, C, H, W) after all warps, in their order, read once; their fills agree."""
    batch, _, height, width = images.shape
    places = Places.of_pixels(height, width, images.device)
    for warp, drawn in reversed(warps):
        places = warp.move(places, drawn, height, width)
    # grid_sample counts from −1 to 1 between the outer borders of the outermost pixels.
    grid = images.new_empty(batch, height, width, 2)
    grid[..., 0] = places.x * (2 / width)
    grid[..., 1] = places.y * (2 / height)
    fill = next((warp.fill for warp, _ in warps if warp.fill is not None), "edge")
    if fill == "edge":
        return F.grid_sample(images, grid, "bilinear", "border", align_corners=False)
    if fill == "zero":
        return F.grid_sample(images, grid, "bilinear", "zeros", align_corners=False)
    return F.grid_sample(images + 1, grid, "bilinear", "zeros", align_corners=False) - 1
