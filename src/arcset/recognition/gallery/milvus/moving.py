"""A gallery in Milvus to a Parquet file, and from one."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.milvus.about import About
from arcset.recognition.gallery.milvus.changing import Changes
from arcset.recognition.gallery.milvus.samples import Samples, check_sources
from arcset.recognition.gallery.milvus.subjects import Person, Subjects
from arcset.recognition.gallery.moving import HIGHEST, model_of_file
from arcset.recognition.gallery.parquet_files import GalleryFile, write_rows
from arcset.recognition.gallery.settings import Settings

__all__ = ["export_samples", "import_samples"]


def export_samples(samples: Samples, subjects: Subjects, settings: Settings, path: Path) -> int:
    """Write all samples of those enrolled; how many."""
    owners = subjects.all_owners()

    def parts() -> Iterator[list[Any]]:
        for part in samples.parts():
            kept = [row for row in part if row["subject"] in owners]
            vectors = samples.vectors(kept).astype("<f4", copy=False)
            yield [
                (
                    owners[row["subject"]].name,
                    row["id"],
                    vector.tobytes(),
                    row["source"],
                    row["digest"],
                    row["added"],
                )
                for row, vector in zip(kept, vectors, strict=True)
            ]

    return write_rows(path, settings, (part for part in parts() if part))


def import_samples(
    changes: Changes, about: About, settings: Settings, path: Path | str, place: object
) -> tuple[int, ...]:
    """Add all samples of a file; their numbers."""
    file = GalleryFile(path)
    model = model_of_file(settings, file, place, empty=not changes.samples.count())
    given = _checked(file, place)
    if not given:
        return ()
    if model:
        about.write(**model)
    kept = changes.sample_numbers.take_given(given[0], given[-1])
    made: list[int] = []
    newcomers: dict[str, Person] = {}
    if not kept:
        changes.sample_numbers.reserve(len(given))
    try:
        for batch in file.batches():
            numbers: Sequence[int] | None = batch.samples if kept else None
            made += changes.write(
                batch.names, batch.rows, newcomers, numbers=numbers, added=batch.added
            )
    except BaseException:
        changes.forget(list(newcomers.values()), made)
        raise
    changes.welcome(newcomers, made)
    return tuple(made)


def _checked(file: GalleryFile, place: object) -> list[int]:
    """Read the whole file once; the numbers of its samples. Raises what is wrong with it."""
    numbers: list[int] = []
    for batch in file.batches():
        numbers += batch.samples
        check_sources(batch.rows)
        if any(row.image is not None for row in batch.rows):
            raise OptionError(
                f"{file.path} holds images, which {place} cannot keep: export it without them"
            )
    if len(numbers) != file.count:
        raise DataError(f"{file.path} is damaged: {len(numbers):,} of {file.count:,} samples came")
    if not all(one < other for one, other in pairwise(numbers)):
        raise DataError(f"{file.path} is damaged: the numbers of its samples do not rise")
    if numbers and not 0 < numbers[0] <= numbers[-1] < HIGHEST:
        raise DataError(f"{file.path} is damaged: the numbers of its samples do not rise")
    return numbers
