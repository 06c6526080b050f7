"""Rotations and reflections as new classes: a turned character is another character.

transforms = class_transforms("rotations")                # four times as many classes
which = torch.randint(transforms.count, (len(labels),), generator=generator)
images = transforms.apply(images, which)
labels = transforms.labels(labels, which, classes)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from arcset.errors import InputError
from arcset.registry import unknown_name


@dataclass(frozen=True)
class ClassTransforms:
    """A list of exact transforms of images, of which the first leaves them as they are.

    name: what users write. steps: for each transform, whether it first mirrors left and right, and
    how many times it then turns by 90° counterclockwise.
    """

    name: str
    steps: tuple[tuple[bool, int], ...]

    @property
    def count(self) -> int:
        """How many transforms there are, and so by how much the number of classes grows."""
        return len(self.steps)

    def check(self, shape: Sequence[int]) -> None:
        """Refuse images of `shape` (…, H, W) that these transforms do not fit; `InputError`."""
        height, width = shape[-2:]
        if height != width and any(turns % 2 for _, turns in self.steps):
            raise InputError(
                f"{self.name!r} as classes turns images by 90°, and needs square ones, "
                f"not {height}×{width}"
            )

    def apply(self, images: Tensor, which: Tensor) -> Tensor:
        """Images (B, C, H, W) of any type, image i by transform which[i] (B,), pixel by pixel.

        >>> image = torch.tensor([[[[1, 2], [3, 4]]]], dtype=torch.uint8)
        >>> class_transforms("rotations").apply(image, torch.tensor([1]))
        tensor([[[[2, 4],
                  [1, 3]]]], dtype=torch.uint8)
        """
        self.check(images.shape)
        if self.count == 1:
            return images
        result = torch.empty_like(images)
        for number, (mirrored, turns) in enumerate(self.steps):
            index = (which == number).nonzero().squeeze(1).to(images.device)
            if len(index) > 0:
                part = images.index_select(0, index)
                part = part.flip(-1) if mirrored else part
                result.index_copy_(0, index, torch.rot90(part, turns, (-2, -1)))
        return result

    def labels(self, labels: Tensor, which: Tensor, classes: int) -> Tensor:
        """labels + which · classes: the first `classes` classes are the originals.

        >>> class_transforms("reflections").labels(torch.tensor([2, 2]), torch.tensor([0, 1]), 5)
        tensor([2, 7])
        """
        return labels + which.to(labels.device) * classes


_TURNS = range(4)
_STEPS = {
    "none": ((False, 0),),
    "rotations": tuple((False, turns) for turns in _TURNS),
    "reflections": ((False, 0), (True, 0)),
    "both": tuple((mirrored, turns) for mirrored in (False, True) for turns in _TURNS),
}


def class_transforms(name: str) -> ClassTransforms:
    """The transforms called `none` (1), `rotations` (4), `reflections` (2) or `both` (8).

    >>> class_transforms("both").count
    8
    >>> class_transforms("rotation")
    Traceback (most recent call last):
    arcset.errors.OptionError: no class transform is called 'rotation'; did you mean ...
    """
    if name not in _STEPS:
        raise unknown_name("class transform", name, _STEPS)
    return ClassTransforms(name, _STEPS[name])
