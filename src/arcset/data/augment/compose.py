"""Several augmentations, one after the other."""

from collections.abc import Sequence

import torch
from torch import Tensor

from arcset.data.augment.base import Augmentation, Drawn, Shape, as_given, check_batch, working
from arcset.data.augment.registry import parse_augmentation
from arcset.data.augment.warp import Warp, resample
from arcset.errors import InputError, OptionError

__all__ = ["Augmentations", "build_augmentation"]


class Augmentations:
    """What happens to each batch of training images of `shape` (channels, height, width).

    Those that move pixels (`affine`, `elastic`, `crop`) and stand next to each other with the same
    `fill` read the image once, together: as fast and as sharp as one alone. Those that do nothing
    are left out. The outcome follows from the images and the generator's state, and from no other
    chance; it is the same on every device, up to rounding. Dtype and memory format stay.
    """

    def __init__(self, augmentations: Sequence[Augmentation], shape: Shape) -> None:
        self.shape = shape
        self.steps = tuple(each for each in augmentations if not each.idle(shape))
        self._groups = _grouped(self.steps)

    def __call__(
        self, images: Tensor, generator: torch.Generator, part: tuple[int, slice] | None = None
    ) -> Tensor:
        """Changed images (B, C, H, W) of floats in −1 .. 1; the input itself if there is no step.

        `part` says that these are the rows of a larger batch, of so many images: what is drawn is
        drawn for all of it, so that the parts together come out as the whole would have.

        Raises `InputError` for images of another shape or type, and for a generator that is not
        one of the CPU.
        """
        batch, *shape = check_batch(images, generator)
        if tuple(shape) != self.shape:
            raise InputError(
                f"images must be (B, {', '.join(map(str, self.shape))}), not {tuple(images.shape)}"
            )
        if not self.steps:
            return images
        result = working(images)
        for group in self._groups:
            count, rows = part or (batch, slice(None))
            drawn = [_rows(step.draw(count, self.shape, generator), rows) for step in group]
            result = _applied(group, drawn, result)
        return as_given(result, images)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.steps)

    def __str__(self) -> str:
        """The specs, with every option written out."""
        return ", ".join(map(str, self.steps)) or "none"


def build_augmentation(specs: Sequence[str], shape: Shape) -> Augmentations:
    """Augmentations by name, in the given order, for images of `shape` (channels, height, width).

    Each spec is read by `parse_augmentation`; with none, images come back as they are.

        >>> augment = build_augmentation(["affine:rotate=15", "elastic", "noise"], (1, 28, 28))
        >>> images = torch.zeros(4, 1, 28, 28)
        >>> augment(images, torch.Generator().manual_seed(0)).shape
        torch.Size([4, 1, 28, 28])
        >>> build_augmentation([], (1, 28, 28))(images, torch.Generator()) is images
        True

    Raises:
        OptionError: an unknown name or option, or a value out of range.
    """
    if isinstance(specs, str):
        raise OptionError(f"augmentations are given as a list of texts, not as the text {specs!r}")
    if len(shape) != 3 or min(shape) < 1:
        raise OptionError(f"shape must be (channels, height, width), not {shape!r}")
    channels, height, width = shape
    return Augmentations([parse_augmentation(text) for text in specs], (channels, height, width))


def _grouped(steps: Sequence[Augmentation]) -> list[list[Augmentation]]:
    """Runs of warps whose fills agree, and everything else by itself."""
    groups: list[list[Augmentation]] = []
    for step in steps:
        if groups and all(_agree(other, step) for other in groups[-1]):
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _agree(one: Augmentation, other: Augmentation) -> bool:
    if not (isinstance(one, Warp) and isinstance(other, Warp)):
        return False
    return one.fill == other.fill or one.fill is None or other.fill is None


def _rows(drawn: Drawn, rows: slice) -> Drawn:
    return {name: values[rows] for name, values in drawn.items()}


def _applied(group: Sequence[Augmentation], drawn: Sequence[Drawn], images: Tensor) -> Tensor:
    warps = [(step, row) for step, row in zip(group, drawn, strict=True) if isinstance(step, Warp)]
    if warps:
        return resample(images, warps)
    ((step,), (row,)) = group, drawn
    return step.apply(images, row)
