"""Identities under other names: merged, renamed or removed, by a small JSON file.

{"anna 2": "anna", "benn": "ben", "unknown": null}
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from arcset.data.dataset import Dataset
from arcset.data.selection import relabel
from arcset.data.split import PARTS, Split
from arcset.errors import OptionError
from arcset.files import read_json, write_text
from arcset.registry import unknown_name


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
            if new is None or new == old or self.names.get(new, new) == new:
                continue
            then = self.names[new]
            instead = f"write {json.dumps(old)}: {json.dumps(then)}"
            what = f"{new!r} in turn {then!r}" if then else f"removes {new!r}"
            raise OptionError(f"the mapping calls {old!r} {new!r}, and {what}: {instead}")

    @classmethod
    def load(cls, path: Path | str) -> "ClassMapping":
        """Read a JSON object of old names to new ones; null and "" remove.

        Raises `DataError`, naming the file, where it is no such thing, and `OptionError` as above.
        """
        names = read_json(Path(path), "mapping", dict[str, str | None])
        return cls({old: new or None for old, new in names.items()})

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
                raise unknown_name("class", name, dataset.class_names)
        new_names = self.of(dataset.class_names)
        class_names = tuple(dict.fromkeys(name for name in new_names if name is not None))
        train = relabel(dataset.train, new_names, class_names)
        if train is None:
            raise OptionError(f"the mapping leaves no training image of {dataset.name!r}")
        test = None if dataset.test is None else relabel(dataset.test, new_names, class_names)
        return replace(dataset, train=train, test=test, apart=self._apart(dataset))

    def _apart(self, dataset: Dataset) -> dict[str, tuple[str, ...]]:
        """The classes that the dataset sets apart, under their new names."""
        old_part = {name: part for part, names in dataset.apart.items() for name in names}
        new_part: dict[str, str | None] = {}
        for old in dataset.class_names:
            new, part = self.names.get(old, old), old_part.get(old)
            if new is not None and new_part.setdefault(new, part) != part:
                raise OptionError(
                    f"the mapping makes {old!r} and others one identity, {new!r}, and the data "
                    "keeps only some of them out of training"
                )
        return {
            part: tuple(name for name, each in new_part.items() if each == part)
            for part in dataset.apart
        }

    def split(self, split: Split) -> Split:
        """A split under the new names; raises `OptionError` where one would be in two parts."""
        parts = {part: {name for name in self.of(getattr(split, part)) if name} for part in PARTS}
        return replace(split, **{part: tuple(names) for part, names in parts.items()})  # type: ignore[arg-type]
