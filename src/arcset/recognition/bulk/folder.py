"""Embedding into a folder of shards: resumable, and shared among processes.

The chief lists the inputs. Then every process takes the number of a shard, looks whether it is
there and complete, makes it if not, and takes the next. A shard is written beside its place and
renamed, so that one that is there is complete, whoever was killed when.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice, check_count
from arcset.data.embeddings import (
    INPUTS,
    Manifest,
    check_shard,
    shard_path,
    write_shard,
)
from arcset.data.sources.base import Entry, Source
from arcset.errors import DataError, OptionError
from arcset.recognition.bulk.beginning import begin, check_place, locked
from arcset.recognition.bulk.crew import Crew
from arcset.recognition.bulk.listed import InputList
from arcset.recognition.bulk.models import BulkModel
from arcset.recognition.bulk.pipeline import Rows, chunk_size, embedded
from arcset.recognition.recognizer import Progress
from arcset.text import plural

__all__ = ["FolderResult", "embed_folder"]

_TOLD = 5  # skipped inputs that each process names at the end
_DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class FolderResult:
    """A folder that is complete.

    samples + skipped = manifest.inputs. made: shards that were embedded now, by `processes`.
    first_skipped: path and why of a few.
    """

    folder: Path
    manifest: Manifest
    samples: int
    skipped: int
    made: int
    processes: int
    first_skipped: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        manifest = self.manifest
        count = manifest.identities
        of = "" if count is None else f" of {plural(count, 'identity', 'identities')}"
        new = "" if self.made == manifest.shards else f", {self.made:,} of them new"
        return (
            f"{self.samples:,} embeddings{of}, {manifest.dim}-D, are in {self.folder}: "
            f"{plural(manifest.shards, 'file')}{new}"
        )

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "folder": str(self.folder),
            "samples": self.samples,
            "skipped": self.skipped,
            "inputs": self.manifest.inputs,
            "identities": self.manifest.identities,
            "dim": self.manifest.dim,
            "dtype": self.manifest.dtype,
            "model": self.manifest.model,
            "shards": self.manifest.shards,
            "made": self.made,
            "processes": self.processes,
        }


@dataclass
class _Tally:
    """What one process has done."""

    samples: int = 0
    skipped: int = 0
    made: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)

    def add(self, samples: int, skipped: Any) -> None:
        self.samples += samples
        self.skipped += len(skipped)
        self.first += list(skipped)[: _TOLD - len(self.first)]


def embed_folder(
    folder: Path,
    source: Source,
    model: BulkModel,
    crew: Crew | None = None,
    *,
    shard_size: int | None = None,
    dtype: str = "float32",
    check: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> FolderResult | None:
    """Embed all samples of a source into a folder of Parquet shards, or go on with it.

    crew: the processes that share the work; each calls this with the same arguments. shard_size:
    samples in a shard, by default from their number. dtype: float32, or float16. check: read
    shards that are there completely, not only their ends. force: replace embeddings of another
    model or of other inputs. progress: told by the chief how many samples are done.

    Returns the result to the chief and None to the others. Raises `OptionError` where the folder
    holds something else, and `DataError` where nothing can be embedded; what is complete by then
    stays.
    """
    crew = crew or Crew()
    check_choice("dtype", dtype, _DTYPES)
    if shard_size is not None:
        check_count("shard_size", shard_size)
    with ExitStack() as stack:

        def first() -> dict[str, Any]:
            check_place(folder)
            model.check(source)
            stack.enter_context(locked(folder))
            begun = begin(folder, source, model, shard_size=shard_size, dtype=dtype, force=force)
            return begun.model_dump()

        manifest = Manifest.model_validate(crew.shared(first))
        if model.digest != manifest.digest:
            raise OptionError(f"{folder} is for another model than this process has")
        work = _Work(folder, manifest, source, model, crew, check)
        tally = work.done(_watch(progress, manifest.inputs))
        mine = [tally.samples, tally.skipped, tally.made, tally.first]
        found = crew.gathered(mine, _watch(progress, manifest.inputs))
        return _result(folder, manifest, found) if crew.chief else None


def _watch(progress: Progress | None, total: int) -> Callable[[int], None]:
    def tell(done: int) -> None:
        if progress is not None:
            progress(done, total)

    return tell


def _result(folder: Path, manifest: Manifest, found: list[Any]) -> FolderResult:
    """All tallies together; the manifest says from now on that the folder is complete."""
    samples, skipped, made = (sum(tally[place] for tally in found) for place in range(3))
    there, others = _shards(folder, manifest)
    if samples + skipped != manifest.inputs or there != manifest.shards or others:
        more = f" and {others:,} others" if others else ""
        raise DataError(
            f"{folder} has {there:,} of {manifest.shards:,} shards{more}, and {samples:,} samples "
            f"and {skipped:,} skipped of {manifest.inputs:,} inputs: something else has changed "
            "it; run the same once more"
        )
    first = [(path, why) for tally in found for path, why in tally[3]]
    whole = manifest.model_copy(update={"samples": samples, "skipped": skipped})
    whole.save(folder)
    if not samples:
        path, why = first[0]
        raise DataError(
            f"none of the {manifest.inputs:,} samples of {manifest.source} can be used: {path} "
            f"{why}"
        )
    return FolderResult(folder, whole, samples, skipped, made, len(found), tuple(first[:_TOLD]))


def _shards(folder: Path, manifest: Manifest) -> tuple[int, int]:
    """How many of the shards are there, and how many that are none of them.

    A list of a folder may be some seconds old where other machines write to it, as on NFS: shards
    that are not in it are asked for by their names.
    """
    listed = {path.name for path in folder.glob("shard-*.parquet")}
    wanted = {shard_path(folder, number).name for number in range(manifest.shards)}
    late = sum((folder / name).exists() for name in wanted - listed)
    return len(wanted & listed) + late, len(listed - wanted)


@dataclass
class _Shard:
    """One that is being made: rows come chunk by chunk."""

    number: int
    inputs: int
    embeddings: npt.NDArray[Any]  # (inputs, D), filled from above
    kept: list[Entry] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def add(self, rows: Rows["_Shard"]) -> bool:
        """Whether it is complete now."""
        if rows.embeddings is not None:
            start = len(self.kept)
            with np.errstate(over="ignore"):  # of halves, noticed when they are written
                self.embeddings[start : start + len(rows.kept)] = rows.embeddings
        self.kept += rows.kept
        self.skipped += rows.skipped
        return len(self.kept) + len(self.skipped) == self.inputs


class _Work:
    """The shards that this process makes."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        source: Source,
        model: BulkModel,
        crew: Crew,
        check: bool,
    ) -> None:
        self._folder, self._manifest = folder, manifest
        self._source, self._model, self._crew = source, model, crew
        self._check = check
        self._tally = _Tally()

    def done(self, watch: Callable[[int], None]) -> _Tally:
        """Take shards until there are none."""
        for rows in embedded(self._chunks(watch), self._source, self._model):
            shard = rows.of
            if shard.add(rows):
                self._write(shard)
            watch(self._crew.told(rows.entries))
        return self._tally

    def _chunks(self, watch: Callable[[int], None]) -> Iterator[tuple[_Shard, list[Entry]]]:
        """The inputs of all shards that are missing, some at a time."""
        inputs = InputList(self._folder / INPUTS, self._manifest.listed)
        size = chunk_size(self._model)
        for number in self._crew.numbers(self._manifest.shards):
            places = self._manifest.inputs_of(number)
            try:
                there = check_shard(self._folder, self._manifest, number, full=self._check)
            except DataError:  # missing or damaged
                entries = inputs.entries(places)
                rows = np.empty((len(places), self._model.dim), self._manifest.dtype)
                shard = _Shard(number, len(places), rows)
                for start in range(0, len(places), size):
                    yield shard, entries[start : start + size]
            else:
                self._tally.add(*there)
                watch(self._crew.told(len(places)))

    def _write(self, shard: _Shard) -> None:
        rows = shard.embeddings[: len(shard.kept)]
        if self._manifest.dtype == "float16" and not np.isfinite(rows).all():
            raise DataError(
                f"{self._model.name} gives values beyond ±65,504, which float16 cannot hold: use "
                "float32"
            )
        write_shard(
            self._folder,
            self._manifest,
            shard.number,
            [entry.path for entry in shard.kept],
            [entry.label for entry in shard.kept],
            rows,
            shard.skipped,
        )
        self._tally.add(len(shard.kept), shard.skipped)
        self._tally.made += 1
