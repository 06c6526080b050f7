"""From images or embeddings to rows of a gallery."""

import os
import time
from collections.abc import Sequence
from typing import Any

from arcset.errors import InputError
from arcset.recognition.gallery.changes import Row, add_samples, add_subject
from arcset.recognition.gallery.originals import original
from arcset.recognition.gallery.store import Store
from arcset.recognition.recognizer import Embeddings

__all__ = ["enroll_rows", "make_rows", "now"]


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def make_rows(
    embeddings: Embeddings,
    images: Sequence[Any] | None,
    sources: Sequence[Any] | None,
    keep_images: bool,
) -> list[Row]:
    """One row for each of the embeddings (N, D), with what is known about it.

    Raises `InputError` for images or sources that are not N.
    """
    content = embeddings.astype("<f4", copy=False).tobytes()
    size = 4 * embeddings.shape[1]
    rows = [Row(content[start : start + size]) for start in range(0, len(content), size)]
    if images is None and sources is None:
        return rows
    for what, items in (("images", images), ("sources", sources)):
        if items is not None and len(items) != len(embeddings):
            raise InputError(f"there are {len(embeddings):,} embeddings, but {len(items):,} {what}")
    for place, row in enumerate(rows):
        if images is not None:
            image = original(images[place])
            kept = image.content if keep_images else None
            row = row._replace(source=image.source, digest=image.digest, image=kept)
        if sources is not None and sources[place] is not None:
            row = row._replace(source=_text(sources[place]))
        rows[place] = row
    return rows


def enroll_rows(
    store: Store,
    names: Sequence[str],
    rows: Sequence[Row],
    *,
    samples: Sequence[int] | None = None,
    added: Sequence[int] | None = None,
) -> list[int]:
    """Put rows into the file, inside `changing`, and return their numbers.

    samples, added: numbers and times of these, where they have some already.
    """
    first = store.last_sample + 1
    samples = range(first, first + len(rows)) if samples is None else samples
    added = [now()] * len(rows) if added is None else added
    numbers = store.numbers(dict.fromkeys(names))
    for name, moment in zip(names, added, strict=True):
        if name not in numbers:
            numbers[name] = add_subject(store, name, moment)
    add_samples(store, [numbers[name] for name in names], rows, added, samples)
    return list(samples)


def _text(source: Any) -> str:
    """A path or a name as text that any file can hold."""
    given = source if isinstance(source, str | os.PathLike) else str(source)
    return os.fsencode(given).decode("utf-8", "replace")
