"""What a gallery tells about its subjects and samples; each inside `reading`."""

from datetime import datetime
from typing import Any

from arcset.errors import DataError
from arcset.recognition.gallery.records import Sample, Subject, as_time
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.store import Store

__all__ = ["find_image", "list_samples", "list_subjects"]


def list_subjects(store: Store) -> tuple[Subject, ...]:
    """All subjects, the first enrolled first."""
    counts = store.index.counts
    rows = store.database.execute(f"SELECT id - {NOBODY}, name, added FROM subjects ORDER BY id")
    return tuple(
        Subject(name, int(counts[number]), _moment(store, added))
        for number, name, added in rows
        if number < len(counts) and counts[number]
    )


def list_samples(store: Store, subject: int) -> tuple[Sample, ...]:
    """All samples of a subject, by its number."""
    found = [
        store.database.execute(
            "SELECT samples.id, source, digest, added, images.id IS NOT NULL FROM samples"
            " LEFT JOIN images USING (id) WHERE samples.id = ?",
            (number,),
        ).fetchone()
        for number in store.samples_of(subject)
    ]
    return tuple(
        Sample(
            number,
            source,
            None if digest is None else bytes(digest).hex(),
            _moment(store, added),
            bool(kept),
        )
        for number, source, digest, added, kept in found
    )


def find_image(store: Store, sample: int) -> bytes | None:
    """The image of a sample, or None."""
    found = store.database.execute("SELECT image FROM images WHERE id = ?", (sample,)).fetchone()
    return None if found is None else bytes(found[0])


def _moment(store: Store, added: Any) -> datetime:
    try:
        return as_time(added)
    except (TypeError, ValueError, OverflowError, OSError):
        raise DataError(f"{store.database.path} is damaged: {added!r} is no time") from None
