"""The data of a run: what its configuration chooses, before training and after."""

from pathlib import Path
from typing import Literal, Protocol

from arcset.data.dataset import Dataset
from arcset.data.earlier import Earlier
from arcset.data.hold_out import HoldOut, hold_out_split
from arcset.data.image import Reading
from arcset.data.mapping import ClassMapping
from arcset.data.named.registry import load_dataset
from arcset.data.own.decoding import Watch
from arcset.data.selection import Selection, select
from arcset.data.split import Split
from arcset.errors import DataError, OptionError

__all__ = ["dataset_of", "dataset_of_run", "reading_of", "selection_for", "selection_of"]


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
    def mapping(self) -> str | None: ...
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
    @property
    def mapping_file(self) -> Path: ...


def selection_for(
    config: _Config, *, dataset: Dataset | None = None, earlier: Earlier | None = None
) -> Selection:
    """What a configuration chooses now: its classes, or the split that it names or has a rule for.

    `dataset` is its data as `dataset_of` gives it, where somebody has read it already. `earlier` is
    what a run was trained on that this one goes on from: identities that it held out stay so, and
    none that it knew is held out. Raises `DataError` and `OptionError` as `load_dataset`,
    `ClassMapping.load`, `Split.load`, `Earlier.check` and `select` do.
    """
    # The split first: datasets may be large.
    split = None if config.split is None else Split.load(Path(config.split))
    if split is not None and config.mapping is not None:
        split = ClassMapping.load(config.mapping).split(split)
    dataset = dataset or dataset_of(config)
    if config.hold_out is not None:
        for name in ("classes", "split"):
            if getattr(config, name) is not None:
                raise OptionError(
                    f"{name} {getattr(config, name)!r} and hold_out both say what is known; leave "
                    "one out"
                )
        split = hold_out_split(dataset, config.hold_out)
        if earlier is not None:
            split = earlier.kept(split, config.hold_out)
    selection = select(dataset, config.classes, split, train_on=config.train_on)
    if earlier is not None:
        earlier.check(selection)
    return selection


def selection_of(run: _Run) -> Selection:
    """What a run was trained with: its classes, or the split that was copied into its folder.

    Raises `DataError`, too, where the known classes are no longer those of the training.
    """
    config = run.config
    kept = config.split is not None or config.hold_out is not None
    split = Split.load(run.split_file) if kept else None
    selection = select(dataset_of_run(run), config.classes, split, train_on=config.train_on)
    found = selection.train.class_names
    if config.class_names is not None and found != config.class_names:
        raise DataError(
            f"{config.data} has changed since {run.path} was trained: {len(found):,} known classes "
            f"are found, and it was trained on {len(config.class_names):,} or on others"
        )
    return selection


def dataset_of(config: _Config, *, watch: Watch | None = None) -> Dataset:
    """The data that a configuration names, complete, under the names that its mapping gives.

    Own images as the configuration says that they are read.
    """
    # The mapping first: datasets may be large.
    mapping = None if config.mapping is None else ClassMapping.load(config.mapping)
    return _read(config, mapping, watch)


def dataset_of_run(run: _Run) -> Dataset:
    """The data of a run, under the names that its own copy of a mapping gives."""
    mapping = None if run.config.mapping is None else ClassMapping.load(run.mapping_file)
    return _read(run.config, mapping)


def _read(config: _Config, mapping: ClassMapping | None, watch: Watch | None = None) -> Dataset:
    dataset = load_dataset(
        config.data,
        reading=reading_of(config),
        size=config.size,
        channels=config.channels,
        fit=config.fit,
        invert=config.invert,
        watch=watch,
    )
    return dataset if mapping is None else mapping.apply(dataset)


def reading_of(config: _Config) -> Reading | None:
    """How a trained run reads images; None before training, and where it takes no images."""
    if config.shape is None or len(config.shape) != 3 or config.shape[0] not in (1, 3):
        return None
    channels, height, width = config.shape
    return Reading(channels, height, width, fit=config.fit, invert=config.invert)
