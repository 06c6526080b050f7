"""What is done to a gallery's tables; each inside `Store.changing`."""

from collections.abc import Sequence
from typing import NamedTuple

from arcset.recognition.gallery.settings import change_settings
from arcset.recognition.gallery.store import Store

__all__ = [
    "Row",
    "add_samples",
    "add_subject",
    "move_samples",
    "overwrite_samples",
    "overwrite_subject",
]

_KEPT_JOURNAL = 100_000  # a process that missed more than so many changes reads everything anew


class Row(NamedTuple):
    """A sample to be enrolled: embedding, where it came from, its image. Times in microseconds."""

    embedding: bytes
    source: str | None = None
    digest: bytes | None = None
    image: bytes | None = None


def add_subject(store: Store, name: str, added: int) -> int:
    """Make a subject, and return its number."""
    made = store.database.execute("INSERT INTO subjects (name, added) VALUES (?, ?)", (name, added))
    return int(made.lastrowid or 0)


def add_samples(
    store: Store,
    subjects: Sequence[int],
    rows: Sequence[Row],
    added: Sequence[int],
    samples: Sequence[int],
) -> None:
    """Make samples, with numbers that rise and are higher than `last_sample`."""
    execute = store.database.execute_many
    execute(
        "INSERT INTO contents (id, embedding, source, digest) VALUES (?, ?, ?, ?)",
        [(number, *row[:3]) for number, row in zip(samples, rows, strict=True)],
    )
    execute(
        "INSERT INTO samples (id, subject, added) VALUES (?, ?, ?)",
        list(zip(samples, subjects, added, strict=True)),
    )
    execute(
        "INSERT INTO images (id, image) VALUES (?, ?)",
        [(n, row.image) for n, row in zip(samples, rows, strict=True) if row.image is not None],
    )


def move_samples(store: Store, samples: Sequence[int], subject: int) -> None:
    """Give samples to another subject."""
    store.database.execute_many(
        "UPDATE samples SET subject = ? WHERE id = ?", [(subject, number) for number in samples]
    )
    _tell(store, samples)


def overwrite_samples(store: Store, samples: Sequence[int]) -> None:
    """Remove samples; as many zeros as they had bytes take their place, see `schema`."""
    numbers = [(number,) for number in samples]
    execute = store.database.execute_many
    execute("DELETE FROM samples WHERE id = ?", numbers)
    execute(
        "UPDATE contents SET embedding = zeroblob(length(embedding)),"
        " source = zeroblob(length(CAST(source AS BLOB))), digest = zeroblob(length(digest))"
        " WHERE id = ?",
        numbers,
    )
    execute("UPDATE images SET image = zeroblob(length(image)) WHERE id = ?", numbers)
    overwritten = str(store.settings.overwritten + len(samples))
    change_settings(store.database, overwritten=overwritten)
    _tell(store, samples)


def overwrite_subject(store: Store, subject: int) -> None:
    """Remove a subject that has no samples any more: zeros take the place of its name."""
    store.database.execute(
        "UPDATE subjects SET name = zeroblob(length(CAST(name AS BLOB))) WHERE id = ?", (subject,)
    )


def _tell(store: Store, samples: Sequence[int]) -> None:
    """Let other processes know that these have to be looked at again."""
    store.database.execute_many(
        "INSERT INTO journal (sample) VALUES (?)", [(number,) for number in samples]
    )
    store.database.execute(
        "DELETE FROM journal WHERE revision <= (SELECT max(revision) FROM journal) - ?",
        (_KEPT_JOURNAL,),
    )
