"""What every measure returns: named values, and where asked for, their 95 % intervals."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from arcset.errors import OptionError
from arcset.evaluation.measures import MEASURES
from arcset.numerics import finite

__all__ = ["LEVEL", "Interval", "Replicates", "Result", "central"]

LEVEL = 0.95

_KEYED = re.compile(r"(\w+)\[([^\]]+)\]")


class Interval(NamedTuple):
    """From `low` to `high`; NaN where there is nothing to tell from."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"[{self.low:.4f}, {self.high:.4f}]"


def central(drawn: npt.NDArray[np.float64], level: float = LEVEL) -> Interval:
    """The central `level` of values (B,); those that are NaN are left out.

    >>> [round(end, 3) for end in central(np.linspace(0, 1, 1001))]
    [0.025, 0.975]
    """
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return Interval(math.nan, math.nan)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


@dataclass(frozen=True, eq=False)
class Replicates:
    """What the measures come to when the identities are drawn anew, again and again.

    values: by measure, as `Result.measures` names them, one value per draw (B,).
    identities: how many identities were drawn from.
    key: the same for two results whose draws go together, that is, same identities and same seed.
    """

    values: Mapping[str, npt.NDArray[np.float64]]
    identities: int
    key: str

    def interval(self, name: str) -> Interval:
        """The central 95 % of the draws; NaN for a measure that does not depend on them."""
        return central(self.values.get(name, np.empty(0)))


@dataclass(frozen=True, kw_only=True)
class Result(ABC):
    """Base of the results: a subclass adds its fields and says which of them are measures.

    A measure is a field that holds a number, or a dict of numbers by rate or rank. In text the
    latter are named as in Python: `tar_at_far[0.001]`.
    """

    #: The fields that are measures, in the order in which they are shown.
    named: ClassVar[tuple[str, ...]] = ()
    #: Those of them where less is better, from the table of measures.
    lower_is_better: ClassVar[frozenset[str]] = frozenset()
    #: Those of them that are angles in degrees.
    in_degrees: ClassVar[frozenset[str]] = frozenset()

    replicates: Replicates | None = field(default=None, repr=False, compare=False)

    def __init_subclass__(cls) -> None:
        known = [MEASURES[name] for name in cls.named if name in MEASURES]
        if known:
            lower = {measure.name for measure in known if measure.lower_is_better}
            cls.lower_is_better = frozenset(lower)
            cls.in_degrees = frozenset(one.name for one in known if one.unit == "degrees")

    @abstractmethod
    def table(self) -> str:
        """The measures as aligned plain text."""

    def measures(self) -> dict[str, float]:
        """Every measure by its name in text."""
        found: dict[str, float] = {}
        for name in self.named:
            value = getattr(self, name)
            if isinstance(value, Mapping):
                found.update({f"{name}[{key:g}]": part for key, part in value.items()})
            else:
                found[name] = value
        return found

    def name_of(self, name: str, at: float | None = None) -> str:
        """`name` as `measures` writes it; raises `OptionError` if there is no such measure.

        `tar_at_far[1e-3]`, and `tar_at_far` with `at=0.001`, are both `tar_at_far[0.001]`.
        """
        keyed = _KEYED.fullmatch(name.strip())
        if keyed:
            name, at = keyed[1], _number(keyed[2])
        full = name.strip() if at is None else f"{name}[{at:g}]"
        known = self.measures()
        if full not in known:
            raise OptionError(f"there is no measure {full!r} here, but {', '.join(known)}")
        return full

    def interval(self, name: str, at: float | None = None) -> Interval:
        """The 95 % interval of a measure, over fresh draws of identities.

        Raises `OptionError` for an unknown measure, and where no intervals were asked for.
        """
        full = self.name_of(name, at)
        if self.replicates is None:
            raise OptionError(f"no interval of {full}: ask for them with intervals=True")
        return self.replicates.interval(full)

    def shown(self, name: str, digits: int = 4) -> str:
        """A measure with its interval, where there is one, as text: `0.9312 [0.9204, 0.9410]`."""
        full = self.name_of(name)
        value = self.measures()[full]
        if math.isnan(value):
            return "–"
        text = f"{value:.{digits}f}"
        if self.replicates is None or full not in self.replicates.values:
            return text
        low, high = self.replicates.interval(full)
        return f"{text} [{low:.{digits}f}, {high:.{digits}f}]"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them: keys as text, NaN as None; and the intervals."""
        content = {
            item.name: _plain(getattr(self, item.name))
            for item in fields(self)
            if item.repr  # the others are what measures are made of
        }
        if self.replicates is not None:
            content["intervals"] = {
                name: list(self.replicates.interval(name)) for name in self.replicates.values
            }
            content["identities"] = self.replicates.identities
        return dict(finite(content))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {f"{key:g}" if isinstance(key, float) else str(key): v for key, v in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "json"):
        return value.json()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
