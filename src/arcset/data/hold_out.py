"""Which identities a run holds out, from a rule in its configuration instead of a split file.

hold_out = { validation = 0.1, test = 0.1 }                     shares of the identities
hold_out = { validation = ["Latin/*"], test = ["Greek/*"] }     names, with * and ?
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from arcset.data.dataset import Dataset
from arcset.data.selection import counted
from arcset.data.split import Split, draw_order
from arcset.errors import OptionError

__all__ = ["HoldOut", "hold_out_split"]

HoldOut = Mapping[str, float | Sequence[str]]

_PARTS = ("validation", "test")
_SEED = 0  # the same identities for every seed of training, so that runs can be compared


def hold_out_split(dataset: Dataset, rule: HoldOut) -> Split:
    """The split that `rule` makes of a dataset.

    rule: "validation" and "test", each a share of the identities in 0 .. 1 or a list of patterns of
        names. Shares are drawn from identities with at least two images, without which there is no
        pair to judge by. Identities that the dataset sets apart itself are held out as well.
    Raises `OptionError` where a pattern names nobody, or a part would hold fewer than two.
    """
    unknown = set(rule) - set(_PARTS)
    if unknown:
        raise OptionError(f"hold_out has no part {min(unknown)!r}; it takes validation and test")
    held = {part: set(dataset.apart.get(part, ())) for part in _PARTS}
    free = [name for name in dataset.class_names if name not in held["validation"] | held["test"]]
    for part in _PARTS:
        if isinstance(rule.get(part), list | tuple):
            held[part] |= _named(part, rule[part], free)  # type: ignore[arg-type]
    several = _with_several(dataset)
    taken = held["validation"] | held["test"]
    order = draw_order((name for name in free if name in several and name not in taken), _SEED)
    for part in _PARTS:
        wanted = rule.get(part, 0.0)
        if isinstance(wanted, int | float):
            count = round(_checked(part, wanted) * len(free))
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
    train, validation, test = (len(names[part]) / total for part in ("train", *_PARTS))
    return Split(
        data=dataset.name,
        seed=_SEED,
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
    counts = np.bincount(counted(dataset).labels, minlength=len(dataset.class_names))
    return {dataset.class_names[place] for place in np.flatnonzero(counts >= 2)}


def _checked(part: str, share: float) -> float:
    if not 0 <= share < 1:
        raise OptionError(f"hold_out {part} must be a share in 0 .. 1, not {share}")
    return share
