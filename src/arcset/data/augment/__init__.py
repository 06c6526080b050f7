"""Augmentation: batches of training images, changed at random, each sample by its own draw.

augment = build_augmentation(["affine:rotate=15:scale=0.15", "elastic", "noise"], (1, 28, 28))
images = augment(as_float(pixels), torch.Generator().manual_seed(0))

`base` says what an augmentation is, `kinds` holds all of them. A frozen dataclass that is an
`Augmentation` (or a `Warp`, if it moves pixels) with `@AUGMENTATIONS.register("name")` is all that
a new one takes; the command line's help derives from the registry.
"""

from arcset.data.augment.base import (
    AUGMENTATIONS,
    Augmentation,
    Augmentations,
    Warp,
    augmentation_names,
    build_augmentation,
    parse_augmentation,
)

__all__ = [
    "AUGMENTATIONS",
    "Augmentation",
    "Augmentations",
    "Warp",
    "augmentation_names",
    "build_augmentation",
    "parse_augmentation",
]
