"""What the project gave when it was recorded, and what it gives now.

A test hands over what it got, and `recorded` compares it with recorded/NAME.json:

    from contract.recording import recorded

    def test_measures_stay_as_they_are():
        recorded("measures-ties", evaluation.verification(embeddings, labels).json())

A value is anything that JSON can hold; NaN and infinities (null in the file), numpy scalars and
arrays, tuples, paths and dicts with other keys than text are understood, too. Then:

- text, booleans, null, whole numbers, keys and lengths must be equal; the order of keys is free;
- another number may differ by `tolerance`, or by so much of itself where it is larger than 1;
- a dict with both `low` and `high` is an interval: its two ends may each differ by 5 % of its
  recorded width, because they come from random draws. `interval(pair)` makes one of a pair.

To record what stands in no file yet, or anew what has changed on purpose, name it, or several by a
pattern; nothing else is written, and what was written is to be read with `git diff`:

    ARCSET_RECORD='measures-*' python -m pytest tests/contract/test_measures.py

Without that variable a missing file is a failure like any other.
"""

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "recorded"
WIDTH_SHARE = 0.05  # of an interval's width, by which each of its ends may differ
_DIGITS = 12
_SHOW_WARNING = warnings.showwarning  # before a command line that a test runs puts its own there
_SHOWN = 5


def recorded(name: str, value: Any, tolerance: float = 1e-6) -> None:
    """Compare `value` with recorded/NAME.json; the message names the places that differ.

    Raises `AssertionError` where they differ or there is no such file. Where ARCSET_RECORD names
    it, the file is written instead.
    """
    path, value = FOLDER / f"{name}.json", plain(value)
    if _to_be_recorded(name):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
        with warnings.catch_warnings():
            warnings.showwarning = _SHOW_WARNING
            warnings.warn(f"recorded {path}: nothing was compared", stacklevel=2)
        return
    assert path.is_file(), f"there is no record {path}; see {__file__} for how to make one"
    found = list(differences(json.loads(path.read_text(encoding="utf-8")), value, tolerance))
    more = f"\nand {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    assert not found, f"not as recorded in {path.name}:\n" + "\n".join(found[:_SHOWN]) + more


def interval(pair: Any) -> dict[str, Any]:
    """A pair of ends, of which `recorded` is to know that it is an interval."""
    low, high = pair
    return {"low": low, "high": high}


def plain(value: Any) -> Any:
    """As a file holds it: only what JSON knows, numbers to 12 digits, NaN and infinities as None.

    >>> plain({0.001: np.float32(0.5), "path": Path("a"), "ends": (np.nan, 3)})
    {'0.001': 0.5, 'path': 'a', 'ends': [None, 3]}
    """
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, str | int | None):
        return value
    return str(value)


def differences(
    old: Any, new: Any, tolerance: float, where: str = "$", slack: float = 0.0
) -> Iterator[str]:
    """Where two plain values differ, one line each.

    >>> list(differences({"auc": 0.5, "n": [1, 2]}, {"auc": 0.5 + 1e-9, "n": [1, 3]}, 1e-6))
    ['$.n[1]: recorded 2, now 3']
    >>> old, new = {"low": 0.4, "high": 0.6}, {"low": 0.35, "high": 0.601}
    >>> list(differences(old, new, 1e-6))
    ['$.low: recorded 0.4, now 0.35, which differs by more than 0.01']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            place = f"{where}.{key}"
            if key not in new:
                yield f"{place}: recorded, now missing"
            elif key not in old:
                yield f"{place}: new, not recorded"
            else:
                slack = _slack(old) if key in ("low", "high") else 0.0
                yield from differences(old[key], new[key], tolerance, place, slack)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where}: recorded {len(old)} items, now {len(new)}"
        for number, (before, now) in enumerate(zip(old, new, strict=False)):
            yield from differences(before, now, tolerance, f"{where}[{number}]")
    elif _is_measured(old, new):
        allowed = max(slack, tolerance * max(1.0, abs(old)))
        if abs(new - old) > allowed:
            yield f"{where}: recorded {old}, now {new}, which differs by more than {allowed:.3g}"
    elif type(old) is not type(new) or old != new:
        yield f"{where}: recorded {old!r}, now {new!r}"


def _key(key: Any) -> str:
    return f"{key:g}" if isinstance(key, float) else str(key)


def _to_be_recorded(name: str) -> bool:
    patterns = os.environ.get("ARCSET_RECORD", "").split(",")
    wanted = any(fnmatchcase(name, pattern.strip()) for pattern in patterns)
    assert not (wanted and os.environ.get("CI")), "ARCSET_RECORD is set in CI, which never records"
    return wanted


def _slack(span: Mapping[str, Any]) -> float:
    """How far the ends of an interval may move; 0 where the dict is none."""
    low, high = span.get("low"), span.get("high")
    if not (isinstance(low, int | float) and isinstance(high, int | float)):
        return 0.0
    return WIDTH_SHARE * abs(high - low)


def _is_measured(old: Any, new: Any) -> bool:
    """Whether both are numbers and one at least is not a whole one."""
    kinds = {type(old), type(new)}
    return kinds <= {int, float} and float in kinds
