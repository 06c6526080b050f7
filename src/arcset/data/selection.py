"""Which classes are known: the split of a dataset into classes to train on and classes held out."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from arcset.data.dataset import Dataset, ImageSet, join_rows
from arcset.data.split import Split
from arcset.errors import OptionError
from arcset.registry import unknown_name

_RANGE = re.compile(r"(\d{1,6})\s*-\s*(\d{1,6})", re.ASCII)


@dataclass(frozen=True, eq=False)
class Selection:
    """A dataset as training and open-set evaluation see it.

    name: the dataset's name.
    train, test: the K known classes only, relabelled 0 .. K−1 in the dataset's order; test is None
        where no image of theirs is kept back from training.
    unseen: images of classes held out, relabelled 0 .. U−1: of the split's test classes, or of all
        classes that are not known; None when there are none.
    validation: the same of the split's validation classes; None where there are none.
    split: what it was made with, if with one.
    fit, invert, licence, skipped: as the dataset has them.

    Of a class held out, the test images count, or all: see `Dataset.held_out`.
    """

    name: str
    train: ImageSet
    test: ImageSet | None
    unseen: ImageSet | None
    validation: ImageSet | None = None
    split: Split | None = None
    fit: Literal["pad", "crop", "stretch"] = "pad"
    invert: bool = False
    licence: str = ""
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def known(self) -> ImageSet:
        """Images of the known classes to look at: the test part, or train where there is none."""
        return self.train if self.test is None else self.test


def parse_classes(text: str, class_names: Sequence[str]) -> tuple[str, ...]:
    """The classes that `text` names, in the order of `class_names`.

    `text` is a comma-separated list of class names; `3-7` is short for the numbers from 3 to 7,
    both included. Raises `OptionError` for a class that is not in `class_names`, and for one that
    is named twice.

        >>> digits = [str(digit) for digit in range(10)]
        >>> parse_classes("5-7,0,2", digits)
        ('0', '2', '5', '6', '7')
        >>> parse_classes("0-4,3", digits)
        Traceback (most recent call last):
        arcset.errors.OptionError: classes '0-4,3' name '3' more than once
    """
    known = set(class_names)
    chosen: set[str] = set()
    for item in (part.strip() for part in text.split(",")):
        # A name with a hyphen in it is no range, and neither is one that runs backwards.
        ends = None if item in known else _RANGE.fullmatch(item)
        numbers = () if ends is None else range(int(ends[1]), int(ends[2]) + 1)
        for name in [str(number) for number in numbers] or [item]:
            if name not in known:
                raise unknown_name("class", name, class_names)
            if name in chosen:
                raise OptionError(f"classes {text!r} name {name!r} more than once")
            chosen.add(name)
    return tuple(name for name in class_names if name in chosen)


def select(
    dataset: Dataset,
    classes: str | None,
    split: Split | None = None,
    *,
    train_on: Literal["train", "all"] = "train",
) -> Selection:
    """Divide `dataset` into known classes and classes held out.

    `classes` is read by `parse_classes`, and all others are held out; `None` makes every class a
    known one but for those that the dataset sets apart itself. With a `split`, its train classes
    are known, and classes that it does not name appear nowhere. Images of held-out classes that do
    not count (see `Dataset.held_out`) are dropped. With `train_on="all"` the test images of the
    known classes are trained on as well, so that there is no test part.

    Raises `OptionError` as `parse_classes` does, for fewer than two known classes or none with a
    training image, for `classes` beside a `split`, and for a split of another dataset.

        >>> from arcset.data import load_dataset
        >>> selection = select(load_dataset("mnist-sample"), "0-4")
        >>> len(selection.train), len(selection.test), len(selection.unseen)
        (2000, 500, 500)
        >>> selection.unseen.class_names
        ('5', '6', '7', '8', '9')
    """
    known, tuning, others = _divide(dataset, classes, split)
    if len(known) < 2:
        raise OptionError(
            f"at least two known classes are needed to train, and classes {classes or 'all'!r} "
            f"of dataset {dataset.name!r} name {len(known)}"
        )
    train = _keep(dataset.train, known)
    test = None if dataset.test is None else _keep(dataset.test, known)
    if train is None:
        raise OptionError(
            f"none of the {len(known)} known classes of {dataset.name!r} has a training image; "
            "choose others"
        )
    if train_on == "all" and test is not None:
        train, test = _join([train, test]), None
    return Selection(
        name=dataset.name,
        train=train,
        test=test,
        unseen=_held_out(dataset, others),
        validation=_held_out(dataset, tuning),
        split=split,
        fit=dataset.fit,
        invert=dataset.invert,
        licence=dataset.licence,
        skipped=dataset.skipped,
    )


def evaluation_images(dataset: Dataset, *, everything: bool = False) -> ImageSet:
    """The images to judge by where all classes are unseen, see `Dataset.held_out`; or all."""
    if everything and dataset.test is not None:
        return _join([dataset.train, dataset.test])
    return _held_out(dataset, dataset.class_names) or dataset.train


def relabel(
    images: ImageSet, new_names: Sequence[str | None], class_names: tuple[str, ...]
) -> ImageSet | None:
    """The images with other classes, `class_names`; None where no image remains.

    new_names: what each of the old classes is called now; None leaves its images out.
    """
    number = {name: label for label, name in enumerate(class_names)}
    new_label = np.array([-1 if name is None else number[name] for name in new_names])
    labels = new_label[images.labels]  # (N,), −1: left out
    rows = np.flatnonzero(labels >= 0)
    if not len(rows):
        return None
    if len(rows) == len(labels):
        return replace(images, labels=labels, class_names=class_names)
    return replace(images.take(rows), labels=labels[rows], class_names=class_names)


def _divide(
    dataset: Dataset, classes: str | None, split: Split | None
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The known classes, those to tune on, and those never seen, in the dataset's order."""
    names = dataset.class_names

    def in_order(chosen: Collection[str]) -> tuple[str, ...]:
        among = set(chosen)
        return tuple(name for name in names if name in among)

    if split is not None:
        if classes is not None:
            raise OptionError(
                f"classes {classes!r} and a split both say what is known; leave one out"
            )
        split.check(dataset.name, names)
        return in_order(split.train), in_order(split.validation), in_order(split.test)
    if classes is not None:
        known = parse_classes(classes, names)
        return known, (), in_order(set(names).difference(known))
    tuning, others = (dataset.apart.get(part, ()) for part in ("validation", "test"))
    return in_order(set(names).difference(tuning, others)), in_order(tuning), in_order(others)


