"""What a gallery tells about its subjects and samples; each inside `reading`."""

from datetime import datetime
from typing import Any

import numpy as np

from arcset.recognition.gallery.samples import Sample, Subject, as_time
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.store import Store

__all__ = ["find_image", "list_samples", "list_subjects", "moment"]


def list_subjects(store: Store) -> tuple[Subject, ...]:
    """All subjects, the first enrolled first."""
    counts = store.index.counts
    rows = store.database.execute(f"SELECT id - {NOBODY}, name, added FROM subjects ORDER BY id")
    held = [row for row in rows if 0 < row[0] < len(counts) and counts[row[0]]]
    names = store.checked_names({number: name for number, name, _ in held})
    if len(names) < np.count_nonzero(counts):
        raise store.database.damaged("a subject has no name")
    return tuple(
        Subject(names[number], int(counts[number]), moment(store, added))
        for number, _, added in held
    )


def list_samples(store: Store, subject: int) -> tuple[Sample, ...]:
    """All samples of a subject, by its number."""
    numbers = store.samples_of(subject)
    found = [
        row
        for number in numbers
        for row in store.database.execute(
            "SELECT samples.id, source, digest, added, images.id IS NOT NULL FROM samples"
            " LEFT JOIN images USING (id) WHERE samples.id = ?",
            (number,),
        )
    ]
    if len(found) != len(numbers):
        raise store.database.damaged(f"{len(found)} of {len(numbers)} samples are found")
    for number, source, digest, _, _ in found:
        if not isinstance(source, str | None) or not isinstance(digest, bytes | None):
            raise store.database.damaged(f"sample {number} has a source or digest of a wrong type")
    return tuple(
        Sample(
            number,
            source,
            None if digest is None else digest.hex(),
            moment(store, added),
            bool(kept),
        )
        for number, source, digest, added, kept in found
    )


def find_image(store: Store, sample: int) -> bytes | None:
    """The image of a sample, or None."""
    found = store.database.execute("SELECT image FROM images WHERE id = ?", (sample,)).fetchone()
    if found is None:
        return None
    if not isinstance(found[0], bytes):
        raise store.database.damaged(f"the image of sample {sample} is not an image")
    return found[0]


def moment(store: Store, added: Any) -> datetime:
    """A time as the file has it; raises `DataError` for what is none."""
    try:
        return as_time(added)
    except (TypeError, ValueError, OverflowError, OSError):
        raise store.database.damaged(f"{added!r} is not a time") from None
