"""Options that measures share, checked: whole numbers and rates."""

from collections.abc import Iterable
from numbers import Integral, Real

from arcset.errors import OptionError

__all__ = ["check_count", "checked_counts", "checked_rates"]


def check_count(option: str, value: object, least: int = 1) -> None:
    """Raise `OptionError` unless the `value` of an option is an integer of `least` or more."""
    if not _is_count(value, least):
        raise OptionError(f"{option}={value!r} is out of range, expected an integer ≥ {least}")


def checked_counts(option: str, values: Iterable[int]) -> list[int]:
    """`values` as a list; raises `OptionError` unless each is an integer of 1 or more."""
    counts = list(values) if isinstance(values, Iterable) else [values]
    for value in counts:
        if not _is_count(value, 1):
            raise OptionError(f"{option} hold {value!r}, expected integers ≥ 1")
    return [int(value) for value in counts]


def checked_rates(option: str, values: Iterable[float]) -> list[float]:
    """`values` as a list; raises `OptionError` unless each lies in (0, 1]."""
    rates = list(values) if isinstance(values, Iterable) else [values]
    for value in rates:
        if isinstance(value, bool) or not (isinstance(value, Real) and 0 < value <= 1):
            raise OptionError(f"{option} hold {value!r}, expected rates in (0, 1]")
    return [float(value) for value in rates]


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
