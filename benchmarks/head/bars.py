"""The figures that arcset wants to reach, at batch 128 and 512 dimensions."""

from collections.abc import Iterator
from typing import Any

BATCH, DIM = 128, 512
MOST, LEAST = "at most", "at least"

#: classes, contender, what it is divided by, the figure; times
SPEEDS = [
    (10_000, "store", "allocating", MOST, 1.4),
    (100_000, "store", "allocating", MOST, 1.25),
    (1_000_000, "store", "allocating", MOST, 1.25),
    (10_000, "pml", "store", LEAST, 2.5),
    (100_000, "pml", "store", LEAST, 4.0),
    (1_000_000, "pml", "store", LEAST, 4.0),
    (10_000, "arccos", "store", LEAST, 2.2),
    (100_000, "arccos", "store", LEAST, 3.5),
    (1_000_000, "arccos", "store", LEAST, 3.5),
    (1_000_000, "sgd", "fused", LEAST, 1.15),
]
#: classes, contender, peak in multiples of W
PEAKS = [
    (1_000_000, "store", 2.6),
    (1_000_000, "recompute", 2.2),
    (1_000_000, "fused", 2.4),
]


def bars(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every bar whose two sides were measured."""
    measured = {
        cell["classes"]: cell["contenders"]
        for cell in cells
        if (cell["batch"], cell["dim"]) == (BATCH, DIM)
    }
    return [*_speeds(measured), *_peaks(measured)]


def _speeds(measured: dict[int, Any]) -> Iterator[dict[str, Any]]:
    for classes, name, base, side, limit in SPEEDS:
        rows = measured.get(classes, {})
        if not all("median" in rows.get(each, {}) for each in (name, base)):
            continue
        what = f"time of {rows[name]['label']} / {rows[base]['label']}"
        yield _bar(classes, what, rows[name]["median"] / rows[base]["median"], side, limit)


def _peaks(measured: dict[int, Any]) -> Iterator[dict[str, Any]]:
    for classes, name, limit in PEAKS:
        row = measured.get(classes, {}).get(name, {})
        if "weights" in row.get("memory", {}):
            what = f"peak memory of {row['label']} / W"
            yield _bar(classes, what, row["memory"]["weights"], MOST, limit)


def _bar(classes: int, what: str, figure: float, side: str, limit: float) -> dict[str, Any]:
    met = figure <= limit if side == MOST else figure >= limit
    return {
        "classes": classes,
        "what": what,
        "figure": figure,
        "side": side,
        "limit": limit,
        "met": met,
    }
