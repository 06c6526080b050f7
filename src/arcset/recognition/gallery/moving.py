"""A gallery out of a file, and to another model."""

from collections.abc import Sequence
from pathlib import Path

from arcset.errors import ArcsetError, DataError, OptionError
from arcset.recognition.gallery.compacting import finish_removal
from arcset.recognition.gallery.enrolling import enroll_rows
from arcset.recognition.gallery.listing import find_image
from arcset.recognition.gallery.parquet_files import GalleryFile
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.gallery.store import Store
from arcset.recognition.gallery.vectors import unit_rows
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress

__all__ = ["HIGHEST", "import_samples", "migrate", "model_of_file"]

_AT_ONCE = 256  # images that are embedded at a time
HIGHEST = 1 << 53  # number of a sample that a file may bring along


def import_samples(store: Store, path: Path | str) -> tuple[int, ...]:
    """Add all samples of a Parquet file, or none; see `Gallery.import_file`."""
    file = GalleryFile(path)
    made: list[int] = []
    with store.changing():
        model = model_of_file(store.settings, file, store.database.path, empty=not len(store.index))
        if model:
            store.change_settings(**model)
        kept = True  # whether samples keep their numbers
        last = store.last_sample
        for batch in file.batches():
            if not made:
                kept = last < batch.samples[0]
            numbers: Sequence[int] = range(last + 1, last + 1 + len(batch.rows))
            if kept:
                numbers = batch.samples
                both = zip([last, *numbers], numbers, strict=False)
                if not all(one < other < HIGHEST for one, other in both):
                    raise DataError(f"{path} is damaged: the numbers of its samples do not rise")
            made += enroll_rows(store, batch.names, batch.rows, samples=numbers, added=batch.added)
            last = made[-1]
        unused = last - store.last_sample - len(made)
        if unused:
            store.change_settings(gone=str(store.settings.gone + unused))
        if len(made) != file.count:
            raise DataError(f"{path} is damaged: {len(made):,} of {file.count:,} samples came")
    return tuple(made)


def model_of_file(
    settings: Settings, file: GalleryFile, path: object, *, empty: bool
) -> dict[str, str]:
    """Settings that a gallery takes from a file: its model, where it has none and is empty.

    Raises `OptionError` unless the file's embeddings are of the gallery's model.
    """
    if file.dim != settings.dim:
        raise OptionError(
            f"{file.path} holds embeddings of {file.dim} numbers, and {path} of {settings.dim}"
        )
    if file.model_digest == settings.model_digest:
        return {}
    if not settings.model_digest and empty:
        return {"model": file.model_name, "digest": file.model_digest}
    theirs, ours = (
        f"of the model {name!r} ({digest[:12]})" if digest else "of no known model"
        for name, digest in (
            (file.model_name, file.model_digest),
            (settings.model_name, settings.model_digest),
        )
    )
    raise OptionError(f"the embeddings in {file.path} are {theirs}, and those in {path} {ours}")


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
