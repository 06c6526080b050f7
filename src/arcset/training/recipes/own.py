"""What a user's own data gets by default: the settings of the recipe whose data is most like it."""

from typing import Any

import numpy as np

from arcset.data import Dataset
from arcset.data.split import count_held_out
from arcset.training.recipes.reading import read_recipe

__all__ = ["own_settings"]

_SMALL = 48  # pixels: images up to this side are treated as characters are
_HELD_OUT = 0.1  # share of the identities, for validation and for testing each
_LEAST = 20  # identities with several images, below which none is held out
_LEAST_GLYPH, _LEAST_FACE = 8, 32  # pixels: the smallest sides that the recipes' networks take
_STEPS = 3_000  # that small data gets, whatever its number of images

# Not what was tuned on small drawn characters, and does not carry over to other images.
_OF_CHARACTERS = (
    "new_classes",
    "train_on",
    "hold_out",
    "augment",
    "epochs",
    "scale",
    "margin",
)


def own_settings(dataset: Dataset) -> dict[str, Any]:
    """Settings for data that nobody has tried anything on.

    Small images take the network and the training of the omniglot recipe, larger ones those of orl,
    vectors an mlp; each for so many epochs that small data gets 3,000 steps. Where at least 20
    identities have two images or more, a tenth of these is held out for validation and another for
    testing. Rotations and mirror images are never taken for other identities unasked.
    """
    shape = dataset.train.shape
    vectors = len(shape) == 1 or min(shape[1:]) < _LEAST_GLYPH
    small = vectors or max(shape[1:]) <= _SMALL or min(shape[1:]) < _LEAST_FACE
    kind = "omniglot" if small else "orl"
    recipe = read_recipe(kind)
    settings = {k: v for k, v in recipe.settings.items() if k not in _OF_CHARACTERS}
    if vectors:
        settings["network"] = "mlp"
        settings.pop("dropout", None)
    elif dataset.train.images.dtype == np.uint8:
        settings["augment"] = ["affine"]
    batch = int(settings.get("batch", 256))
    per_epoch = max(1, len(dataset.train) // batch)
    settings["epochs"] = int(np.clip(_STEPS // per_epoch, 10, 100))
    counts = count_held_out(dataset)
    several = int((counts >= 2).sum())
    if not dataset.apart and several >= _LEAST:
        # A rule's shares are of all identities, and there may be many with a single image.
        share = round(_HELD_OUT * several / len(counts), 6)
        settings["hold_out"] = {"validation": share, "test": share}
    return settings
