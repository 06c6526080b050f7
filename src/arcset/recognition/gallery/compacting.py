"""Bytes that are gone for good: the log is emptied, and the file written anew where it must be."""

from contextlib import suppress

from arcset.errors import DataError
from arcset.recognition.gallery.database import UNDONE
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.store import Store

__all__ = ["compact", "empty_log", "finish_removal"]

_WORTH = 1000  # overwritten samples before their room is worth writing the file anew


def finish_removal(store: Store, what: str) -> None:
    """After something was overwritten: nothing of it stays in the log, and not too much room idle.

    what: the change that was made, as in "'anna' was removed". Where another process or a full disk
    is in the way, a `DataError` says that it was made, and how to get rid of the old bytes.
    """
    path = store.database.path
    try:
        if store.settings.vacuum_due:
            compact(store)
            return
        empty_log(store)
    except DataError as error:
        raise DataError(
            f"{what}, but the old bytes could not be overwritten yet:"
            f" {str(error).removesuffix(UNDONE)}; make room or let other processes finish, then run"
            f" `arcset gallery compact {path}`"
        ) from None
    if store.settings.overwritten >= max(_WORTH, len(store.index) + 1):
        with suppress(DataError):  # as on a full disk: what was removed is gone in any case
            compact(store)


def empty_log(store: Store) -> None:
    """Move the log into the file and empty it; raises `DataError` where that cannot be done."""
    if not store.database.checkpoint():
        raise DataError(f"another process is still reading an older state of {store.database.path}")


def compact(store: Store) -> None:
    """Write the file anew without the zeros that stand where something was removed.

    It takes room for a second copy for so long. Deleting rows makes SQLite move others, so that
    copies of these may be left in unused bytes until the file is written; should that be
    interrupted, opening the gallery does it again.
    """
    database = store.database
    with database.unbound(), store.changing():
        dead = f"(SELECT id FROM samples WHERE subject = {NOBODY})"
        database.execute(f"DELETE FROM images WHERE id IN {dead}")
        # The last of each stays, so that no number is ever given twice.
        database.execute(
            f"DELETE FROM samples WHERE subject = {NOBODY} AND id < (SELECT max(id) FROM samples)"
        )
        database.execute(
            f"DELETE FROM subjects WHERE typeof(name) = 'blob' AND id > {NOBODY}"
            " AND id < (SELECT max(id) FROM subjects)"
        )
        store.change_settings(overwritten="0", vacuum_due="yes")
    database.vacuum()
    with store.changing():
        store.change_settings(vacuum_due="no")
    empty_log(store)
