"""Reading the recipes that ship with the package."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from arcset.registry import unknown_name

__all__ = ["Recipe", "read_recipe", "recipe_names", "recipe_settings"]

_OF_ITS_DATA = ("hold_out", "train_on")  # settings that make no sense on other data


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
