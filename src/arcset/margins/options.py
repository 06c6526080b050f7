"""Options of margins and losses: checks that are no ranges of real numbers, and how they print."""

import operator
from collections.abc import Iterable, Mapping

from arcset.errors import OptionError
from arcset.numerics import lies_in

__all__ = ["listed", "one_of", "share", "truth", "whole"]


def listed(options: Mapping[str, object]) -> str:
    """Options as they stand in a repr.

    >>> listed({"margin": 0.50, "fallback": "easy"})
    'margin=0.5, fallback=easy'
    """
    return ", ".join(
        f"{option}={value:g}" if isinstance(value, float) else f"{option}={value}"
        for option, value in options.items()
    )


def one_of(owner: object, option: str, value: object, known: Iterable[str]) -> str:
    """`value` if it is among the `known` words.

    >>> one_of("", "kind", "arc", ("arc", "cos"))
    'arc'
    """
    words = list(known)
    if value not in words:
        raise _refused(owner, option, f"one of {', '.join(words)}", value)
    return str(value)


def share(owner: object, option: str, value: float) -> float:
    """`value` if it lies in [0, 1], both ends included."""
    if value != 1 and not lies_in(value, 0, 1):
        raise _refused(owner, option, "a number from 0 to 1", value)
    return float(value)


def whole(owner: object, option: str, value: int, low: int) -> int:
    """`value` if it is a whole number from `low` on."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if number < low or isinstance(value, bool):
        raise _refused(owner, option, f"a whole number from {low} on", value)
    return number


def truth(owner: object, option: str, value: object) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, bool):
        raise _refused(owner, option, "True or False", value)
    return value


def _refused(owner: object, option: str, wanted: str, value: object) -> OptionError:
    return OptionError(f"{type(owner).__name__}: {option} must be {wanted}, not {value!r}")
