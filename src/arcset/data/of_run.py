"""The data of a run: what its configuration chooses, before training and after."""

from pathlib import Path
from typing import Literal, Protocol

from arcset.data.dataset import Dataset
from arcset.data.hold_out import HoldOut, hold_out_split
from arcset.data.own.decoding import Watch
from arcset.data.reading import Reading
from arcset.data.registry import load_dataset
from arcset.data.selection import Selection, select
from arcset.data.split import Split
from arcset.errors import DataError, OptionError

__all__ = ["dataset_of", "reading_of", "selection_for", "selection_of"]


# By shape and not by name: runs and datasets know nothing of each other.
class _Config(Protocol):
    @property
    def data(self) -> str: ...
    @property
    def classes(self) -> str | None: ...
    @property
    def split(self) -> str | None: ...
    @property
    def hold_out(self) -> HoldOut | None: ...
    @property
    def train_on(self) -> Literal["train", "all"]: ...
    @property
    def size(self) -> tuple[int, int] | None: ...
    @property
    def channels(self) -> int | None: ...
    @property
    def fit(self) -> Literal["pad", "crop", "stretch"]: ...
    @property
    def invert(self) -> bool: ...
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def class_names(self) -> tuple[str, ...] | None: ...


class _Run(Protocol):
    @property
    def path(self) -> Path: ...
    @property
    def config(self) -> _Config: ...
    @property
    def split_file(self) -> Path: ...


def selection_for(config: _Config, *, dataset: Dataset | None = None) -> Selection:
    """What a configuration chooses now: its classes, or the split that it names or has a rule for.

    `dataset` is its data, where somebody has read it already. Raises `DataError` and `OptionError`
    as `load_dataset`, `Split.load` and `select` do.
    """
    # The split first: datasets may be large.
    split = None if config.split is None else Split.load(Path(config.split))
    dataset = dataset or dataset_of(config)
    if config.hold_out is not None:
        for name in ("classes", "split"):
            if getattr(config, name) is not None:
                raise OptionError(
                    f"{name} {getattr(config, name)!r} and hold_out both say what is known; leave "
                    "one out"
                )
        split = hold_out_split(dataset, config.hold_out)
    return select(dataset, config.classes, split, train_on=config.train_on)


def selection_of(run: _Run) -> Selection:
    """What a run was trained with: its classes, or the split that was copied into its folder.

    Raises `DataError`, too, where the known classes are no longer those of the training.
    """
    config = run.config
    kept = config.split is not None or config.hold_out is not None
    split = Split.load(run.split_file) if kept else None
    selection = select(dataset_of(config), config.classes, split, train_on=config.train_on)
    found = selection.train.class_names
    if config.class_names is not None and found != config.class_names:
        raise DataError(
            f"{config.data} has changed since {run.path} was trained: {len(found):,} known classes "
            f"are found, and it was trained on {len(config.class_names):,} or on others"
        )
    return selection


def dataset_of(config: _Config, *, watch: Watch | None = None) -> Dataset:
    """The data that a configuration names, complete; own images as it says that they are read."""
    return load_dataset(
        config.data,
        reading=reading_of(config),
        size=config.size,
        channels=config.channels,
        fit=config.fit,
        invert=config.invert,
        watch=watch,
    )


def reading_of(config: _Config) -> Reading | None:
    """How a trained run reads images; None before training, and where it takes no images."""
    if config.shape is None or len(config.shape) != 3 or config.shape[0] not in (1, 3):
        return None
    channels, height, width = config.shape
    return Reading(channels, height, width, fit=config.fit, invert=config.invert)
