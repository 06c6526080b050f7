"""Millions of images: a function for Ray, Spark or process pools, and a folder of shards.

`Embedder` is that function: it can be pickled, and turns a batch into embeddings. `embed_many` is
what `arcset embed` does: of several processes, number `rank` makes `shards[rank::processes]`.
Nothing is exchanged between them. A shard is written under a temporary name and renamed, and one
that is complete is left as it is, so that the same call continues after any kill.
"""

import functools
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from arcset.checks import check_bool, check_choice, check_count
from arcset.data.decode_many import decode_many, in_chunks, reason
from arcset.data.embeddings import (
    OWN,
    EmbeddingSet,
    Manifest,
    check_shard,
    holds_shards,
    read_manifest,
    write_shard,
)
from arcset.data.sources.base import Entry, Source, printable
from arcset.errors import DataError, InputError, OptionError
from arcset.launch import rank_and_size
from arcset.recognition.inputs import SourceImage, image_name
from arcset.recognition.recognizer import NoFaceError, Recognizer, load_model
from arcset.text import plural

if TYPE_CHECKING:
    from arcset.recognition.faces import FaceRecognizer

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]  # how many samples are done, of how many
Item = TypeVar("Item")

_COUNTED = 100_000  # identities that are told apart, at most
_NAMED = 5  # skipped samples that a result names


class Embedder:
    """A model as a picklable function: a batch of images in, their embeddings out.

        embedder = arcset.Embedder("model.onnx")
        embedder(["a.jpg", "b.jpg"])                          # (2, D) float32, unit rows

        dataset.map_batches(                                  # Ray Data
            arcset.Embedder, fn_constructor_args=["model.onnx"], concurrency=4, batch_size=256
        )

    Each process that calls it loads the model once, when the first batch comes.

    A batch is a sequence of images: paths, the bytes of files, PIL images, uint8 arrays (H, W) or
    (H, W, C); or vectors (F,), where the model takes them. Or it is a table: a dict of columns, a
    pandas DataFrame, a pyarrow Table or RecordBatch. Then a table of the same kind comes back, with
    one column more.

    Parameters:
        model: the folder of a run, or an ONNX file, under a path that all workers can see.
        faces: "auto", or the file of a detector: embed the main face of each photo.
        device: auto, cpu, cuda or mps.
        column: the column of a table that holds the images. output: the column that is added.
        errors: "raise" a `DataError` for an image that cannot be read; or "coerce", as in pandas:
            its embedding is NaN, and tables get a column `error` that says why, or is empty.
        normalize: whether embeddings have length 1; if not, they are as the network gives them.
    """

    def __init__(
        self,
        model: Path | str,
        *,
        faces: str | None = None,
        device: str = "auto",
        column: str = "path",
        output: str = "embedding",
        errors: str = "raise",
        normalize: bool = True,
    ) -> None:
        self.model, self.faces, self.device = Path(model), faces, device
        self.column, self.output = column, output
        self.errors = check_choice("errors", errors, ("raise", "coerce"))
        self.normalize = check_bool("normalize", normalize)
        self._token = secrets.token_hex(8)  # pickled, too: copies in one process share a model

    @property
    def recognizer(self) -> "Recognizer | FaceRecognizer":
        """The model, loaded now if this process has not loaded it yet."""
        return _load(os.getpid(), self._token, self.model, self.faces, self.device)

    def __call__(self, batch: Any) -> Any:
        """Embeddings (N, D) of a sequence; or a table with these as a further column."""
        is_table = isinstance(batch, Mapping) or hasattr(batch, "columns")
        if not is_table:
            return self._embed_all([batch] if isinstance(batch, str | Path | bytes) else batch)[0]
        try:
            values = batch[self.column]
        except KeyError:
            names = list(getattr(batch, "column_names", batch))
            raise OptionError(
                f"the batch has no column {self.column!r}, but {', '.join(map(repr, names))}: name "
                "another one with column=…"
            ) from None
        rows, why = self._embed_all(values.to_pylist() if hasattr(values, "to_pylist") else values)
        return _add_columns(batch, self.output, rows, why if self.errors == "coerce" else None)

    def _embed_all(self, images: Iterable[Any]) -> tuple[Rows, list[str]]:
        """(N, D), and of each image why it could not be read, or nothing."""
        images = list(images)
        rows = np.full((len(images), self.recognizer.dim), np.nan, np.float32)
        why = [""] * len(images)
        outcomes = _embed_chunks(in_chunks(images, self.chunk_size), self.read, self.embed)
        for number, (image, outcome) in enumerate(outcomes):
            if isinstance(outcome, np.ndarray):
                rows[number] = outcome
            elif self.errors == "raise":
                raise outcome
            else:
                why[number] = reason(outcome, image if isinstance(image, str) else "")
        return rows, why

    def read(self, image: Any) -> Array:
        """One image as the network takes it; called from several threads at once.

        Raises `DataError` or `InputError` where it cannot be read, or shows no face.
        """
        prepared = self.recognizer._prepare(image, 1)
        if prepared.why:
            raise NoFaceError(f"{image_name(image, 'the photo')} {prepared.why}")
        return prepared.samples[0]

    def embed(self, samples: Array) -> Rows:
        """What `read` gave of several images (N, …), to (N, D)."""
        recognizer = self.recognizer
        if self.normalize or not isinstance(recognizer, Recognizer):
            return recognizer._embed(samples)
        return recognizer._embed_raw(samples)

    @property
    def chunk_size(self) -> int:
        """How many images go through the network together: always as many, so that a shard is the
        same whichever process makes it."""
        return self.recognizer._chunk

    def check(self, source: Source) -> None:
        """Raise `OptionError` where the samples of a source are nothing that the model takes."""
        recognizer = self.recognizer
        shape = recognizer.model.shape if isinstance(recognizer, Recognizer) else None
        takes_images = shape is None or len(shape) == 3
        if source.shape != shape if source.features else not takes_images:
            wanted = "photos" if shape is None else f"samples of shape {shape}"
            given = f"features of shape {source.shape}" if source.features else "images"
            raise OptionError(f"{recognizer.name} takes {wanted}, and {source.name} holds {given}")


