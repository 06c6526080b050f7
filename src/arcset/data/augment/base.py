"""What an augmentation is."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from arcset.data.augment.options import OptionInfo, options_of, shown
from arcset.errors import InputError

__all__ = ["Augmentation", "Drawn", "Shape", "as_given", "check_batch", "uniform", "working"]

#: Channels, height and width of the images.
Shape = tuple[int, int, int]

#: What chance decided, by name: on the CPU, (B, …), one row per sample.
Drawn = dict[str, Tensor]


class Augmentation(ABC):
    """A random change of a batch of images, each sample by its own draw.

    A subclass is a frozen dataclass whose fields are its options (see `options`), with `draw`,
    which asks chance, and `apply`, which does as was drawn and knows no chance: row i of the drawn
    tensors decides about sample i alone. Images are floats (B, C, H, W) in −1 .. 1.
    """

    #: What users write, and one line for listings.
    name: ClassVar[str]
    description: ClassVar[str]

    def __post_init__(self) -> None:
        for option, info in options_of(self).items():
            # The one place that writes to a frozen instance: 1 becomes 1.0 where a float is meant.
            object.__setattr__(self, option, info.checked(self.name, getattr(self, option)))

    @abstractmethod
    def idle(self, shape: Shape) -> bool:
        """Whether these options leave images of `shape` as they are."""

    @abstractmethod
    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """What is to happen to each of `batch` images of `shape`, drawn on the CPU."""

    @abstractmethod
    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """The images (B, C, H, W), float32 or float64, changed as drawn, on their own device."""

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Draw and apply; the input itself comes back where the options do nothing."""
        batch, *shape = check_batch(images, generator)
        size = (shape[0], shape[1], shape[2])
        if self.idle(size):
            return images
        return as_given(self.apply(working(images), self.draw(batch, size, generator)), images)

    @classmethod
    def options(cls) -> dict[str, OptionInfo]:
        """The options by name, with their defaults, ranges and meanings."""
        return options_of(cls)

    def __str__(self) -> str:
        """The spec that gives this augmentation, with every option written out."""
        values = {option: getattr(self, option) for option in options_of(self)}
        words = {k: v if isinstance(v, str) else shown(v) for k, v in values.items()}
        return ":".join((self.name, *(f"{option}={word}" for option, word in words.items())))


def check_batch(images: Tensor, generator: torch.Generator) -> tuple[int, int, int, int]:
    """The shape of the images, if they are floats (B, C, H, W) and the generator is a CPU one."""
    if images.ndim != 4 or not images.is_floating_point():
        raise InputError(
            f"images must be floats (B, C, H, W) in −1 .. 1, as as_float gives them, "
            f"not {images.dtype} of shape {tuple(images.shape)}"
        )
    if generator.device.type != "cpu":
        raise InputError(
            f"the generator must be one of the CPU, so that the draws are the same on every "
            f"device, not of {generator.device}"
        )
    batch, channels, height, width = images.shape
    return batch, channels, height, width


def working(images: Tensor) -> Tensor:
    """The images in float32 at least: places need more digits than shorter types have."""
    return images.to(torch.promote_types(images.dtype, torch.float32))


def as_given(result: Tensor, images: Tensor) -> Tensor:
    """`result` in the dtype and the memory format of `images`."""
    if result.stride() == images.stride() and result.dtype == images.dtype:
        return result
    return torch.empty_like(images).copy_(result)


def uniform(generator: torch.Generator, *size: int) -> Tensor:
    """Numbers drawn evenly from −1 .. 1."""
    return torch.rand(size, generator=generator).mul_(2).sub_(1)
