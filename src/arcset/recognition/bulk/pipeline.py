"""Samples to rows: threads prepare the next chunk while the network embeds the present one."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from arcset.data.decode import decode_many, reason
from arcset.data.sources.base import Entry, Source
from arcset.errors import DataError
from arcset.recognition.bulk.models import BulkModel

__all__ = ["Rows", "chunk_size", "embedded"]

_BYTES, _MOST = 1 << 24, 512  # of prepared samples that go through the network together

Of = TypeVar("Of")


@dataclass
class Rows(Generic[Of]):
    """What became of a chunk of entries.

    of: whatever the chunk was handed in with. kept: those of `embeddings`, (n, D), row by row.
    skipped: path and why of the others.
    """

    of: Of
    kept: list[Entry] = field(default_factory=list)
    embeddings: npt.NDArray[np.float32] | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)

    @property
    def entries(self) -> int:
        """How many the chunk had."""
        return len(self.kept) + len(self.skipped)


def chunk_size(model: BulkModel) -> int:
    """How many samples go through the network together: fixed, so that rows are reproducible."""
    return max(1, min(_MOST, _BYTES // model.largest))


def embedded(
    chunks: Iterable[tuple[Of, Sequence[Entry]]], source: Source, model: BulkModel
) -> Iterator[Rows[Of]]:
    """Every chunk in its turn; one chunk is prepared ahead, and no more."""
    waiting: deque[Of] = deque()

    def entries_only() -> Iterator[Sequence[Entry]]:
        for of, entries in chunks:
            waiting.append(of)
            yield entries

    def prepare(entry: Entry) -> npt.NDArray[Any]:
        if entry.why:
            raise DataError(entry.why)
        return model.prepare(source.content(entry), _called(entry), source.inverted)

    for outcomes in decode_many(entries_only(), prepare):
        yield _rows(waiting.popleft(), outcomes, model)


def _called(entry: Entry) -> str:
    return entry.path or f"sample {entry.record}"


def _rows(
    of: Of,
    outcomes: Sequence[tuple[Entry, npt.NDArray[Any] | Exception]],
    model: BulkModel,
) -> Rows[Of]:
    rows = Rows(of)
    arrays = []
    for entry, outcome in outcomes:
        if isinstance(outcome, Exception):
            rows.skipped.append((_called(entry), reason(outcome, _called(entry))))
        else:
            rows.kept.append(entry)
            arrays.append(outcome)
    if arrays:
        rows.embeddings = model.embed(np.stack(arrays))
    return rows