@functools.lru_cache(maxsize=8)
def _load(
    process: int, token: str, model: Path, faces: str | None, device: str
) -> "Recognizer | FaceRecognizer":
    """process: a forked one must not use what its parent has loaded."""
    return load_model(model, faces, device=device)


def _embed_chunks(
    chunks: Iterable[Sequence[Item]],
    read: Callable[[Item], Array],
    embed: Callable[[Array], Rows],
) -> Iterator[tuple[Item, Rows | DataError | InputError]]:
    """Every item with its embedding (D,), or with why it cannot be read.

    A chunk goes through the network together; meanwhile threads read the next one.
    """
    for outcomes in decode_many(chunks, read):
        samples = [sample for _, sample in outcomes if isinstance(sample, np.ndarray)]
        rows = iter(embed(np.stack(samples)) if samples else ())
        for item, sample in outcomes:
            yield item, next(rows) if isinstance(sample, np.ndarray) else sample


def _add_columns(batch: Any, name: str, rows: Rows, why: list[str] | None) -> Any:
    if isinstance(batch, Mapping):
        return {**batch, name: rows, **({} if why is None else {"error": np.array(why, object)})}
    if hasattr(batch, "assign"):  # pandas
        return batch.assign(**{name: list(rows)}, **({} if why is None else {"error": why}))
    import pyarrow as arrow

    column = arrow.FixedSizeListArray.from_arrays(arrow.array(rows.reshape(-1)), rows.shape[1])
    batch = batch.append_column(name, column)
    return batch if why is None else batch.append_column("error", arrow.array(why, arrow.string()))


