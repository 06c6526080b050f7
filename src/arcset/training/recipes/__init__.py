"""Recipes: settings that were tried, each a TOML file of this package.

settings = recipe_settings("omniglot")                  what `arcset train --recipe omniglot` takes
settings = own_settings(dataset)                        what a user's own data gets by default
"""

from arcset.training.recipes.own import own_settings
from arcset.training.recipes.reading import Recipe, read_recipe, recipe_names, recipe_settings

__all__ = ["Recipe", "own_settings", "read_recipe", "recipe_names", "recipe_settings"]
