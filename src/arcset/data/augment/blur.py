"""Images out of focus."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from arcset.data.augment.base import Augmentation, Drawn, Shape
from arcset.data.augment.options import number
from arcset.data.augment.registry import AUGMENTATIONS

__all__ = ["Blur"]

_REACH = 4.0  # standard deviations after which the kernel is cut off


@AUGMENTATIONS.register("blur")
@dataclass(frozen=True)
class Blur(Augmentation):
    """Gaussian blur, its standard deviation drawn evenly from 0 .. sigma pixels for each image.

    Beyond the border lies the border's pixel. Rows and columns are blurred one after the other,
    each by one matrix product for the whole batch: the kernels differ, and a product with an
    (H, H) matrix per image is faster than as many small convolutions.

        >>> flat = torch.full((1, 1, 5, 4), 0.25)
        >>> bool((Blur()(flat, torch.Generator()) - flat).abs().max() < 1e-6)
        True
    """

    name: ClassVar[str] = "blur"
    description: ClassVar[str] = "blurs by a Gaussian of random width"

    sigma: float = number(0.8, 0, 20, "largest standard deviation, in pixels")

    def idle(self, shape: Shape) -> bool:
        """Whether sigma is 0."""
        return self.sigma == 0

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """`sigma` (B,), in pixels."""
        return {"sigma": torch.rand(batch, generator=generator) * self.sigma}

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """The blurred images."""
        height, width = images.shape[2:]
        radius = math.ceil(_REACH * self.sigma)
        down = _matrices(drawn["sigma"], radius, height).to(images)[:, None]  # (B, 1, H, H)
        across = _matrices(drawn["sigma"], radius, width).to(images)[:, None]  # (B, 1, W, W)
        return down @ images @ across.mT


def _matrices(sigma: Tensor, radius: int, size: int) -> Tensor:
    """By image, the matrix (size, size) that blurs a line: row i holds what pixel i takes in."""
    distance = torch.arange(-radius, radius + 1)
    # A sigma of 0 leaves the middle alone: all other weights underflow to an exact 0.
    exponent = -0.5 * (distance / sigma.double().clamp(min=1e-6)[:, None]) ** 2
    kernel = exponent.exp()
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).float()  # (B, 2 radius + 1)
    source = (torch.arange(size)[:, None] + distance).clamp_(0, size - 1)  # (size, 2 radius + 1)
    matrices = kernel.new_zeros(len(sigma), size, size)
    weights = kernel[:, None, :].expand(-1, size, -1)
    return matrices.scatter_add_(2, source.expand(len(sigma), -1, -1), weights)
