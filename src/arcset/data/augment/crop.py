"""A random part of the image, enlarged to its full size."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from arcset.data.augment.base import Drawn, Shape, uniform
from arcset.data.augment.options import number
from arcset.data.augment.registry import AUGMENTATIONS
from arcset.data.augment.warp import Places, Warp

__all__ = ["Crop"]


@AUGMENTATIONS.register("crop")
@dataclass(frozen=True)
class Crop(Warp):
    """A random resized crop, bilinear.

    The part's share of the area is drawn evenly from area .. 1, its width against its height from
    1/(1 + stretch) .. 1 + stretch times the image's own (as far as that fits into the image), and
    its place evenly from all where it lies inside; nothing outside of the image is ever looked at.

        >>> crop = Crop(area=0.5)
        >>> drawn = crop.draw(100, (1, 28, 28), torch.Generator().manual_seed(0))
        >>> bool((drawn["size"].prod(dim=1) >= 0.5 - 1e-6).all())
        True
    """

    name: ClassVar[str] = "crop"
    description: ClassVar[str] = "enlarges a random part of the image to its full size"

    area: float = number(0.75, 0.01, 1, "smallest share of the image's area; 1 is all of it")
    stretch: float = number(0.1, 0, 3, "0.1: width against height by a factor of up to 1.1")

    def idle(self, shape: Shape) -> bool:
        """Whether the part is always the whole."""
        return self.area == 1

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """For (width, height), `size` (B, 2): the share kept, and `place` (B, 2) in −1 .. 1."""
        chance = torch.rand(batch, generator=generator, dtype=torch.float64)
        stretch, *place = uniform(generator, 3, batch).double()
        area = 1 - chance * (1 - self.area)
        # A part of area a can be wider than high by a factor of 1/a at most: then it is as wide as
        # the image.
        widest = (-area.log()).clamp(max=math.log1p(self.stretch))
        half = torch.exp(stretch * widest / 2)
        root = area.sqrt()
        return {
            "size": torch.stack((root * half, root / half), dim=-1).clamp_(max=1),
            "place": torch.stack(place, dim=-1),
        }

    def move(self, places: Places, drawn: Drawn, height: int, width: int) -> Places:
        """From the first to the last pixel of the part; at most to the image's outermost ones."""
        reach = torch.tensor([width - 1, height - 1]) / 2
        start = drawn["place"] * (1 - drawn["size"]) * reach  # (B, 2), in pixels from the middle
        size = drawn["size"].to(places.x)[..., None, None]  # (B, 2, 1, 1)
        start = start.to(places.x)[..., None, None]
        x = places.x * size[:, 0] + start[:, 0]
        y = places.y * size[:, 1] + start[:, 1]
        return Places(x, y)
