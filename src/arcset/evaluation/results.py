"""What every measure returns: named values, and where asked for, their 95 % intervals.

An interval is formed here and nowhere else, from the value, its standard error over draws of
identities (`bootstrap`), and the number of identities.

- Shares have Wilson's interval, which stays within 0 and 1, reaches further towards the middle
  than towards the near end, and has a width even where no error was seen.
- Angles have the value ± the error times Student's quantile.

`benchmarks/coverage.py` shows how often they hold the truth.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation.measures import Measure, measure_of, short_name
from arcset.files import finite
from arcset.text import columns

LEVEL = 0.95

_Value = TypeVar("_Value")

_KEYED = re.compile(r"(\w+)\[([^\]]+)\]")


class Missing(dict[str, str]):
    """What could not be measured, by name, and why.

    >>> from arcset.evaluation import verification
    >>> missing = Missing()
    >>> missing.attempt("verification", lambda: verification([[1.0]], [0]))
    >>> list(missing)
    ['verification']
    """

    def attempt(self, name: str, work: Callable[[], _Value]) -> _Value | None:
        """What `work` returns; None where the data do not allow it, and the reason is noted."""
        try:
            return work()
        except (InputError, DataError) as error:
            self[name] = str(error)
            return None


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


def student(identities: int, level: float = LEVEL) -> float:
    """Student's quantile for an error that so many identities tell.

    >>> round(student(20), 2), round(student(2000), 2)
    (2.09, 1.96)
    """
    return float(stdtrit(max(identities - 1, 1), (1 + level) / 2))


def share_interval(
    share: float,
    error: float,
    identities: int,
    trials: float = Measure.trials,
    level: float = LEVEL,
) -> Interval:
    """Wilson's interval of a share p with a standard error, for few identities too.

    The variance of a share of m independent trials is p(1 − p)/m, so an error e tells of
    m = p(1 − p)/e² trials. Where few errors were seen, e is a guess, and where none was seen, 0.
    So one error in M = `trials` · `identities` is mixed in:

        m = (p(1 − p) + 1/M) / (e² + 1/M²)

    With Student's quantile t, the ends are those q at which |p − q| = t·√(q(1 − q)/m).

    >>> [round(end, 3) for end in share_interval(0.9, 0.03, identities=100)]
    [0.825, 0.945]
    >>> [round(end, 3) for end in share_interval(1.0, 0.0, identities=20)]
    [0.948, 1.0]
    """
    variance, most = share * (1 - share), trials * identities
    m = (variance + 1 / most) / (error**2 + 1 / most**2)
    t = student(identities, level)
    center = (share + t**2 / (2 * m)) / (1 + t**2 / m)
    reach = t * math.sqrt(variance / m + t**2 / (4 * m**2)) / (1 + t**2 / m)
    # Rounding must not leave the value itself outside.
    return Interval(max(0.0, min(share, center - reach)), min(1.0, max(share, center + reach)))


@dataclass(frozen=True, eq=False)
class Replicates:
    """What the measures come to when the identities are drawn anew, again and again.

    values: by measure, as `Result.measures` names them, one value per draw (B,).
    identities: how many identities were drawn from.
    key: the same for two results whose draws go together, that is, same identities and same seed.
    errors: standard errors of measures whose draws do not tell all of it.
    """

    values: Mapping[str, npt.NDArray[np.float64]]
    identities: int
    key: str
    errors: Mapping[str, float] = field(default_factory=dict)

    def error(self, name: str) -> float:
        """The standard error of a measure; NaN if it does not depend on the draws."""
        drawn = self.values.get(name, np.empty(0))
        drawn = drawn[~np.isnan(drawn)]
        if not len(drawn):
            return math.nan
        few = math.sqrt(self.identities / max(self.identities - 1, 1))  # draws vary too little
        return self.errors.get(name, float(drawn.std()) * few)


@dataclass(frozen=True, kw_only=True)
class Result(ABC):
    """Base of the results: a subclass adds its fields and says which of them are measures.

    A measure is a field that holds a number, or a dict of numbers by rate or rank, and has an entry
    in the table of measures. In text the latter are named as in Python: `tar_at_far[0.001]`.
    """

    #: The fields that are measures, in the order in which they are shown.
    named: ClassVar[tuple[str, ...]] = ()

    replicates: Replicates | None = field(default=None, repr=False, compare=False)

    @abstractmethod
    def _size(self) -> str:
        """What was measured, and how much of it, in a line or two."""

    def _notes(self) -> dict[str, str]:
        """By the name of a measure: its threshold, say, or why it is not defined."""
        return {}

    def _thresholds(self, name: str, by_rate: Mapping[float, float], rare: str) -> dict[str, str]:
        """Notes on a measure at each rate: its threshold, or that such a rate is too `rare`."""
        return {
            self.name_of(name, rate): rare
            if math.isnan(threshold)
            else f"threshold {threshold:.4f}"
            for rate, threshold in by_rate.items()
        }

    def table(self) -> str:
        """What was measured, and every measure with its interval, as aligned plain text."""
        notes = self._notes()
        rows = [
            [short_name(name), self._format(name), notes.get(name, "")] for name in self.measures()
        ]
        return "\n".join((self._size(), "", columns(["measure", "value", ""], rows)))

    def measures(self) -> dict[str, float]:
        """Every measure by its name in text."""
        values: dict[str, float] = {}
        for name in self.named:
            value = getattr(self, name)
            if isinstance(value, Mapping):
                values.update({f"{name}[{key:g}]": part for key, part in value.items()})
            else:
                values[name] = value
        return values

    def name_of(self, name: str, at: float | None = None) -> str:
        """`name` as `measures` writes it; raises `OptionError` if there is no such measure.

        `tar_at_far[1e-3]`, and `tar_at_far` with `at=0.001`, are both `tar_at_far[0.001]`.
        """
        known = self.measures()
        if keyed := _KEYED.fullmatch(name.strip()):
            name, at = keyed[1], _number(keyed[2])
        full = name.strip() if at is None else f"{name}[{at:g}]"
        if full not in known:
            raise OptionError(f"there is no measure {full!r} here, but {', '.join(known)}")
        return full

    def interval(self, name: str, at: float | None = None) -> Interval:
        """The 95 % interval of a measure, over fresh draws of identities.

        NaN for a measure that does not depend on them. Raises `OptionError` for an unknown
        measure, and where no intervals were asked for.
        """
        full = self.name_of(name, at)
        if self.replicates is None:
            raise OptionError(f"no interval of {full}: ask for them with intervals=True")
        value, error = self.measures()[full], self.replicates.error(full)
        if math.isnan(value) or math.isnan(error):
            return Interval(math.nan, math.nan)
        identities, measure = self.replicates.identities, measure_of(full)
        if measure.unit == "degrees":
            reach = student(identities) * error
            return Interval(max(0.0, value - reach), min(180.0, value + reach))
        return share_interval(value, error, identities, measure.trials)

    def _format(self, name: str) -> str:
        """A measure with its interval, where there is one, as text: `0.9312 [0.9204, 0.9410]`."""
        full = self.name_of(name)
        value, digits = self.measures()[full], 2 if measure_of(full).unit == "degrees" else 4
        if math.isnan(value):
            return "–"
        text = f"{value:.{digits}f}"
        if self.replicates is None or full not in self.replicates.values:
            return text
        low, high = self.interval(full)
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
                name: list(self.interval(name)) for name in self.replicates.values
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
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
