"""A whole source embedded into memory, for those that fit there."""

from collections.abc import Iterator

import numpy as np

from arcset.data.embeddings import EmbeddingSet
from arcset.data.sources.base import Entry, Source
from arcset.errors import DataError
from arcset.recognition.bulk.models import BulkModel
from arcset.recognition.bulk.pipeline import chunk_size, embedded
from arcset.recognition.recognizer import Progress

__all__ = ["embed_source"]


def embed_source(
    source: Source, model: BulkModel, *, progress: Progress | None = None
) -> tuple[EmbeddingSet, list[tuple[str, str]]]:
    """The embeddings of all samples that can be read; and path and why of the others.

    Raises `DataError` where none can be, and `OptionError` where the model takes other samples.
    """
    model.check(source)
    entries = list(source.entries())
    size = chunk_size(model)

    def chunks() -> Iterator[tuple[None, list[Entry]]]:
        for start in range(0, len(entries), size):
            yield None, entries[start : start + size]

    parts, kept, skipped = [], list[Entry](), list[tuple[str, str]]()
    for rows in embedded(chunks(), source, model):
        if rows.embeddings is not None:
            parts.append(rows.embeddings)
        kept += rows.kept
        skipped += rows.skipped
        if progress is not None:
            progress(len(kept) + len(skipped), len(entries))
    if not parts:
        path, why = skipped[0]
        raise DataError(
            f"none of the {len(entries):,} samples of {source.name} can be used: {path} {why}"
        )
    paths = [entry.path for entry in kept if entry.path is not None]
    return EmbeddingSet.of(
        np.concatenate(parts),
        [entry.label for entry in kept],
        paths if len(paths) == len(kept) else None,
        model.trained_on,
    ), skipped
