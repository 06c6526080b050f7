"""Augmentation: batches of training images, changed at random, each sample by its own draw.

augment = build_augmentation(["affine:rotate=15:scale=0.15", "elastic", "noise"], (1, 28, 28))
images = augment(as_float(pixels), torch.Generator().manual_seed(0))

One augmentation per file; a file with `@AUGMENTATIONS.register("name")` on a frozen dataclass that
is an `Augmentation` (or a `Warp`, if it moves pixels) is all that a new one takes. Help texts
derive from the registry: `AUGMENTATIONS[name].description` and `AUGMENTATIONS[name].options()`.
"""

from arcset.data.augment.base import Augmentation
from arcset.data.augment.classes import (
    CLASS_TRANSFORMS,
    ClassTransforms,
    class_transforms,
    draw_transforms,
)
from arcset.data.augment.compose import Augmentations, build_augmentation
from arcset.data.augment.options import OptionInfo
from arcset.data.augment.registry import AUGMENTATIONS, augmentation_names, parse_augmentation
from arcset.data.augment.warp import Warp

__all__ = [
    "AUGMENTATIONS",
    "CLASS_TRANSFORMS",
    "Augmentation",
    "Augmentations",
    "ClassTransforms",
    "OptionInfo",
    "Warp",
    "augmentation_names",
    "build_augmentation",
    "class_transforms",
    "draw_transforms",
    "parse_augmentation",
]
