"""What happens when a gallery's file is opened."""

from contextlib import suppress

from arcset.errors import DataError
from arcset.recognition.gallery.compacting import compact
from arcset.recognition.gallery.store import Store

__all__ = ["finish_what_was_interrupted"]


def finish_what_was_interrupted(store: Store) -> None:
    """A process may have been killed, maybe while it removed somebody.

    Where the disk is full or others are in the way, the next opening tries again.
    """
    with suppress(DataError):
        if store.settings.vacuum_due:
            compact(store)
        elif store.database.log_size():
            store.database.checkpoint()
