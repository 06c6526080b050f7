"""Options of augmentations: each is a dataclass field that knows its range and its meaning."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from arcset.errors import OptionError

__all__ = ["OptionInfo", "choice", "number", "options_of", "shown", "whole"]

_KEY = "option"


@dataclass(frozen=True)
class OptionInfo:
    """What is known about one option.

    name: what users write. default: its value where nothing is written. help: one line.
    low, high: the range of a number, both ends included; None for a choice of words.
    whole: only whole numbers. words: what can be chosen from; empty for a number.
    """

    name: str
    default: float | int | str
    help: str
    low: float | None = None
    high: float | None = None
    whole: bool = False
    words: tuple[str, ...] = ()

    @property
    def range(self) -> str:
        """What fits, in words: '0 .. 180', '2 .. 32, whole' or 'edge|zero|low'."""
        if self.words:
            return "|".join(self.words)
        return f"{self.low:g} .. {self.high:g}" + (", whole" if self.whole else "")

    def checked(self, owner: str, value: object) -> float | int | str:
        """`value` in the option's own type; raises `OptionError` where it does not fit."""
        if self.words:
            if value not in self.words:
                raise self._refused(owner, f"one of {', '.join(self.words)}", value)
            return str(value)
        if not isinstance(value, int | float) or isinstance(value, bool) or not self._fits(value):
            kind = "a whole number in" if self.whole else "in"
            raise self._refused(owner, f"{kind} {self.low:g} .. {self.high:g}", value)
        return int(value) if self.whole else float(value)

    def parsed(self, owner: str, text: str) -> float | int | str:
        """The value that `text` stands for; raises `OptionError` where it does not fit.

        >>> OptionInfo("rotate", 15.0, "degrees", 0, 180).parsed("affine", "200")
        Traceback (most recent call last):
        arcset.errors.OptionError: affine: rotate must be in 0 .. 180, not 200
        """
        if self.words:
            return self.checked(owner, text)
        try:
            value: object = float(text)
        except ValueError:
            value = text
        return self.checked(owner, value)

    def _fits(self, value: float) -> bool:
        assert self.low is not None  # a number has both ends
        assert self.high is not None
        return self.low <= value <= self.high and (not self.whole or value == int(value))

    def _refused(self, owner: str, wanted: str, value: object) -> OptionError:
        return OptionError(f"{owner}: {self.name} must be {wanted}, not {shown(value)}")


def shown(value: object) -> str:
    """A value as a person would write it, in as many digits as it takes.

    >>> shown(200.0), shown(0.1234567), shown("edge")
    ('200', '0.1234567', "'edge'")
    """
    short = f"{value:g}" if isinstance(value, float) else ""
    return short if short and float(short) == value else repr(value)


def number(default: float, low: float, high: float, help: str) -> Any:
    """A dataclass field: a real number in low .. high, both ends included."""
    return _field(OptionInfo("", default, help, low, high))


def whole(default: int, low: int, high: int, help: str) -> Any:
    """A dataclass field: a whole number in low .. high, both ends included."""
    return _field(OptionInfo("", default, help, low, high, whole=True))


def choice(default: str, words: tuple[str, ...], help: str) -> Any:
    """A dataclass field: one of the words."""
    return _field(OptionInfo("", default, help, words=words))


def options_of(owner: type | object) -> dict[str, OptionInfo]:
    """The options of a dataclass, by name, in the order in which they are declared."""
    return {
        field.name: dataclasses.replace(field.metadata[_KEY], name=field.name)
        for field in dataclasses.fields(owner)  # type: ignore[arg-type]
    }


def _field(info: OptionInfo) -> Any:
    return dataclasses.field(default=info.default, metadata={_KEY: info})
