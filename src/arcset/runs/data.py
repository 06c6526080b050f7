"""The data of a run: what its configuration chooses, before training and after."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.decode_many import Watch
from arcset.data.image import Reading
from arcset.data.mapping import ClassMapping
from arcset.data.selection import Selection, select
from arcset.data.sources.load import load_dataset
from arcset.data.split import PARTS, HoldOut, Split, hold_out_split, split_of_parts
from arcset.errors import DataError, OptionError
from arcset.runs.config import GIVEN, RunConfig
from arcset.runs.folder import Run


@dataclass(frozen=True)
class EarlierIdentities:
    """The identities of the run that training starts from, under the names that they have now.

    known: it was trained on these, so they can never again measure how well unseen ones are
    recognized. validation, test: it held these out. run: what messages call it.
    """

    run: str
    known: frozenset[str]
    validation: frozenset[str] = frozenset()
    test: frozenset[str] = frozenset()

    def keep_parts(self, split: Split, rule: HoldOut) -> Split:
        """The split that `rule` drew, with the identities of the earlier run in their old parts.

        New identities stay where they were drawn, and so do parts that the rule names by patterns.
        """
        named = {part for part, share in rule.items() if isinstance(share, list | tuple)}
        old_part = {
            **dict.fromkeys(self.test, "test"),
            **dict.fromkeys(self.validation, "validation"),
            **dict.fromkeys(self.known, "train"),
        }
        parts: dict[str, set[str]] = {part: set() for part in PARTS}
        for part in PARTS:
            for name in getattr(split, part):
                old = old_part.get(name, part)
                parts[part if part in named or old in named else old].add(name)
        if len(parts["validation"]) < 2:  # too few to choose by, so they only stay unseen
            parts["test"] |= parts["validation"]
            parts["validation"] = set()
        if len(parts["test"]) < 2:
            raise OptionError(
                f"hold_out leaves {len(parts['test'])} identities for test that {self.run} was not "
                "trained on, and 2 are needed; take larger shares, or --hold-out none"
            )
        return split_of_parts(split.data, **parts)

    def check(self, selection: Selection) -> None:
        """Refuse, with `OptionError`, to hold out an identity that the earlier run knew."""
        for part in (selection.validation, selection.unseen):
            shared = sorted(self.known.intersection(_names(part))) if part is not None else []
            if shared:
                raise OptionError(
                    f"{self.run} was trained on {len(shared):,} of the identities to hold out, "
                    f"e.g. {shared[0]!r}, so they are not unseen: train on them, or remove them "
                    "with --mapping"
                )

    def describe(self, selection: Selection) -> list[str]:
        """Sentences: which identities go on with their centers, and which are new."""
        names = set(selection.train.class_names)
        old, gone = len(names & self.known), len(self.known - names)
        left = f"; {gone:,} of its identities are not in the data" if gone else ""
        sentences = [
            f"starts from {self.run}: {old:,} identities go on, {len(names) - old:,} are new{left}"
        ]
        if count := len(names & (self.validation | self.test)):
            sentences.append(
                f"note: {count:,} identities that {self.run} held out are trained on now; they can "
                "judge neither run any more"
            )
        return sentences


def _names(images: ImageSet) -> list[str]:
    return [images.class_names[label] for label in np.unique(images.labels)]


def selection_for(
    config: RunConfig, *, dataset: Dataset | None = None, earlier: EarlierIdentities | None = None
) -> Selection:
    """The images to train on and to hold out, by the classes, split or rule of a configuration.

    dataset: its data, if that has been read already. earlier: the identities of the run that this
    one starts from; those that it held out stay so, and none that it knew is held out. Raises
    `DataError` and `OptionError` as `load_dataset`, `ClassMapping.load`, `Split.load`,
    `EarlierIdentities.check` and `select` do.
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
                    f"{name} {getattr(config, name)!r} and hold_out both say which identities are "
                    "known: leave one out"
                )
        split = hold_out_split(dataset, config.hold_out)
        if earlier is not None:
            split = earlier.keep_parts(split, config.hold_out)
    selection = select(dataset, config.classes, split, train_on=config.train_on)
    if earlier is not None:
        earlier.check(selection)
    return selection


def selection_of(run: Run, *, dataset: Dataset | None = None) -> Selection:
    """The images that a run was trained on, and those that it held out.

    dataset: its data, if that was given in Python or has been read already. Raises `DataError`,
    too, if the known classes are no longer those of the training.
    """
    config = run.config
    has_split = config.split is not None or config.hold_out is not None
    split = Split.load(run.split_file) if has_split else None
    dataset = dataset or dataset_of_run(run)
    selection = select(dataset, config.classes, split, train_on=config.train_on)
    names = selection.train.class_names
    if config.class_names is not None and names != config.class_names:
        raise DataError(
            f"{config.data} has changed since {run.path} was trained: its known classes are no "
            f"longer the same ({len(config.class_names):,} then, {len(names):,} now)"
        )
    return selection


def dataset_of(config: RunConfig, *, watch: Watch | None = None) -> Dataset:
    """The data that a configuration names, read as it says, its identities mapped.

    watch: called with the number of images read so far, and of all.
    """
    # The mapping first: datasets may be large.
    mapping = None if config.mapping is None else ClassMapping.load(config.mapping)
    return _read(config, mapping, watch)


def check_not_given(run: Run) -> None:
    """Raise `OptionError` for a run whose data was given in Python, and is in no file."""
    if run.config.data == GIVEN:
        raise OptionError(
            f"the data of {run.path} was given in Python: pass it again, as data=… of "
            f"arcset.train(resume={str(run.path)!r}) or arcset.evaluate({str(run.path)!r}), or "
            "name other data, as arcset embed RUN DATA and arcset export RUN --images FOLDER"
        )


def dataset_of_run(run: Run) -> Dataset:
    """The data of a run, mapped by the run's own copy of its mapping."""
    check_not_given(run)
    mapping = None if run.config.mapping is None else ClassMapping.load(run.mapping_file)
    return _read(run.config, mapping)


def _read(config: RunConfig, mapping: ClassMapping | None, watch: Watch | None = None) -> Dataset:
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


def reading_of(config: RunConfig) -> Reading | None:
    """How a trained run reads images; None before training, and for vectors."""
    if config.shape is None or len(config.shape) != 3 or config.shape[0] not in (1, 3):
        return None
    channels, height, width = config.shape
    return Reading(channels, height, width, fit=config.fit, invert=config.invert)
