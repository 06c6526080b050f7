"""A gallery to another model."""

from collections.abc import Sequence

from arcset.errors import ArcsetError, DataError, OptionError
from arcset.recognition.gallery.compacting import finish_removal
from arcset.recognition.gallery.listing import find_image
from arcset.recognition.gallery.samples import unit_rows
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.store import Store
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress

__all__ = ["migrate"]

_AT_ONCE = 256  # images that are embedded at a time


def migrate(store: Store, recognizer: ImageEmbedder, progress: Progress | None = None) -> None:
    """Embed all images anew, or change nothing; see `Gallery.migrate`."""
    database = store.database
    with store.changing():
        other_size = recognizer.dim != store.settings.dim
        samples = sorted(store.index.ids.tolist())
        (kept,) = database.execute(
            f"SELECT count(*) FROM images JOIN samples USING (id) WHERE subject <> {NOBODY}"
        ).fetchone()
        if kept < len(samples):
            raise OptionError(
                f"{len(samples) - kept:,} of {len(samples):,} samples in {database.path} have no"
                f" image to embed anew: enroll them again, in a gallery for {recognizer.name} that"
                " keeps images"
            )
        for start in range(0, len(samples), _AT_ONCE):
            some = samples[start : start + _AT_ONCE]
            vectors = _embed(store, recognizer, some).astype("<f4", copy=False)
            database.execute_many(
                "UPDATE samples SET embedding = ? WHERE id = ?",
                [(row.tobytes(), number) for row, number in zip(vectors, some, strict=True)],
            )
            if progress is not None:
                progress(start + len(some), len(samples))
        store.change_settings(
            dim=str(recognizer.dim),
            model=recognizer.name,
            digest=recognizer.digest,
            model_path=None,
            faces=None,
            epoch=str(store.settings.epoch + 1),
            thresholds=None,  # of the model before
            calibrated=None,
            vacuum_due="yes" if other_size else "no",  # rows of another size are moved
        )
    finish_removal(store, f"{database.path} was moved to the model {recognizer.name!r}")


def _embed(store: Store, recognizer: ImageEmbedder, samples: Sequence[int]) -> Embeddings:
    images = [find_image(store, number) for number in samples]
    try:
        return unit_rows(recognizer.embed(images), recognizer.dim)
    except ArcsetError:
        for number, image in zip(samples, images, strict=True):
            try:
                recognizer.embed([image])
            except ArcsetError as error:
                raise DataError(
                    f"{recognizer.name} cannot embed the image of sample {number}: {error};"
                    " nothing was changed"
                ) from None
        raise
