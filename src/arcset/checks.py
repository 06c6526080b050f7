"""Checks of the options that public functions and constructors take.

Every check returns the value, as the plain Python type that the code behind it works with, or
raises `OptionError` in one form: the option's name, what it must be, and what it was.

    >>> check_number("margin", 4, 0, 3)
    Traceback (most recent call last):
    arcset.errors.OptionError: margin must be a number in [0, 3), not 4
"""

import operator
from collections.abc import Iterable
from numbers import Real
from typing import Any, Literal

from arcset.errors import OptionError

Closed = Literal["left", "right", "both", "neither"]


def check_bool(name: str, value: object) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, bool):
        raise _not_allowed(name, "true or false", value)
    return value


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """`value` if it is one of the words `choices`."""
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        raise _not_allowed(name, f"one of {', '.join(words)}", value)
    return value


def check_count(name: str, value: object, least: int = 1, most: int = 2**63 - 1) -> int:
    """`value` if it is a whole number of at least `least` and at most `most`.

    Anything that Python takes for an index is a whole number, numpy's among them; True is not.
    """
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        count = None
    if count is None or isinstance(value, bool) or count < least:
        raise _not_allowed(name, f"a whole number of at least {least}", value)
    if count > most:
        raise _not_allowed(name, f"at most {most:,}", value)
    return count


def check_counts(name: str, values: object, least: int = 1) -> list[int]:
    """`values`, one or several, as a list of whole numbers of at least `least`."""
    return [check_count(f"each of {name}", value, least) for value in _several(values)]


def check_number(
    name: str, value: object, low: float, high: float, closed: Closed = "left"
) -> float:
    """`value` as a float if it is a number between `low` and `high`; NaN never is.

    `closed` says which ends belong to the interval: [low, high) unless told otherwise.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and _inside(value, low, high, closed)):
        left = "[" if closed in ("left", "both") else "("
        right = "]" if closed in ("right", "both") else ")"
        raise _not_allowed(name, f"a number in {left}{low:.5g}, {high:.5g}{right}", value)
    return float(value)  # type: ignore[arg-type]


def check_rate(name: str, value: object) -> float:
    """`value` as a float if it is a rate in (0, 1)."""
    return check_number(name, value, 0, 1, closed="neither")


def check_rates(name: str, values: object) -> list[float]:
    """`values`, one or several, as a list of rates in (0, 1]."""
    return [
        check_number(f"each of {name}", value, 0, 1, closed="right") for value in _several(values)
    ]


def _inside(value: Any, low: float, high: float, closed: Closed) -> bool:
    above = value >= low if closed in ("left", "both") else value > low
    below = value <= high if closed in ("right", "both") else value < high
    return bool(above and below)


def _several(values: object) -> list[object]:
    return list(values) if isinstance(values, Iterable) else [values]


def _not_allowed(name: str, wanted: str, value: object) -> OptionError:
    return OptionError(f"{name} must be {wanted}, not {value!r}")
