"""What a subject may be called."""

import unicodedata

from arcset.errors import OptionError

__all__ = ["LONGEST_NAME", "check_name"]

LONGEST_NAME = 256  # characters

# Control characters, halves of characters that no encoding can hold, and ends of lines.
_REFUSED = {"Cc", "Cs", "Zl", "Zp"}


def check_name(name: object) -> str:
    """`name`, if a subject may be called so: 1 to 256 characters on one line.

    Raises `OptionError` otherwise.

        >>> check_name('Anna "Ann" O\\'Hara')
        'Anna "Ann" O\\'Hara'
        >>> check_name("anna\\n")
        Traceback (most recent call last):
        arcset.errors.OptionError: the name 'anna\\n' holds '\\n', expected no control characters
    """
    if not isinstance(name, str):
        raise OptionError(f"the name {name!r} is {type(name).__name__}, expected text")
    if not name:
        raise OptionError(f"the name is empty, expected 1 to {LONGEST_NAME} characters")
    if len(name) > LONGEST_NAME:
        raise OptionError(
            f"the name {name[:20]!r}… has {len(name):,} characters, expected 1 to {LONGEST_NAME}"
        )
    if not name.isprintable():  # quick, and true of nearly all names
        for character in name:
            if unicodedata.category(character) in _REFUSED:
                raise OptionError(
                    f"the name {name!r} holds {character!r}, expected no control characters"
                )
    return str(name)
