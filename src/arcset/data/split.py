"""Identity-disjoint splits: which classes are trained on, which tune, and which judge."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from arcset.data.dataset import Dataset
from arcset.errors import DataError, OptionError
from arcset.files import parse_json, write_text

__all__ = ["FRACTIONS", "HoldOut", "Split", "hold_out_split", "make_split", "overlap"]

FRACTIONS = (0.7, 0.1, 0.2)
PARTS = ("train", "validation", "test")

BY = ("identity", "group")
HoldOut = Mapping[str, float | Sequence[str]]

_HELD_OUT = ("validation", "test")
_HOLD_OUT_SEED = 0  # the same identities for every seed of training, so that runs can be compared
_KINDS = (*BY, "names")  # names: somebody said which

_VERSION = 1
_LEAST = 2  # identities of a part: fewer make no pair of different ones


@dataclass(frozen=True)
class Split:
    """Classes of a dataset in three parts that share none.

    data: the dataset's name. train, validation, test: class names, sorted; validation may be empty.
    seed, fractions, by: how the split was drawn, see `make_split`; by is `names` where somebody
        said which classes, or by which rule, and fractions are what came out then.
    Raises `OptionError` where a class is in two places, or train or test holds fewer than two.
    """

    data: str
    seed: int
    fractions: tuple[float, float, float]
    by: str
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    def __post_init__(self) -> None:
        where: dict[str, str] = {}
        for part in PARTS:
            names = getattr(self, part)
            if len(names) < _LEAST and (names or part != "validation"):
                raise OptionError(
                    f"the {part} part of a split needs at least {_LEAST} classes, not {len(names)}"
                )
            for name in names:
                if name in where:
                    raise OptionError(f"class {name!r} is in {where[name]} and in {part}")
                where[name] = part

    def json(self) -> dict[str, Any]:
        """As one object, the one that `save` writes."""
        names = {part: list(getattr(self, part)) for part in PARTS}
        how = {"seed": self.seed, "fractions": list(self.fractions), "by": self.by}
        return {"version": _VERSION, "data": self.data, **how, **names}

    def save(self, path: Path | str) -> None:
        """Write as JSON, complete or not at all."""
        write_text(Path(path), json.dumps(self.json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> "Split":
        """Read what `save` wrote; raises `DataError`, naming the file, where it is no split.

        Whether its classes exist is found when the split meets its dataset: see `select`.
        """
        try:
            return _from_json(parse_json(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise DataError(f"cannot read the split {path}: {error.strerror or error}") from error
        except ValueError as error:  # OptionError and broken JSON are ValueErrors
            raise DataError(f"{path} is no readable split: {error}") from error

    def check(self, data: str, class_names: Sequence[str]) -> None:
        """Refuse a dataset that the split was not made for, with `OptionError`."""
        if self.data != data:
            raise OptionError(f"the split was made for {self.data!r}, and the data is {data!r}")
        known = set(class_names)
        missing = [name for part in PARTS for name in getattr(self, part) if name not in known]
        if missing:
            raise OptionError(
                f"the split names {len(missing)} classes that {data!r} does not have, "
                f"the first of them {missing[0]!r}"
            )


def make_split(
    class_names: Iterable[str],
    fractions: Sequence[float] = FRACTIONS,
    *,
    seed: int = 0,
    data: str,
    by: str = "identity",
) -> Split:
    """Draw a split of the classes `class_names` of the dataset called `data`.

    fractions: shares of train, validation and test, which sum to 1; validation may be 0. Shares of
        n classes that are not whole are rounded so that the largest remainders gain.
    by: `identity` draws classes; `group` draws whole groups (of which `fractions` are shares then),
        a class's group being its name before the first "/", so that no group is shared either.

    The order is that of the SHA-256 of "SEED/NAME": it depends on neither the order of
    `class_names` nor the version of a library. Raises `OptionError` where a part would hold fewer
    than two classes (validation at 0 aside), or an option does not fit.

        >>> split = make_split("abcdefghij", (0.6, 0.2, 0.2), data="letters")
        >>> split.train, split.validation, split.test
        (('b', 'c', 'e', 'f', 'g', 'j'), ('d', 'i'), ('a', 'h'))
    """
    shares = _checked(fractions)
    names = sorted(class_names)
    if len(set(names)) != len(names):
        raise OptionError("class_names holds a name more than once")
    if by not in BY:
        raise OptionError(f"a split is by 'identity' or by 'group', not by {by!r}")
    members: dict[str, list[str]] = {}
    for name in names:
        members.setdefault(name if by == "identity" else _group(name), []).append(name)
    drawn = _draw_order(members, seed)
    counts = _counts(len(drawn), shares)
    parts: dict[str, tuple[str, ...]] = {}
    for part, count in zip(PARTS, counts, strict=True):
        taken, drawn = drawn[:count], drawn[count:]
        parts[part] = tuple(sorted(name for unit in taken for name in members[unit]))
        if len(parts[part]) < _LEAST and (part != "validation" or shares[1] > 0):
            raise OptionError(
                f"the fractions {', '.join(f'{share:g}' for share in shares)} of {len(names)} "
                f"classes leave {len(parts[part])} for {part}, and {_LEAST} are needed; "
                "take other fractions, as 0.8,0,0.2"
            )
    return Split(data=data, seed=seed, fractions=shares, by=by, **parts)


def hold_out_split(dataset: Dataset, rule: HoldOut) -> Split:
    """The split that a rule of a configuration makes of a dataset, instead of a split file.

    hold_out = { validation = 0.1, test = 0.1 }                     shares of the identities
    hold_out = { validation = ["Latin/*"], test = ["Greek/*"] }     names, with * and ?

    rule: "validation" and "test", each a share of the identities in 0 .. 1 or a list of patterns of
        names. Shares are drawn from identities with at least two images, without which there is no
        pair to judge by. Identities that the dataset sets apart itself are held out as well.
    Raises `OptionError` where a pattern names nobody, or a part would hold fewer than two.
    """
    unknown = set(rule) - set(_HELD_OUT)
    if unknown:
        raise OptionError(f"hold_out has no part {min(unknown)!r}; it takes validation and test")
    held = {part: set(dataset.apart.get(part, ())) for part in _HELD_OUT}
    free = [name for name in dataset.class_names if name not in held["validation"] | held["test"]]
    for part in _HELD_OUT:
        if isinstance(rule.get(part), list | tuple):
            held[part] |= _named(part, rule[part], free)  # type: ignore[arg-type]
    several = _with_several(dataset)
    taken = held["validation"] | held["test"]
    order = _draw_order(
        (name for name in free if name in several and name not in taken), _HOLD_OUT_SEED
    )
    for part in _HELD_OUT:
        wanted = rule.get(part, 0.0)
        if isinstance(wanted, int | float):
            count = round(_check_share(part, wanted) * len(free))
            held[part].update(order[:count])
            order = order[count:]
    names = {"train": set(dataset.class_names) - held["validation"] - held["test"], **held}
    for part, found in names.items():
        if len(found) < 2 and (found or part != "validation"):
            raise OptionError(
                f"hold_out leaves {len(found)} of {len(dataset.class_names)} identities for "
                f"{part}, and 2 are needed; take other shares, or --hold-out none"
            )
    total = len(dataset.class_names)
    train, validation, test = (len(names[part]) / total for part in ("train", *_HELD_OUT))
    return Split(
        data=dataset.name,
        seed=_HOLD_OUT_SEED,
        fractions=(train, validation, test),
        by="names",
        **{part: tuple(sorted(found)) for part, found in names.items()},
    )


def _named(part: str, patterns: Sequence[str], names: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        matching = {name for name in names if fnmatchcase(name, pattern)}
        if not matching:
            raise OptionError(f"hold_out {part}: no identity is called {pattern!r}")
        found |= matching
    return found


def _with_several(dataset: Dataset) -> set[str]:
    """The identities that have at least two images where they are held out."""
    parts = (dataset.test,) if dataset.held_out == "test" else (dataset.train, dataset.test)
    labels = [part.labels for part in parts if part is not None] or [dataset.train.labels]
    counts = np.bincount(np.concatenate(labels), minlength=len(dataset.class_names))
    return {dataset.class_names[label] for label in np.flatnonzero(counts >= 2)}


def _check_share(part: str, share: float) -> float:
    if not 0 <= share < 1:
        raise OptionError(f"hold_out {part} must be a share in 0 .. 1, not {share}")
    return share


def overlap(known_names: Iterable[str], evaluated_names: Iterable[str]) -> tuple[str, ...]:
    """The classes that are in both, sorted: none where an evaluation is on unseen classes.

    >>> overlap(("anna", "ben"), ("ben", "carl"))
    ('ben',)
    """
    return tuple(sorted(set(known_names) & set(evaluated_names)))


def _checked(fractions: Sequence[float]) -> tuple[float, float, float]:
    shown = ", ".join(str(share) for share in fractions)
    if len(fractions) != len(PARTS):
        raise OptionError(f"fractions are three, of train, validation and test, not {shown}")
    train, validation, test = (float(share) for share in fractions)
    if not (
        train > 0 and validation >= 0 and test > 0 and math.isfinite(train + validation + test)
    ):
        raise OptionError(f"fractions are above 0 (validation at least 0), and not {shown}")
    if abs(train + validation + test - 1) > 1e-6:
        raise OptionError(f"fractions sum to 1, and {shown} to {train + validation + test:g}")
    return train, validation, test


def _group(name: str) -> str:
    group, slash, _ = name.partition("/")
    if not slash:
        raise OptionError(f"class {name!r} has no group: there is no '/' in its name")
    return group


def _draw_order(names: Iterable[str], seed: int) -> list[str]:
    """Names in the order of the SHA-256 of "SEED/NAME"."""
    return sorted(names, key=lambda name: _draw(seed, name))


def _draw(seed: int, unit: str) -> bytes:
    # Folder names that are no Unicode reach Python with surrogates, which plain UTF-8 refuses.
    return hashlib.sha256(f"{seed}/{unit}".encode("utf-8", "surrogatepass")).digest()


def _counts(total: int, shares: tuple[float, float, float]) -> list[int]:
    """Whole numbers that sum to `total`, by the method of largest remainders."""
    # Rounded, because 0.7 × 10 and the like are whole numbers but for the last bit.
    exact = [round(share / sum(shares) * total, 6) for share in shares]
    counts = [math.floor(count) for count in exact]
    by_remainder = sorted(range(len(shares)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return counts


def _from_json(content: Any) -> Split:
    """Raises `ValueError` for anything that `Split.json` does not give."""
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object")
    if content.get("version") != _VERSION:
        raise ValueError(f"its version is {content.get('version')!r}, and {_VERSION} is read here")
    for part in PARTS:
        names = content.get(part)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{part!r} is no list of class names")
    data, seed, fractions, by = (content.get(key) for key in ("data", "seed", "fractions", "by"))
    if not isinstance(data, str) or not isinstance(seed, int) or by not in _KINDS:
        raise ValueError("'data', 'seed' or 'by' is missing or of the wrong kind")
    if not isinstance(fractions, list) or not all(
        isinstance(share, int | float) for share in fractions
    ):
        raise ValueError("'fractions' is no list of numbers")
    return Split(
        data=data,
        seed=seed,
        fractions=_checked(fractions),
        by=by,
        **{part: tuple(sorted(content[part])) for part in PARTS},
    )