@dataclass(frozen=True)
class FolderResult:
    """What a process knows of a folder when it has made its share of the shards.

    made: how many shards it has made now. processes: how many share the work.
    samples, skipped: of the whole folder, samples + skipped = manifest.inputs; None while other
    processes are still at work. first_skipped: path and reason of a few.
    """

    folder: Path
    manifest: Manifest
    made: int
    processes: int
    samples: int | None = None
    skipped: int | None = None
    first_skipped: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        manifest = self.manifest
        files = plural(manifest.shards, "file")
        if self.samples is None:
            return f"{self.made:,} of {files} made; {self.folder} is not complete yet"
        count = manifest.identities
        of = "" if count is None else f" of {plural(count, 'identity', 'identities')}"
        new = "" if self.made == manifest.shards else f", {self.made:,} of them new"
        if self.processes > 1:
            new = f", by {self.processes} processes"
        embeddings, verb = plural(self.samples, "embedding"), "is" if self.samples == 1 else "are"
        return f"{embeddings}{of}, {manifest.dim}-D, {verb} in {self.folder}: {files}{new}"

    def json(self) -> dict[str, Any]:
        """Plain values."""
        about = self.manifest.model_dump(
            include={"inputs", "identities", "dim", "dtype", "model"}, mode="json"
        )
        return {
            "folder": str(self.folder),
            "samples": self.samples,
            "skipped": self.skipped,
            **about,
            "shards": self.manifest.shards,
            "made": self.made,
            "processes": self.processes,
        }


