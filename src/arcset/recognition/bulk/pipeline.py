"""Samples to rows: threads prepare the next chunk while the network embeds the present one."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from arcset.data.own.streams import Entry
from arcset.errors import DataError, InputError
from arcset.recognition.bulk.models import BulkModel
from arcset.recognition.bulk.sources import Source

__all__ = ["Rows", "chunk_size", "embedded"]

_BYTES, _MOST = 1 << 24, 512  # of prepared samples that go through the network together
_MOST_THREADS = 16

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
    threads = _threads()

    def prepare(entries: Sequence[Entry]) -> list[npt.NDArray[Any] | str]:
        return [_prepared(entry, source, model) for entry in entries]

    with ThreadPoolExecutor(threads, "prepare") as pool:
        waiting: tuple[Of, Sequence[Entry], list[Future[Any]]] | None = None
        for of, entries in chunks:
            # In pieces, so that all threads end at about the same time.
            size = max(1, -(-len(entries) // (4 * threads)))
            pieces = [entries[start : start + size] for start in range(0, len(entries), size)]
            ahead = of, entries, [pool.submit(prepare, piece) for piece in pieces]
            if waiting is not None:
                yield _rows(*waiting, model)
            waiting = ahead
        if waiting is not None:
            yield _rows(*waiting, model)


def _prepared(entry: Entry, source: Source, model: BulkModel) -> npt.NDArray[Any] | str:
    """The sample as the network takes it, or why there is none."""
    if entry.why:
        return entry.why
    name = _called(entry)
    try:
        return model.prepare(source.content(entry), name, source.inverted)
    except (DataError, InputError) as error:
        return str(error).removeprefix(name).lstrip(" :") or str(error)


def _called(entry: Entry) -> str:
    return entry.path or f"sample {entry.record}"


def _rows(of: Of, entries: Sequence[Entry], work: list[Future[Any]], model: BulkModel) -> Rows[Of]:
    rows = Rows(of)
    arrays = []
    outcomes = (outcome for piece in work for outcome in piece.result())
    for entry, outcome in zip(entries, outcomes, strict=True):
        if isinstance(outcome, str):
            rows.skipped.append((_called(entry), outcome))
        else:
            rows.kept.append(entry)
            arrays.append(outcome)
    if arrays:
        rows.embeddings = model.embed(np.stack(arrays))
    return rows


def _threads() -> int:
    """This process's share of the processors, and one more that waits for the disk."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # processes on this machine
    return min(max(1, cores // here) + 1, _MOST_THREADS)