def _held_out(dataset: Dataset, names: tuple[str, ...]) -> ImageSet | None:
    """Those images of the classes `names` that count when these are held out."""
    parts = (dataset.test,) if dataset.held_out == "test" else (dataset.train, dataset.test)
    chosen = [_keep(part, names) for part in parts if part is not None]
    filled = [part for part in chosen if part is not None]
    return _join(filled) if len(filled) > 1 else next(iter(filled), None)


def _join(parts: Sequence[ImageSet]) -> ImageSet:
    """Parts with the same class names as one, in which the images of a class stand together."""
    labels = np.concatenate([part.labels for part in parts])
    order = np.argsort(labels, kind="stable")
    images = join_rows([part.images for part in parts], order)
    paths: tuple[str, ...] | None = None
    if all(part.paths is not None for part in parts):
        every = [path for part in parts for path in part.paths or ()]
        paths = tuple(every[row] for row in order)
    return ImageSet(images, labels[order], parts[0].class_names, paths)


def _keep(images: ImageSet, names: tuple[str, ...]) -> ImageSet | None:
    """The images of the classes `names`, relabelled by their order in it; None for none."""
    if names == images.class_names:
        return images
    chosen = set(names)
    return relabel(images, [n if n in chosen else None for n in images.class_names], names)
