"""Identity-disjoint splits: which classes are trained on, which tune, and which judge."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice, check_number
from arcset.data.dataset import Dataset
from arcset.errors import OptionError
from arcset.files import read_json, write_text

FRACTIONS = (0.7, 0.1, 0.2)
PARTS = ("train", "validation", "test")

HoldOut = Mapping[str, float | Sequence[str]]

_HOLD_OUT_SEED = 0  # the same identities for every seed of training, so that runs can be compared


@dataclass(frozen=True)
class Split:
    """Classes of a dataset in three parts that share none.

    data: the dataset's name. train, validation, test: class names, which become sorted.
    seed, fractions, by: how the split was drawn, see `make_split`; by is `names` where a rule
        or a list of names decided, and fractions are what came out then.
    Raises `OptionError` where a class is in two places, or a part holds fewer than two, which make
    no pair of different ones; validation may be empty.
    """

    data: str
    seed: int
    fractions: tuple[float, float, float]
    by: Literal["identity", "group", "names"]
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        part_of: dict[str, str] = {}
        for part in PARTS:
            names = sorted(getattr(self, part))
            object.__setattr__(self, part, tuple(names))
            for name in names:
                if name in part_of:
                    raise OptionError(f"class {name!r} is in {part_of[name]} and in {part}")
                part_of[name] = part
        for part in PARTS:
            count = len(getattr(self, part))
            if count < 2 and (count or part != "validation"):
                raise _too_few(part, count, len(part_of), self.fractions)
        _check_fractions(self.fractions)

    def json(self) -> dict[str, Any]:
        """As one object, the one that `save` writes."""
        return {"version": self.version, **dataclasses.asdict(self)}

    def save(self, path: Path | str) -> None:
        """Write as JSON, complete or not at all."""
        write_text(Path(path), json.dumps(self.json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> "Split":
        """Read what `save` wrote; raises `DataError`, naming the file, where it is no split.

        `select` checks that the dataset has its classes.
        """
        split: Split = read_json(Path(path), "split", cls)
        return split

    def check(self, data: str, class_names: Collection[str]) -> None:
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
    shares = _check_fractions(fractions)
    check_choice("by", by, ("identity", "group"))
    members: dict[str, list[str]] = {}
    for name in class_names:
        members.setdefault(name if by == "identity" else _group(name), []).append(name)
    order = _draw_order(members, seed)
    parts: dict[str, Any] = {}
    for part, count in zip(PARTS, _share_out(len(order), shares), strict=True):
        drawn, order = order[:count], order[count:]
        parts[part] = tuple(name for unit in drawn for name in members[unit])
    if shares[1] > 0 and not parts["validation"]:
        raise _too_few("validation", 0, sum(map(len, members.values())), shares)
    return Split(data=data, seed=seed, fractions=shares, by=by, **parts)  # type: ignore[arg-type]


def hold_out_split(dataset: Dataset, rule: HoldOut) -> Split:
    """The split that a rule of a configuration makes of a dataset, instead of a split file.

    hold_out = { validation = 0.1, test = 0.1 }                     shares of the identities
    hold_out = { validation = ["Latin/*"], test = ["Greek/*"] }     names, with * and ?

    rule: "validation" and "test", each a share of the identities in 0 .. 1 or a list of patterns of
        names. Shares are drawn from identities with at least two images, without which there is no
        pair to judge by. Identities that the dataset sets apart itself are held out as well.
    Raises `OptionError` where a pattern fits no name, or a part would hold fewer than two.
    """
    unknown = set(rule) - {"validation", "test"}
    if unknown:
        raise OptionError(f"hold_out has no part {min(unknown)!r}; it takes validation and test")
    held = {part: set(dataset.apart.get(part, ())) for part in ("validation", "test")}
    free = [name for name in dataset.class_names if name not in held["validation"] | held["test"]]
    shares: dict[str, float] = {}
    for part in held:
        wanted = rule.get(part, 0.0)
        if isinstance(wanted, list | tuple):
            held[part] |= _match_names(part, wanted, free)
        else:
            shares[part] = check_number(f"hold_out {part}", wanted, 0, 1)
    several = {dataset.class_names[row] for row in np.flatnonzero(count_held_out(dataset) >= 2)}
    order = _draw_order(
        several.intersection(free) - held["validation"] - held["test"], _HOLD_OUT_SEED
    )
    for part, share in shares.items():
        count = round(share * len(free))
        held[part].update(order[:count])
        order = order[count:]
        if share > 0 and len(held[part]) < 2 and (held[part] or part == "test"):
            raise OptionError(
                f"hold_out {part} = {share:g}: that holds out {len(held[part])} of {len(free)} "
                f"identities, of which {len(several)} have two images or more, and 2 are needed; "
                "take a larger share, or --hold-out none"
            )
    train = set(dataset.class_names) - held["validation"] - held["test"]
    try:
        return split_of_parts(dataset.name, train, **held)
    except OptionError as error:
        raise OptionError(f"hold_out: {error}, or --hold-out none") from None


def split_of_parts(
    data: str, train: Collection[str], validation: Collection[str], test: Collection[str]
) -> Split:
    """A split whose parts a rule or a list of names decided; its fractions are what came out."""
    counts = [len(part) for part in (train, validation, test)]
    shares = [count / sum(counts) for count in counts]
    return Split(
        data=data,
        seed=_HOLD_OUT_SEED,
        fractions=(shares[0], shares[1], shares[2]),
        by="names",
        train=tuple(train),
        validation=tuple(validation),
        test=tuple(test),
    )


def count_held_out(dataset: Dataset) -> npt.NDArray[np.int64]:
    """How many images each class has to judge by where it is held out, (K,); see `Dataset`."""
    parts = (dataset.test,) if dataset.held_out == "test" else (dataset.train, dataset.test)
    labels = [part.labels for part in parts if part is not None] or [dataset.train.labels]
    return np.bincount(np.concatenate(labels), minlength=len(dataset.class_names))


def overlap(known_names: Iterable[str], evaluated_names: Iterable[str]) -> tuple[str, ...]:
    """The classes that are in both, sorted: none where an evaluation is on unseen classes.

    >>> overlap(("anna", "ben"), ("ben", "carl"))
    ('ben',)
    """
    return tuple(sorted(set(known_names) & set(evaluated_names)))


def _match_names(part: str, patterns: Sequence[str], names: Sequence[str]) -> set[str]:
    matching: set[str] = set()
    for pattern in patterns:
        matches = {name for name in names if fnmatchcase(name, pattern)}
        if not matches:
            raise OptionError(f"hold_out {part}: no identity is called {pattern!r}")
        matching |= matches
    return matching


def _check_fractions(fractions: Sequence[float]) -> tuple[float, float, float]:
    if len(fractions) == len(PARTS):
        train, validation, test = (float(share) for share in fractions)
        is_share = train > 0 and validation >= 0 and test > 0
        if is_share and abs(train + validation + test - 1) <= 1e-6:
            return train, validation, test
    raise OptionError(
        "fractions must be three shares, of train, validation (which may be 0) and test, that sum "
        f"to 1, not {', '.join(map(str, fractions))}"
    )


def _too_few(part: str, count: int, total: int, fractions: Sequence[float]) -> OptionError:
    shares = ", ".join(f"{share:g}" for share in fractions)
    return OptionError(
        f"of {total} classes, the fractions {shares} leave {count} for {part}, and at least 2 are "
        "needed; take other shares"
    )


def _group(name: str) -> str:
    group, slash, _ = name.partition("/")
    if not slash:
        raise OptionError(f"class {name!r} has no group: there is no '/' in its name")
    return group


def _draw_order(names: Iterable[str], seed: int) -> list[str]:
    """Names in the order of the SHA-256 of "SEED/NAME"."""

    def draw(name: str) -> bytes:
        # Folder names that are no Unicode reach Python with surrogates, which plain UTF-8 refuses.
        return hashlib.sha256(f"{seed}/{name}".encode("utf-8", "surrogatepass")).digest()

    return sorted(names, key=draw)


def _share_out(total: int, shares: tuple[float, float, float]) -> list[int]:
    """Whole numbers that sum to `total`, by the method of largest remainders."""
    # Rounded, because 0.7 × 10 and the like are whole numbers but for the last bit.
    exact = [round(share / sum(shares) * total, 6) for share in shares]
    counts = [math.floor(count) for count in exact]
    by_remainder = sorted(range(len(shares)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return counts
