"""What happens when a gallery is opened."""

from contextlib import suppress

from arcset.errors import DataError, OptionError
from arcset.recognition.embedder import Embedder
from arcset.recognition.gallery.compacting import compact
from arcset.recognition.gallery.store import Store

__all__ = ["begin"]


def begin(
    store: Store,
    recognizer: Embedder | None,
    dim: int | None,
    scoring: str | None,
    keep_images: bool | None,
) -> None:
    """Check what `Gallery.open` was told, read all embeddings, and write down what is new."""
    database, settings = store.database, store.settings
    settings.check_fits(recognizer, dim, database.path)
    store.follow()
    changes: dict[str, str | None] = {}
    if recognizer is not None and not settings.model_digest:
        if len(store.index):
            raise OptionError(
                f"{database.path} holds embeddings from elsewhere, and {recognizer.name!r} may not"
                " be what made them: open it without a model, or make a new one"
            )
        if not database.read_only:
            changes |= {"model": recognizer.name, "digest": recognizer.digest}
    if scoring not in (None, settings.scoring.word):
        changes["scoring"] = scoring
    if keep_images not in (None, settings.keep_images):
        changes["keep_images"] = "yes" if keep_images else "no"
    if changes:
        with store.changing():
            store.change_settings(**changes)
    if database.read_only:
        return
    # A process may have been killed, maybe while it removed somebody. Where the disk is full or
    # others are in the way, the next opening tries again.
    with suppress(DataError):
        if settings.vacuum_due:
            compact(store)
        elif database.log_size():
            database.checkpoint()
