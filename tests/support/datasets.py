"""Real datasets, read once for all tests of a process."""

from functools import cache

from arcset.data import Dataset, load_dataset

__all__ = ["loaded"]


@cache
def loaded(name: str) -> Dataset:
    """The dataset as `load_dataset` reads it; not to be changed."""
    return load_dataset(name)
