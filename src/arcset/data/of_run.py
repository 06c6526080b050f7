"""The data of a run: what its configuration chooses, before training and after."""

from pathlib import Path
from typing import Protocol

from arcset.data.registry import load_dataset
from arcset.data.selection import Selection, select
from arcset.data.split import Split
from arcset.errors import DataError

__all__ = ["selection_for", "selection_of"]


# By shape and not by name: runs and datasets know nothing of each other.
class _Config(Protocol):
    @property
    def data(self) -> str: ...
    @property
    def classes(self) -> str | None: ...
    @property
    def split(self) -> str | None: ...
    @property
    def class_names(self) -> tuple[str, ...] | None: ...


class _Run(Protocol):
    @property
    def path(self) -> Path: ...
    @property
    def config(self) -> _Config: ...
    @property
    def split_file(self) -> Path: ...


def selection_for(config: _Config) -> Selection:
    """What a configuration chooses now: its classes, or the split in the file that it names.

    Raises `DataError` and `OptionError` as `load_dataset`, `Split.load` and `select` do.
    """
    return _selection(config, None if config.split is None else Path(config.split))


def selection_of(run: _Run) -> Selection:
    """What a run was trained with: its classes, or the split that was copied into its folder.

    Raises `DataError`, too, where the known classes are no longer those of the training.
    """
    config = run.config
    selection = _selection(config, None if config.split is None else run.split_file)
    found = selection.train.class_names
    if config.class_names is not None and found != config.class_names:
        raise DataError(
            f"{config.data} has changed since {run.path} was trained: {len(found):,} known classes "
            f"are found, and it was trained on {len(config.class_names):,} or on others"
        )
    return selection


def _selection(config: _Config, split_file: Path | None) -> Selection:
    split = None if split_file is None else Split.load(split_file)  # first: datasets may be large
    return select(load_dataset(config.data), config.classes, split)
