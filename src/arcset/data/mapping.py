"""Identities under other names: merged, renamed or removed, by a small JSON file.

{"anna 2": "anna", "benn": "ben", "unknown": null}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.lazy_rows import take_rows
from arcset.data.selection import unknown_class
from arcset.data.split import PARTS, Split
from arcset.errors import DataError, OptionError
from arcset.files import parse_json, write_text

__all__ = ["ClassMapping"]


@dataclass(frozen=True)
class ClassMapping:
    """What identities are called from now on; None removes one, and all that it does not name stay.

    Two that get the same name are one identity; that name may be new, or one that is there already.
    A name is replaced once: where the new name is itself to be replaced, there is no telling what
    is meant, and `OptionError` is raised.

        >>> mapping = ClassMapping({"anna 2": "anna", "unknown": None})
        >>> mapping.of(["anna", "anna 2", "ben", "unknown"])
        ['anna', 'anna', 'ben', None]
        >>> ClassMapping({"a": "b", "b": "c"})
        Traceback (most recent call last):
        arcset.errors.OptionError: the mapping calls 'a' 'b', and 'b' in turn 'c': write "a": "c"
    """

    names: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for old, new in self.names.items():
            if new is None or new == old or new not in self.names or self.names[new] == new:
                continue
            then = self.names[new]
            if then is None:
                raise OptionError(
                    f"the mapping calls {old!r} {new!r}, and removes {new!r}: "
                    f"write {json.dumps(old)}: null"
                )
            raise OptionError(
                f"the mapping calls {old!r} {new!r}, and {new!r} in turn {then!r}: "
                f"write {json.dumps(old)}: {json.dumps(then)}"
            )

    @classmethod
    def load(cls, path: Path | str) -> "ClassMapping":
        """Read a JSON object of old names to new ones; null and "" remove.

        Raises `DataError`, naming the file, where it is none, and `OptionError` as above.
        """
        try:
            content = parse_json(Path(path).read_text(encoding="utf-8"), object_pairs_hook=_once)
        except OSError as error:
            raise DataError(f"cannot read the mapping {path}: {error.strerror or error}") from error
        except ValueError as error:
            raise DataError(f"{path} is no readable mapping: {error}") from error
        if not isinstance(content, dict):
            raise DataError(f'{path} is no readable mapping: write {{"old name": "new name"}}')
        for old, new in content.items():
            if new is not None and not isinstance(new, str):
                raise DataError(
                    f"{path} is no readable mapping: {old!r} becomes {new!r}, and should become "
                    "another name, or null to be removed"
                )
        return cls({old: new or None for old, new in content.items()})

    def save(self, path: Path | str) -> None:
        """Write as JSON, complete or not at all."""
        write_text(Path(path), json.dumps(dict(self.names), indent=1) + "\n")

    def of(self, names: Iterable[str]) -> list[str | None]:
        """What these are called now, one for one."""
        return [self.names.get(name, name) for name in names]

    def apply(self, dataset: Dataset) -> Dataset:
        """The dataset with the identities' new names, in the order in which these first occur.

        Raises `OptionError` for a name that no identity has, where nothing is left, and where one
        that the data sets apart would become one with another that it does not.
        """
        for name in self.names:
            if name not in dataset.class_names:
                raise unknown_class(name, dataset.class_names)
        called = self.of(dataset.class_names)
        names = tuple(dict.fromkeys(name for name in called if name is not None))
        train = _renamed(dataset.train, called, names)
        if train is None:
            raise OptionError(f"the mapping leaves no training image of {dataset.name!r}")
        test = None if dataset.test is None else _renamed(dataset.test, called, names)
        return replace(dataset, train=train, test=test, apart=self._apart(dataset))

    def _apart(self, dataset: Dataset) -> dict[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {}
        where = {name: part for part, names in dataset.apart.items() for name in names}
        first: dict[str, str] = {}  # by new name, an old one
        for old, new in zip(dataset.class_names, self.of(dataset.class_names), strict=True):
            if new is None:
                continue
            other = first.setdefault(new, old)
            if where.get(other) != where.get(old):
                raise OptionError(
                    f"the mapping makes {other!r} and {old!r} one identity, and the data keeps one "
                    "of them out of training and not the other"
                )
            if old in where:
                found.setdefault(where[old], {})[new] = None
        return {part: tuple(names) for part, names in found.items()}

    def split(self, split: Split) -> Split:
        """A split under the new names; raises `OptionError` where one would be in two parts."""
        parts = {
            part: tuple(sorted({n for n in self.of(getattr(split, part)) if n is not None}))
            for part in PARTS
        }
        return replace(
            split, train=parts["train"], validation=parts["validation"], test=parts["test"]
        )


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON, in which no name may stand twice."""
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it names {twice!r} more than once")
    return content


def _renamed(
    images: ImageSet, called: Sequence[str | None], names: tuple[str, ...]
) -> ImageSet | None:
    """With the label of each image's new name; None where no image remains."""
    place = {name: number for number, name in enumerate(names)}
    new_label = np.array([-1 if name is None else place[name] for name in called])  # -1: removed
    labels = new_label[images.labels]  # (N,)
    kept = np.flatnonzero(labels >= 0)
    if not len(kept):
        return None
    if len(kept) == len(labels):
        return ImageSet(images.images, labels, names, images.paths)
    paths = None if images.paths is None else tuple(images.paths[row] for row in kept)
    return ImageSet(take_rows(images.images, kept), labels[kept], names, paths)
