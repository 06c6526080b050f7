"""What is done to a gallery's tables; each inside `Store.changing`."""

from collections.abc import Sequence

from arcset.recognition.gallery.samples import Row
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.store import Added, Store

__all__ = [
    "add_samples",
    "add_subject",
    "move_samples",
    "overwrite_samples",
    "overwrite_subject",
]

_KEPT_JOURNAL = 100_000  # a process that missed more than so many changes reads everything anew


def add_subject(store: Store, name: str, added: int) -> int:
    """Make a subject, and return its number."""
    made = store.database.execute("INSERT INTO subjects (name, added) VALUES (?, ?)", (name, added))
    number = int(made.lastrowid or 0) - NOBODY
    store.will_name(name, number)
    return number


def add_samples(
    store: Store,
    subjects: Sequence[int],
    rows: Sequence[Row],
    added: Sequence[int],
    samples: Sequence[int],
) -> None:
    """Make samples, with numbers that rise and are higher than `last_sample`."""
    values, images, embeddings = [], [], []
    for number, subject, moment, row in zip(samples, subjects, added, rows, strict=True):
        values.append((number, subject + NOBODY, moment, row.embedding, row.source, row.digest))
        embeddings.append(row.embedding)
        if row.image is not None:
            images.append((number, row.image))
    store.database.execute_many(
        "INSERT INTO samples (id, subject, added, embedding, source, digest)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        values,
    )
    if images:
        store.database.execute_many("INSERT INTO images (id, image) VALUES (?, ?)", images)
    store.will_add(Added(samples, subjects, embeddings))


def move_samples(store: Store, samples: Sequence[int], subject: int) -> None:
    """Give samples to another subject."""
    store.database.execute_many(
        "UPDATE samples SET subject = ? WHERE id = ?",
        [(subject + NOBODY, number) for number in samples],
    )
    _tell(store, samples)


def overwrite_samples(store: Store, samples: Sequence[int]) -> None:
    """Remove samples; as many zeros as they had bytes take their place, see `schema`."""
    numbers = [(number,) for number in samples]
    execute = store.database.execute_many
    execute(
        f"UPDATE samples SET subject = {NOBODY}, embedding = zeroblob(length(embedding)),"
        " source = zeroblob(length(CAST(source AS BLOB))), digest = zeroblob(length(digest))"
        " WHERE id = ?",
        numbers,
    )
    execute("UPDATE images SET image = zeroblob(length(image)) WHERE id = ?", numbers)
    store.change_settings(
        gone=str(store.settings.gone + len(samples)),
        overwritten=str(store.settings.overwritten + len(samples)),
    )
    _tell(store, samples)


def overwrite_subject(store: Store, subject: int) -> None:
    """Remove a subject that has no samples any more: zeros take the place of its name."""
    store.database.execute(
        "UPDATE subjects SET name = zeroblob(length(CAST(name AS BLOB))) WHERE id = ?",
        (subject + NOBODY,),
    )


def _tell(store: Store, samples: Sequence[int]) -> None:
    """Let this and other processes know that these have to be looked at again."""
    store.will_change()
    store.database.execute_many(
        "INSERT INTO journal (sample) VALUES (?)", [(number,) for number in samples]
    )
    store.database.execute(
        "DELETE FROM journal WHERE revision <= (SELECT max(revision) FROM journal) - ?",
        (_KEPT_JOURNAL,),
    )
