"""Rectangles that hide a part of the image."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from arcset.data.augment.base import Augmentation, Drawn, Shape, uniform
from arcset.data.augment.options import choice, number, whole
from arcset.data.augment.registry import AUGMENTATIONS
from arcset.errors import OptionError

__all__ = ["Erasing"]

_WIDEST = 2.0  # a rectangle's width against its height, relative to the image's: 1/2 .. 2


@AUGMENTATIONS.register("erasing")
@dataclass(frozen=True)
class Erasing(Augmentation):
    """Random rectangles are painted over.

    Paper: Zhong, Zheng, Kang, Li, Yang: Random erasing data augmentation, AAAI 2020.

    An image is chosen with `probability`; each of its `count` rectangles has an area drawn evenly
    from smallest .. largest (to whole rows and columns), a width against its height between half
    and twice that of the image, and any place where it lies inside. `fill`: `noise` is even in
    −1 .. 1, `mean` the image's own mean by channel, `zero` middle grey, `low` black.

        >>> Erasing(smallest=0.4, largest=0.3)
        Traceback (most recent call last):
        arcset.errors.OptionError: erasing: smallest must be at most largest, which is 0.3, not 0.4
    """

    name: ClassVar[str] = "erasing"
    description: ClassVar[str] = "paints random rectangles over"

    probability: float = number(0.5, 0, 1, "of an image being chosen")
    smallest: float = number(0.02, 0, 1, "least area of a rectangle, a share of the image's")
    largest: float = number(0.15, 0, 1, "greatest area of a rectangle, a share of the image's")
    count: int = whole(1, 1, 100, "rectangles in an image that is chosen")
    fill: str = choice(
        "noise", ("noise", "mean", "zero", "low"), "what a rectangle is painted with"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smallest > self.largest:
            raise OptionError(
                f"erasing: smallest must be at most largest, which is {self.largest:g}, "
                f"not {self.smallest:g}"
            )

    def idle(self, shape: Shape) -> bool:
        """Whether no image is chosen, or rectangles have no area."""
        return self.probability == 0 or self.largest == 0

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """`top`, `left`, `rows`, `columns` (B, count), no rows where nothing is to be erased.

        With fill=noise also `noise` (B, C, H, W).
        """
        _, height, width = shape
        chosen = torch.rand(batch, 1, generator=generator) < self.probability
        part, aspect, down, across = torch.rand(4, batch, self.count, generator=generator).double()
        area = self.smallest + part * (self.largest - self.smallest)
        stretch = _WIDEST ** (aspect * 2 - 1)
        # As many rows as it takes for the rectangle to be no wider than the image, then as many
        # columns as come nearest to the area.
        fewest = (area * height).ceil().clamp(min=1)
        rows = (height * (area / stretch).sqrt()).round().clamp(max=height).maximum(fewest)
        columns = (area * height * width / rows).round().clamp(1, width)
        drawn = {
            "top": (down * (height - rows + 1)).floor().long(),
            "left": (across * (width - columns + 1)).floor().long(),
            "rows": torch.where(chosen, rows, 0).long(),
            "columns": columns.long(),
        }
        return drawn | (
            {"noise": uniform(generator, batch, *shape)} if self.fill == "noise" else {}
        )

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """The images with their rectangles painted over."""
        height, width = images.shape[2:]
        down = _spans(drawn["top"], drawn["rows"], height)  # (B, count, H)
        across = _spans(drawn["left"], drawn["columns"], width)  # (B, count, W)
        erased = (down[..., None] & across[..., None, :]).any(dim=1)  # (B, H, W)
        return torch.where(erased[:, None].to(images.device), self._paint(images, drawn), images)

    def _paint(self, images: Tensor, drawn: Drawn) -> Tensor:
        if self.fill == "noise":
            return drawn["noise"].to(images)
        if self.fill == "mean":
            return images.mean(dim=(2, 3), keepdim=True)
        return images.new_tensor(0.0 if self.fill == "zero" else -1.0)


def _spans(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Which of `size` positions lie in start .. start + length − 1: (B, count, size)."""
    position = torch.arange(size)
    start = start[..., None]
    return (position >= start) & (position < start + length[..., None])
