"""Rows into a gallery's file."""

import time
from collections.abc import Sequence

from arcset.recognition.gallery.changes import add_samples, add_subject
from arcset.recognition.gallery.samples import Row
from arcset.recognition.gallery.store import Store

__all__ = ["enroll_rows", "now"]


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def enroll_rows(store: Store, rows: Sequence[Row], first: int) -> list[int]:
    """Put rows into the file, inside `changing`, and return their numbers, from `first` on."""
    samples = range(first, first + len(rows))
    moment = now()
    added = [moment if row.added is None else row.added for row in rows]
    numbers = store.numbers(dict.fromkeys(row.name for row in rows))
    for row, time_added in zip(rows, added, strict=True):
        if row.name not in numbers:
            numbers[row.name] = add_subject(store, row.name, time_added)
    add_samples(store, [numbers[row.name] for row in rows], rows, added, samples)
    return list(samples)
