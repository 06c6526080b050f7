"""Which classes are known: the split of a dataset into classes to train on and classes held out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arcset.data.dataset import Dataset, ImageSet
from arcset.errors import OptionError
from arcset.registry import unknown_name

__all__ = ["Selection", "parse_classes", "select"]

_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)", re.ASCII)


@dataclass(frozen=True, eq=False)
class Selection:
    """A dataset as training and open-set evaluation see it.

    name: the dataset's name.
    train, test: the K known classes only, relabelled 0 .. K−1 in the dataset's order.
    unseen: the test images of all other classes, relabelled 0 .. U−1; None when there are none.
    """

    name: str
    train: ImageSet
    test: ImageSet
    unseen: ImageSet | None


def parse_classes(text: str, class_names: Sequence[str]) -> tuple[str, ...]:
    """The classes that `text` names, in the order of `class_names`.

    `text` is a comma-separated list of class names; `3-7` is short for the numbers from 3 to 7,
    both included. Raises `OptionError` for a class that is not in `class_names`, a class named
    twice, a range that runs backwards, and an empty place in the list.

        >>> digits = [str(digit) for digit in range(10)]
        >>> parse_classes("5-7,0,2", digits)
        ('0', '2', '5', '6', '7')
        >>> parse_classes("4-0", digits)
        Traceback (most recent call last):
        arcset.errors.OptionError: the range '4-0' in classes '4-0' runs backwards; write 0-4
    """
    chosen: list[str] = []
    for item in text.split(","):
        for name in _expand(item.strip(), text, class_names):
            if name in chosen:
                raise OptionError(f"classes {text!r} name {name!r} more than once")
            chosen.append(name)
    return tuple(name for name in class_names if name in chosen)


def select(dataset: Dataset, classes: str | None) -> Selection:
    """Split `dataset` into known classes and the rest; `None` makes every class a known one.

    `classes` is read by `parse_classes`. Training images of the other classes are dropped: they
    appear nowhere. Raises `OptionError` as `parse_classes` does, and for fewer than two classes.

        >>> from arcset.data import load_dataset
        >>> selection = select(load_dataset("mnist-sample"), "0-4")
        >>> len(selection.train), len(selection.test), len(selection.unseen)
        (2000, 500, 500)
        >>> selection.unseen.class_names
        ('5', '6', '7', '8', '9')
    """
    names = dataset.class_names
    known = names if classes is None else parse_classes(classes, names)
    if len(known) < 2:
        raise OptionError(
            f"at least two known classes are needed to train, and classes {classes or 'all'!r} "
            f"of dataset {dataset.name!r} name {len(known)}"
        )
    others = tuple(name for name in names if name not in known)
    return Selection(
        name=dataset.name,
        train=_keep(dataset.train, known),
        test=_keep(dataset.test, known),
        unseen=_keep(dataset.test, others) if others else None,
    )


def _expand(item: str, text: str, class_names: Sequence[str]) -> list[str]:
    """The class names that one place of the list stands for."""
    if item in class_names:  # first, so that a name with a hyphen in it is no range
        return [item]
    if not item:
        raise OptionError(f"classes {text!r} have an empty place; write for instance 0-4 or 0,2,5")
    numbers = _RANGE.fullmatch(item)
    if numbers is None:
        raise unknown_name("class", item, class_names)
    first, last = (str(int(number)) for number in numbers.groups())
    for end in (first, last):  # before the range is built, which could be a very long one
        if end not in class_names:
            raise unknown_name("class", end, class_names)
    if int(first) > int(last):
        raise OptionError(
            f"the range {item!r} in classes {text!r} runs backwards; write {last}-{first}"
        )
    names = [str(number) for number in range(int(first), int(last) + 1)]
    for name in names:
        if name not in class_names:
            raise unknown_name("class", name, class_names)
    return names


def _keep(images: ImageSet, names: tuple[str, ...]) -> ImageSet:
    """The images of the classes `names`, relabelled by their place in `names`."""
    if names == images.class_names:
        return images
    new_label = np.full(len(images.class_names), -1, dtype=np.int64)  # -1: not kept
    for place, name in enumerate(names):
        new_label[images.class_names.index(name)] = place
    labels = new_label[images.labels]  # (N,)
    kept = labels >= 0
    return ImageSet(images.images[kept], labels[kept], names)
