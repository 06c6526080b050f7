"""Settings that were tried: recipes, each a TOML file of this package, and what suits new data.

settings = recipe_settings("omniglot", "omniglot")      what `arcset train --recipe omniglot` takes
settings = suitable_settings(dataset)                   what a user's own data gets by default
"""

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from arcset.data import Dataset
from arcset.data.split import count_held_out
from arcset.registry import unknown_name
from arcset.runs.config import RunConfig

__all__ = [
    "Recipe",
    "read_recipe",
    "recipe_names",
    "recipe_settings",
    "suitable_names",
    "suitable_settings",
]

_OF_ITS_DATA = ("hold_out", "train_on")  # settings that make no sense on other data

_SMALL = 48  # pixels: images up to this side are treated as characters are
_HELD_OUT = 0.1  # share of the identities, for validation and for testing each
_LEAST = 20  # identities with several images, below which none is held out
_LEAST_GLYPH, _LEAST_FACE = 8, 32  # pixels: the smallest sides that the recipes' networks take
_STEPS = 3_000  # that small data gets, whatever its number of images

# What was tuned on small drawn characters, and does not carry over to other images.
_OF_CHARACTERS = (
    "new_classes",
    "train_on",
    "hold_out",
    "augment",
    "epochs",
    "scale",
    "margin",
)


@dataclass(frozen=True)
class Recipe:
    """What a recipe is for, and its settings of a run.

    title: one line. data: the dataset that it was made for. settings: by their names in the run's
    configuration.
    """

    name: str
    title: str
    data: str
    settings: dict[str, Any]


def recipe_names() -> list[str]:
    """Every recipe, sorted.

    >>> recipe_names()
    ['mnist', 'omniglot', 'orl']
    """
    return sorted(
        file.name.removesuffix(".toml")
        for file in resources.files(__package__).iterdir()
        if file.name.endswith(".toml")
    )


def read_recipe(name: str) -> Recipe:
    """The recipe called `name`; raises `OptionError` where there is none."""
    if name not in recipe_names():
        raise unknown_name("recipe", name, recipe_names())
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    return Recipe(name, content["title"], content["data"], content["settings"])


def recipe_settings(name: str, data: str) -> dict[str, Any]:
    """The settings of a recipe for the dataset `data`.

    On other data than its own a recipe says nothing about which identities are held out.
    """
    recipe = read_recipe(name)
    settings = {**recipe.settings, "recipe": name}
    if data != recipe.data:
        for key in _OF_ITS_DATA:
            settings.pop(key, None)
    return settings


def suitable_names() -> set[str]:
    """The settings of which `suitable_settings` may give other values than the defaults.

    >>> {"network", "epochs", "hold_out"} <= suitable_names(), "loss" in suitable_names()
    (True, False)
    """
    names = {"augment", "epochs", "hold_out"}
    for recipe in map(read_recipe, ("omniglot", "orl")):
        for name, value in recipe.settings.items():
            if name not in _OF_CHARACTERS and value != RunConfig.model_fields[name].default:
                names.add(name)
    return names


def suitable_settings(dataset: Dataset) -> dict[str, Any]:
    """Settings for data that nobody has tried anything on.

    Small images take the network and the training of the omniglot recipe, larger ones those of orl,
    vectors an mlp; each for so many epochs that small data gets 3,000 steps. Where at least 20
    identities have two images or more, a tenth of these is held out for validation and another for
    testing. Rotations and mirror images are never taken for other identities unasked.
    """
    shape = dataset.train.shape
    vectors = len(shape) == 1 or min(shape[1:]) < _LEAST_GLYPH
    small = vectors or max(shape[1:]) <= _SMALL or min(shape[1:]) < _LEAST_FACE
    recipe = read_recipe("omniglot" if small else "orl")
    settings = {k: v for k, v in recipe.settings.items() if k not in _OF_CHARACTERS}
    if vectors:
        settings["network"] = "mlp"
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
