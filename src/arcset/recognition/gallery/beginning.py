"""What happens when a gallery is opened."""

from contextlib import suppress

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.compacting import compact
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.gallery.store import Store
from arcset.recognition.recognizer import ImageEmbedder

__all__ = ["begin", "changes_at_opening"]


def begin(
    store: Store,
    recognizer: ImageEmbedder | None,
    dim: int | None,
    scoring: str | None,
    keep_images: bool | None,
) -> None:
    """Check what `Gallery.open` was told, read all embeddings, and write down what is new."""
    database, settings = store.database, store.settings
    settings.check_fits(recognizer, dim, database.path)
    store.follow()
    changes = changes_at_opening(
        settings, recognizer, scoring, keep_images, empty=not len(store.index), path=database.path
    )
    if database.read_only:
        changes.pop("model", None)
        changes.pop("digest", None)
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


def changes_at_opening(
    settings: Settings,
    recognizer: ImageEmbedder | None,
    scoring: str | None,
    keep_images: bool | None,
    *,
    empty: bool,
    path: object,
) -> dict[str, str]:
    """Settings that differ from what `Gallery.open` was told.

    Raises `OptionError` where a gallery that is not `empty` does not know the model it is for.
    """
    changes: dict[str, str] = {}
    if recognizer is not None and not settings.model_digest:
        if not empty:
            raise OptionError(
                f"{path} holds embeddings from elsewhere, and {recognizer.name!r} may not be what"
                " made them: open it without a model, or make a new one"
            )
        changes |= {"model": recognizer.name, "digest": recognizer.digest}
    if scoring is not None and scoring != settings.scoring.word:
        changes["scoring"] = scoring
    if keep_images not in (None, settings.keep_images):
        changes["keep_images"] = "yes" if keep_images else "no"
    return changes
