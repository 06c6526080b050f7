"""Numbers as people write them: 100M, 1.5G, 24GiB; and back."""

import math
import re

from arcset.errors import OptionError

__all__ = ["parse_number", "show_bytes", "show_count", "show_seconds"]

_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_FORM = re.compile(
    r"\s*((?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d*)?(?:e\d+)?|\.\d+)\s*([kmgtp]?)(i?)(b|bit)?\s*",
    re.IGNORECASE,
)


def parse_number(text: str, what: str) -> int:
    """A whole number of 1 or more: thousands by k, M, G, T or P; powers of 1,024 by Ki, Mi, Gi …

    A B for bytes may follow, as may `bit`, of which eight make a byte. `what` is named where the
    number cannot be read, in an `OptionError`.

        >>> parse_number("100M", "classes"), parse_number("1.5G", "memory")
        (100000000, 1500000000)
        >>> parse_number("24GiB", "memory") == 24 * 2**30, parse_number("100Gbit", "speed")
        (True, 12500000000)
        >>> parse_number("1B", "classes")
        Traceback (most recent call last):
        arcset.errors.OptionError: classes: '1B' may be a byte or a billion: write 1G for a billion
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise OptionError(f"{what}: {text!r} is not a number such as 500k, 100M, 1.5G or 24GiB")
    digits, prefix, binary, unit = (part or "" for part in found.groups())
    if unit.lower() == "b" and not prefix:
        raise OptionError(
            f"{what}: {text!r} may be a byte or a billion: write {digits}G for a billion"
        )
    if binary and not prefix:
        raise OptionError(f"{what}: {text!r} is not a number such as 500k, 100M, 1.5G or 24GiB")
    value = float(digits.replace(",", "").replace("_", ""))
    value *= float(1024 if binary else 1000) ** _PREFIXES[prefix.lower()]
    if unit.lower() == "bit":
        value /= 8
    if not 1 <= value < 1e24:
        raise OptionError(f"{what} must be at least 1 and below 1e24, not {text!r}")
    if abs(value - round(value)) > 1e-9 * value:
        raise OptionError(f"{what} must be a whole number, not {text!r}")
    return round(value)


def show_bytes(size: float) -> str:
    """Three digits or so, in powers of 1,024.

    >>> show_bytes(1536), show_bytes(24 * 2**30), show_bytes(0)
    ('1.5 KiB', '24.0 GiB', '0 B')
    """
    return _scaled(size, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"))


def show_count(number: float) -> str:
    """Short where it is round, exact where it is small.

    >>> show_count(100_000_000), show_count(1_562_500), show_count(812)
    ('100 M', '1.56 M', '812')
    """
    if number < 10_000:
        return f"{number:,.0f}"
    power = min(int(math.log10(number * 1.0005) // 3), 7)  # 999,900 is 1 M
    return f"{number / 1000**power:.3g} {' kMGTPEZ'[power]}"


def show_seconds(seconds: float) -> str:
    """In the unit that suits.

    >>> show_seconds(0.0123), show_seconds(75.0), show_seconds(2e-7)
    ('12.3 ms', '75.0 s', '0.2 µs')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:,.1f} {unit}"
    raise AssertionError("unreachable")


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    power = 0
    while value >= base * 0.9995 and power < len(units) - 1:
        value, power = value / base, power + 1
    return f"{value:.0f} {units[0]}" if power == 0 else f"{value:,.1f} {units[power]}"