def embed_many(
    folder: Path,
    source: Source,
    embedder: Embedder,
    *,
    shard_size: int | None = None,
    dtype: str = "float32",
    check: bool = False,
    force: bool = False,
    rank: int | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> FolderResult:
    """Embed all samples of a source into a folder of Parquet shards, or continue to.

    shard_size: samples per shard; by default from their number. dtype: float32, or float16.
    check: read all of the shards that are there, and not only their ends. force: replace embeddings
    of another model or of other inputs. rank, processes: which of how many processes this is, each
    of which makes this call with the same arguments; from the environment if left out. progress:
    called with how many samples of this process's share are done.

    Raises `OptionError` where the folder holds something else, and `DataError` where no sample can
    be embedded; the shards that are complete by then stay.
    """
    began = time.time()
    check_choice("dtype", dtype, ("float32", "float16"))
    if shard_size is not None:
        check_count("shard_size", shard_size)
    if rank is None or processes is None:
        rank, processes = rank_and_size()
    _check_folder(folder)
    embedder.check(source)
    manifest = _begin(folder, _describe(source, embedder, dtype), shard_size, force)
    _clean(folder, manifest, rank, processes)
    share = range(rank, manifest.shards, processes)
    count = _Count(progress, sum(len(manifest.inputs_of(number)) for number in share))
    missing = _missing_shards(folder, source, manifest, share, check, count)
    made = 0
    for shard in _embed_shards(missing, source, embedder, count):
        with np.errstate(over="ignore"):
            rows = np.array(shard.rows, dtype).reshape(-1, manifest.dim)
        if not np.isfinite(rows).all():
            raise DataError(
                f"{manifest.model} gives values beyond ±65,504, which float16 cannot hold: use "
                "float32"
            )
        paths = [entry.path for entry in shard.embedded]
        labels = [entry.label for entry in shard.embedded]
        write_shard(folder, manifest, shard.number, paths, labels, rows, shard.skipped, shard.stamp)
        made += 1
    for part in (folder / OWN).glob(".manifest*.part"):  # of a process that was killed before
        with suppress(FileNotFoundError):  # another process of this call was faster
            if part.stat().st_mtime < began:
                part.unlink()
    return _finish(folder, manifest, made, processes)


def embed_in_memory(
    source: Source, embedder: Embedder, *, progress: Progress | None = None
) -> tuple[EmbeddingSet, list[tuple[str, str]]]:
    """The embeddings of all samples that can be read; and path and reason of the others.

    Raises `DataError` where none can be, and `OptionError` where the model takes other samples.
    """
    embedder.check(source)
    whole = _Shard(0, list(source.entries()))
    for _ in _embed_shards([whole], source, embedder, _Count(progress, len(whole.entries))):
        pass
    if not whole.embedded:
        raise _none_usable(source.name, len(whole.entries), whole.skipped[0])
    paths = [entry.path for entry in whole.embedded if entry.path is not None]
    return EmbeddingSet.of(
        np.stack(whole.rows),
        [entry.label for entry in whole.embedded],
        paths if len(paths) == len(whole.embedded) else None,
        _trained_on(embedder),
    ), whole.skipped


def default_shard_size(inputs: int) -> int:
    """So many that there are about a thousand shards to share out, within bounds.

    >>> [default_shard_size(inputs) for inputs in (100, 1_000_000, 50_000_000)]
    [256, 977, 10000]
    """
    return min(10_000, max(256, -(-inputs // 1024)))


@dataclass
class _Shard:
    """Samples that are written together; what is known of them comes chunk by chunk."""

    number: int
    entries: Sequence[Entry]
    stamp: str = ""
    embedded: list[Entry] = field(default_factory=list)
    rows: list[Rows] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class _Count:
    """How many samples of how many are done."""

    progress: Progress | None
    total: int
    done: int = 0

    def add(self, more: int) -> None:
        self.done += more
        if self.progress is not None:
            self.progress(self.done, self.total)


def _embed_shards(
    shards: Iterable[_Shard], source: Source, embedder: Embedder, count: _Count
) -> Iterator[_Shard]:
    """Each shard when its samples are embedded; a chunk is of one shard."""
    recognizer = embedder.recognizer
    is_ready = source.features or (  # arrays as the network takes them
        source.inverted is None
        and isinstance(recognizer, Recognizer)
        and source.shape == tuple(recognizer.model.shape)
    )

    def read(item: tuple[_Shard, Entry]) -> Array:
        entry = item[1]
        if entry.why:
            raise DataError(entry.why)
        if is_ready:
            return np.asarray(source.content(entry), np.float32 if source.features else np.uint8)
        return embedder.read(SourceImage(source, entry))

    chunks = (
        [(shard, entry) for entry in chunk]
        for shard in shards
        for chunk in in_chunks(shard.entries, embedder.chunk_size)
    )
    for (shard, entry), outcome in _embed_chunks(chunks, read, embedder.embed):
        if isinstance(outcome, np.ndarray):
            shard.embedded.append(entry)
            shard.rows.append(outcome)
        else:
            name = entry.path or f"sample {entry.record}"
            shard.skipped.append((name, reason(outcome, name)))
        count.add(1)
        if len(shard.embedded) + len(shard.skipped) == len(shard.entries):
            yield shard


def _missing_shards(
    folder: Path,
    source: Source,
    manifest: Manifest,
    share: range,
    check: bool,
    count: _Count,
) -> Iterator[_Shard]:
    """Of a share of the shards, those that are missing, damaged, or of files that have changed."""
    entries = source.entries()
    for number in range(manifest.shards):
        inputs = list(islice(entries, manifest.shard_size))
        if len(inputs) != len(manifest.inputs_of(number)):
            raise DataError(f"{source.name} has changed meanwhile: run the same command again")
        if number not in share:
            continue
        stamp = _stamp(source, inputs)
        try:
            check_shard(folder, manifest, number, full=check, stamp=stamp)
        except DataError:
            yield _Shard(number, inputs, stamp)
        else:
            count.add(len(inputs))


def _stamp(source: Source, entries: Sequence[Entry]) -> str:
    """Changes with the size of any of the files; looked at by threads, as folders may be remote."""
    with ThreadPoolExecutor(16) as pool:
        sizes = [list(part) for part in pool.map(source.stamp, in_chunks(entries, 256))]
    return hashlib.sha256(repr(sizes).encode()).hexdigest()


def _describe(source: Source, embedder: Embedder, dtype: str) -> Manifest:
    """The manifest of a new folder, its size of a shard yet to be chosen."""
    listed = hashlib.sha256(f"{source.kind}\n{source.stamp_of_all()}\n".encode())
    count = 0
    identities: set[str] | None = set()
    for entry in source.entries():
        path = "\1" if entry.path is None else entry.path
        line = "\0".join((path, entry.label, entry.file, str(entry.record), entry.why))
        listed.update(line.encode("utf-8", "surrogateescape") + b"\n")
        count += 1
        if identities is not None and not entry.why:
            identities.add(entry.label)
            identities = identities if len(identities) <= _COUNTED else None
    if not count:
        raise DataError(f"{source.name} holds nothing to embed")
    recognizer = embedder.recognizer
    return Manifest(
        model=printable(recognizer.name),
        digest=recognizer.digest,
        dim=recognizer.dim,
        unit=embedder.normalize,
        source=printable(source.name),
        kind=source.kind,
        inputs=count,
        listed=listed.hexdigest(),
        identities=None if identities is None else len(identities),
        shard_size=default_shard_size(count),
        dtype=dtype,  # type: ignore[arg-type]
        trained_on=_trained_on(embedder),
    )


def _trained_on(embedder: Embedder) -> tuple[str, ...] | None:
    """The identities that training knew, so that evaluating them is noticed."""
    if embedder.faces in (None, "none") and embedder.model.is_dir():
        from arcset.runs import Run  # brings torch, which ONNX files do without

        return Run.open(embedder.model).config.class_names
    return None


def _check_folder(folder: Path) -> None:
    """Raise `OptionError` for a file, and for a folder with anything else than embeddings."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file: name a folder for the shards")
    if folder.is_dir() and not holds_shards(folder):
        others = [entry.name for entry in folder.iterdir() if entry.name != OWN]
        if others:
            raise OptionError(f"{folder} holds {min(others)}, and no embeddings: name a new folder")


def _begin(folder: Path, wanted: Manifest, shard_size: int | None, force: bool) -> Manifest:
    """Write the manifest; or find that the folder was begun with the same, and leave it."""
    known = None
    if holds_shards(folder):
        try:
            known = read_manifest(folder)
        except DataError as error:
            if not force:
                raise DataError(
                    f"{error}; begin anew with --force, or name another folder"
                ) from None
    size = shard_size or (wanted if known is None else known).shard_size
    wanted = wanted.model_copy(update={"shard_size": size})
    if known is None or known.identity != wanted.identity:
        if known is not None and not force:
            raise OptionError(
                f"{folder} {_difference(known, wanted)}: name another folder, or replace them with "
                "--force"
            )
        wanted.save(folder)
    return wanted


def _difference(known: Manifest, wanted: Manifest) -> str:
    """What the two were made of and differ in first."""

    def facts(one: Manifest) -> list[tuple[object, str]]:
        return [
            ((one.digest, one.dim), f"the model {one.model} ({one.digest[:12]})"),
            (one.unit, "embeddings of length 1" if one.unit else "embeddings of any length"),
            (
                (one.inputs, one.listed),
                f"{one.inputs:,} inputs of {one.source} ({one.listed[:12]})",
            ),
            (one.shard_size, f"shards of {one.shard_size:,}"),
            (one.dtype, one.dtype),
        ]

    pairs = zip(facts(known), facts(wanted), strict=True)
    before, now = next((one[1], other[1]) for one, other in pairs if one[0] != other[0])
    return f"was begun with {before}, and not with {now}"


def _clean(folder: Path, manifest: Manifest, rank: int, processes: int) -> None:
    """Remove shards past the last one, and what a killed process left of this process's shards."""
    for path in (*folder.glob("*shard-*"), *(folder / OWN).glob("*skipped-*")):
        number = path.name.partition("-")[2].partition(".")[0]
        is_surplus = not number.isdigit() or int(number) >= manifest.shards
        if is_surplus or (path.suffix == ".part" and int(number) % processes == rank):
            path.unlink(missing_ok=True)


def _finish(folder: Path, manifest: Manifest, made: int, processes: int) -> FolderResult:
    """The process that finds all shards complete writes down that the folder is."""
    samples = 0
    skipped: list[tuple[str, str]] = []
    count = 0
    for number in range(manifest.shards):
        try:
            rows, missing = check_shard(folder, manifest, number)
        except DataError:
            if processes == 1:
                raise
            return FolderResult(folder, manifest, made, processes)
        samples += rows
        count += len(missing)
        skipped += missing[: _NAMED - len(skipped)]
    whole = manifest.model_copy(update={"samples": samples, "skipped": count})
    whole.save(folder)
    if not samples:
        raise _none_usable(manifest.source, manifest.inputs, skipped[0])
    return FolderResult(folder, whole, made, processes, samples, count, tuple(skipped))


def _none_usable(source: str, count: int, first: tuple[str, str]) -> DataError:
    path, why = first
    return DataError(f"none of the {count:,} samples of {source} can be used: {path} {why}")
