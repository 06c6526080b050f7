"""Embeddings of labelled samples: in memory, in a file, and in a folder of many files.

Parquet: one row per sample with the columns `embedding` (a list of numbers), `label` (text or whole
numbers) and, where known, `path`. npz: the arrays `embeddings` (N, D), `labels` (N,) and, where
known, `paths` (N,). Files of any other tool are read, and nothing is unpickled. Files that arcset
writes also name the identities that the embedding was trained on (`trained_on`), so that evaluating
these is noticed.

A folder of Parquet files, its shards, is what `arcset embed` writes for many samples:

FOLDER/  shard-00000.parquet, …      path, label and embedding of the samples, in order
         _arcset/manifest.json       which model, which inputs, how many to a shard: `Manifest`
         _arcset/skipped-00000.json  what of a shard's inputs could not be read, and why

Tools that read a folder of Parquet files pass over names that begin with an underscore. Which
inputs are in a shard follows from their order and the size of a shard alone.
"""

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from arcset.data.dataset import number_names
from arcset.data.sources.arrays import Columns, read_npz, read_texts
from arcset.data.sources.base import cell_text, kind_of
from arcset.data.sources.table import find_columns, read_table_column
from arcset.errors import DataError, InputError, OptionError
from arcset.files import parse_json, read_json, reading, replacing, write_text

SUFFIXES = (".npz", ".parquet")
_TRAINED_ON_KEY = b"arcset.trained_on"
GROUP = "group"  # of an identity: its name before the first "/"
OWN = "_arcset"  # the folder within for all that is no shard
MANIFEST = f"{OWN}/manifest.json"
_SHARD_KEY = b"arcset.shard"
_ROWS = 1 << 14  # in a row group: what the Parquet writer holds at a time

Skipped = Sequence[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class EmbeddingSet:
    """Embeddings (N, D) of labelled samples.

    labels (N,) number the samples' identities as they stand in `class_names`, which are sorted as
    text, so that two files about the same identities number them alike. paths: where the samples
    came from, or None. trained_on: identities that training knew, or None where that is not known.
    columns: what else is known of each sample, by name, such as its country; see `with_columns`.
    """

    embeddings: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None = None
    trained_on: tuple[str, ...] | None = None
    columns: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        embeddings: npt.NDArray[Any],
        names: Sequence[object],
        paths: Sequence[str] | None = None,
        trained_on: Sequence[str] | None = None,
    ) -> "EmbeddingSet":
        """From one name of an identity per row.

        >>> found = EmbeddingSet.of(np.eye(3), ["b", "a", "b"])
        >>> found.class_names, found.labels.tolist()
        (('a', 'b'), [1, 0, 1])
        """
        matrix = np.asarray(embeddings)
        if matrix.dtype.kind in "iu":
            matrix = matrix.astype(np.float64)
        if matrix.ndim != 2 or matrix.dtype.kind != "f" or 0 in matrix.shape:
            raise InputError(
                f"embeddings have shape {matrix.shape} and type {matrix.dtype}, expected real"
                " numbers in rows, (N, D)"
            )
        for what, items in (("labels", names), ("paths", paths)):
            if items is not None and len(items) != len(matrix):
                raise InputError(f"there are {len(matrix)} embeddings, but {len(items)} {what}")
        class_names, labels = number_names([str(name) for name in names])
        return cls(
            matrix,
            labels,
            class_names,
            None if paths is None else tuple(paths),
            None if trained_on is None else tuple(trained_on),
        )

    def __len__(self) -> int:
        return len(self.embeddings)

    def as_halves(self) -> "EmbeddingSet":
        """In float16, of half the size; raises `DataError` for values beyond its range."""
        with np.errstate(over="ignore"):
            halves = self.embeddings.astype(np.float16)
        if not np.isfinite(halves).all():
            raise DataError("the model gives values beyond ±65,504, which float16 cannot hold")
        return replace(self, embeddings=halves)

    @property
    def names(self) -> npt.NDArray[np.str_]:
        """The identity of each row, as text (N,)."""
        return np.array(self.class_names)[self.labels]

    def keep(self, identities: Sequence[str]) -> "EmbeddingSet":
        """The rows of some identities only; raises `InputError` if none of them is here."""
        mask = np.isin(self.names, list(identities))
        if not mask.any():
            raise InputError(f"none of the {len(identities)} identities asked for is among these")
        paths = None if self.paths is None else list(compress(self.paths, mask))
        kept = EmbeddingSet.of(
            self.embeddings[mask], self.names[mask].tolist(), paths, self.trained_on
        )
        return replace(kept, columns={name: each[mask] for name, each in self.columns.items()})


def write_embeddings(path: Path | str, content: EmbeddingSet) -> None:
    """Write a Parquet or npz file, as the name says; raises `OptionError` for another suffix."""
    from pyarrow import parquet

    path = Path(path)
    _check_suffix(path)
    with replacing(path) as part:
        if path.suffix == ".npz":
            arrays = {"embeddings": content.embeddings, "labels": content.names}
            if content.paths is not None:
                arrays["paths"] = np.array(content.paths)
            if content.trained_on is not None:
                arrays["trained_on"] = np.array(content.trained_on)
            with part.open("wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
        else:
            paths = content.paths or [None] * len(content)
            table = _as_table(paths, content.names.tolist(), content.embeddings)
            if content.trained_on is not None:
                known = json.dumps(content.trained_on).encode()
                table = table.replace_schema_metadata({_TRAINED_ON_KEY: known})
            parquet.write_table(table, part)


def holds_embeddings(path: Path | str) -> bool:
    """Whether this is a file of embeddings, or a folder that `arcset embed` wrote.

    A Parquet or npz file is one unless it holds images, or a table of them; so is one that cannot
    be read, of which `read_embeddings` then says why.

    >>> holds_embeddings("faces.parquet"), holds_embeddings("faces.csv")
    (True, False)
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES or path.is_dir():
        return holds_shards(path)
    return not _holds_images(path)


def _holds_images(path: Path) -> bool:
    """Whether an npz file has an array of images; a Parquet file paths, and no lists of numbers."""
    from pyarrow import ArrowException, parquet, types

    try:
        if path.suffix.lower() == ".npz":
            with zipfile.ZipFile(path) as file:
                return "images.npy" in file.namelist()
        schema = parquet.read_schema(path)
    except (OSError, zipfile.BadZipFile, ArrowException):
        return False
    columns = find_columns(schema.names, [], ["path", "embeddings"], path)
    if "embeddings" in columns:
        numbers = schema.field(columns["embeddings"]).type
        return not (types.is_list(numbers) or types.is_fixed_size_list(numbers))
    return "path" in columns


def read_embeddings(path: Path | str) -> EmbeddingSet:
    """Read embeddings from a Parquet or npz file of any tool, or a folder of `arcset embed`.

    The names `embeddings` and `labels` are looked for first, then those that others use, such as
    features and y. Halves (float16) become float32. Raises `DataError` for a file that is missing,
    damaged, or lacks one of them, for a folder that is not complete, and `OptionError` for another
    suffix.
    """
    path = Path(path)
    if holds_shards(path):
        return _read_folder(path)
    _check_suffix(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    columns = (read_npz if path.suffix == ".npz" else _read_parquet)(
        path, ["embeddings", "label"], ["path", "trained_on"]
    )
    embeddings = np.atleast_1d(columns["embeddings"])
    names, paths, _ = read_texts(columns, len(embeddings), path)
    if embeddings.dtype == np.float16:  # too coarse to compute with, and slow
        embeddings = embeddings.astype(np.float32)
    known = np.ravel(columns["trained_on"]).tolist() if "trained_on" in columns else None
    try:
        return EmbeddingSet.of(embeddings, names, paths, known)
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def with_columns(content: EmbeddingSet, source: Path | str, wanted: Sequence[str]) -> EmbeddingSet:
    """The same with columns of what they come from, to group the samples by.

    A file of embeddings has them in further columns or arrays (N,); a table of images in further
    columns, found by path. Where identities are called GROUP/NAME, `group` is the part before the
    first "/", as in `arcset data split --by group`, unless there is such a column. What is missing
    is the group "(none)". Raises `OptionError` that lists the columns there are for another name.
    """
    columns = dict(content.columns)
    for name in wanted:
        try:
            cells = _read_cells(content, Path(source), name)
        except OptionError:
            if name != GROUP or not all("/" in one for one in content.class_names):
                raise
            cells = [one.partition("/")[0] for one in content.names.tolist()]
        columns[name] = np.array([cell or "(none)" for cell in cells])
    return replace(content, columns=columns)


def _read_cells(content: EmbeddingSet, path: Path, name: str) -> list[str]:
    """A column, for each of the embeddings."""
    if path.is_file() and holds_embeddings(path):
        read = read_npz if path.suffix == ".npz" else _read_parquet
        array = read(path, [], [], [name])[name]
        if array.shape != (len(content),):
            raise DataError(f"{path}: {name} has shape {array.shape}, expected ({len(content)},)")
        return [cell_text(cell) for cell in array.tolist()]
    if path.is_file() and kind_of(path) == "table":
        by_path = read_table_column(path, name)
        return [by_path.get(each, "") for each in content.paths or [""] * len(content)]
    raise OptionError(
        f"there is no {name!r} to group by: {path} has no columns, and of its identities not all "
        "are called GROUP/NAME"
    )


def _check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise OptionError(f"{path} is neither .npz nor .parquet, the files that hold embeddings")


def _read_parquet(
    path: Path, required: Sequence[str], optional: Sequence[str], further: Sequence[str] = ()
) -> Columns:
    """As `read_npz`."""
    import pyarrow as arrow
    from pyarrow import parquet

    with reading(path, "Parquet file"):
        schema = parquet.read_schema(path)
        names = find_columns(schema.names, required, optional, path, further)
        table = parquet.read_table(path, columns=list(names.values()))
        columns: Columns = {}
        for what, name in names.items():
            column = table[name].combine_chunks()
            if arrow.types.is_list(column.type) or arrow.types.is_fixed_size_list(column.type):
                columns[what] = _matrix(column, len(table), f"{path}: column {name}")
            else:
                columns[what] = np.array(column.to_pylist())
        known = (schema.metadata or {}).get(_TRAINED_ON_KEY)
        if known is not None:
            columns["trained_on"] = np.array([str(name) for name in parse_json(known)])
        return columns


def _matrix(column: Any, rows: int, what: str) -> npt.NDArray[Any]:
    lengths = set(column.value_lengths().to_pylist())
    if column.null_count or len(lengths) != 1:
        raise DataError(f"{what} does not hold equally many numbers in every row")
    matrix: npt.NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False).reshape(rows, -1)
    return matrix


def _as_table(
    paths: Sequence[str | None], labels: Sequence[str], embeddings: npt.NDArray[Any]
) -> Any:
    """The columns path, label and embedding, as Arrow has them."""
    import pyarrow as arrow

    flat = arrow.array(np.ascontiguousarray(embeddings).reshape(-1))
    columns = [
        arrow.array(paths, arrow.string()),
        arrow.array(labels, arrow.string()),
        arrow.FixedSizeListArray.from_arrays(flat, embeddings.shape[1]),
    ]
    return arrow.table(columns, names=["path", "label", "embedding"])


class Manifest(BaseModel):
    """What a folder is of.

    model, digest, dim: name of the model, what it computes in 64 digits, and D.
    unit: whether the embeddings have length 1; those of a run keep their own.
    source, kind: what the inputs came from, and what that is, in words.
    inputs, listed: how many there are, and a digest of their list in 64 digits.
    identities: how many these are of; None where there were too many to be counted.
    shard_size: inputs in each shard but the last.
    trained_on: the identities that training knew, or None where that is not known.
    samples, skipped: how many could be embedded, and how many not; None before the end.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    model: str
    digest: str
    dim: int = Field(ge=1)
    unit: bool
    source: str
    kind: str
    inputs: int = Field(ge=1)
    listed: str
    identities: int | None
    shard_size: int = Field(ge=1)
    dtype: Literal["float32", "float16"] = "float32"
    trained_on: tuple[str, ...] | None = None
    samples: int | None = None
    skipped: int | None = None

    @property
    def identity(self) -> str:
        """64 digits: equal where shards of one folder may stand beside those of the other."""
        about = (self.digest, self.dim, self.unit, self.inputs, self.listed)
        whole = json.dumps([*about, self.shard_size, self.dtype])
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def shards(self) -> int:
        """How many there will be."""
        return -(-self.inputs // self.shard_size)

    def inputs_of(self, number: int) -> range:
        """The places in the list of the inputs of a shard."""
        start = number * self.shard_size
        return range(start, min(start + self.shard_size, self.inputs))

    def save(self, folder: Path) -> None:
        """Write it into the folder, complete or not at all."""
        write_text(folder / MANIFEST, self.model_dump_json(indent=1) + "\n")


def holds_shards(path: Path | str) -> bool:
    """Whether this is a folder that `arcset embed` has written, or begun."""
    return (Path(path) / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """Raises `DataError` where it is missing or damaged, or of a newer version."""
    manifest: Manifest = read_json(folder / MANIFEST, "manifest of this version", Manifest)
    return manifest


def shard_path(folder: Path, number: int) -> Path:
    """Where a shard is, or will be."""
    return folder / f"shard-{number:05d}.parquet"


def skipped_path(folder: Path, number: int) -> Path:
    """What of a shard was skipped, where anything was."""
    return folder / OWN / f"skipped-{number:05d}.json"


def write_shard(
    folder: Path,
    manifest: Manifest,
    number: int,
    paths: Sequence[str | None],
    labels: Sequence[str],
    embeddings: npt.NDArray[Any],
    skipped: Skipped,
    stamp: str = "",
) -> None:
    """Write a shard, complete or not at all; the shard is there only after what was skipped.

    embeddings: (N, D), those of `paths` and `labels`. stamp: changes with the content of the
    shard's inputs. Raises `OSError` where the disk is full.
    """
    from pyarrow import parquet

    note = skipped_path(folder, number)
    if skipped:
        write_text(note, json.dumps(list(skipped), ensure_ascii=False, indent=1) + "\n")
    else:
        note.unlink(missing_ok=True)  # of a shard that was damaged
    table = _as_table(paths, labels, embeddings.astype(manifest.dtype))
    about = {"of": manifest.identity, "number": number, "skipped": len(skipped), "stamp": stamp}
    table = table.replace_schema_metadata({_SHARD_KEY: json.dumps(about).encode()})
    path = shard_path(folder, number)
    with replacing(path) as part:
        parquet.write_table(
            table,
            part,
            row_group_size=_ROWS,
            use_dictionary=["label"],  # numbers that hardly repeat only grow by one
            compression={"path": "zstd", "label": "zstd", "embedding.list.element": "none"},
            write_page_checksum=True,
        )


def check_shard(
    folder: Path, manifest: Manifest, number: int, *, full: bool = False, stamp: str | None = None
) -> tuple[int, Skipped]:
    """How many samples a complete shard holds, and what was skipped; `DataError` for any other.

    Its footer is read, which stands at the end, and says how many rows there are. full: read all,
    with the checksum of every page. stamp: what `write_shard` was given for the same inputs.
    """
    from pyarrow import parquet

    path = shard_path(folder, number)
    with (
        reading(path, "shard"),
        parquet.ParquetFile(path, page_checksum_verification=full) as file,
    ):
        rows = file.metadata.num_rows
        about = parse_json((file.metadata.metadata or {}).get(_SHARD_KEY, b"{}"))
        if about.get("of") != manifest.identity or about.get("number") != number:
            raise DataError(f"{path} belongs to other embeddings")
        if stamp is not None and about.get("stamp") != stamp:
            raise DataError(f"{path} was made of files that have changed since")
        for batch in file.iter_batches(columns=["embedding"]) if full else ():
            if not np.isfinite(batch["embedding"].flatten().to_numpy(zero_copy_only=False)).all():
                raise DataError(f"{path} holds values that are not finite")
    skipped: Skipped = []
    if about.get("skipped"):
        note = skipped_path(folder, number)
        skipped = read_json(note, "list of what was skipped", list[tuple[str, str]])
    inputs = len(manifest.inputs_of(number))
    if rows + len(skipped) != inputs or len(skipped) != about.get("skipped"):
        raise DataError(
            f"{path} holds {rows:,} samples of {inputs:,} inputs, and {len(skipped):,} were skipped"
        )
    return rows, skipped


def _read_folder(folder: Path) -> EmbeddingSet:
    """All samples of a complete folder, in order, as float32.

    Raises `DataError` where shards are missing, damaged, or of another model or other inputs.
    """
    manifest = read_manifest(folder)
    counts = []
    for number in range(manifest.shards):
        try:
            counts.append(check_shard(folder, manifest, number)[0])
        except DataError as error:
            raise DataError(
                f"{folder} is not complete: {error}; run the same `arcset embed` once more"
            ) from None
    if not sum(counts):
        raise DataError(f"{folder} holds no embedding: all {manifest.inputs:,} inputs were skipped")
    with reading(folder, "folder of embeddings"):
        return _read_shards(folder, manifest, counts)


def _read_shards(folder: Path, manifest: Manifest, counts: Sequence[int]) -> EmbeddingSet:
    from pyarrow import parquet

    rows = np.empty((sum(counts), manifest.dim), np.float32)
    names: list[str] = []
    paths: list[str | None] = []
    for number, count in enumerate(counts):
        table = parquet.read_table(shard_path(folder, number)).combine_chunks()
        flat = table["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        rows[len(names) : len(names) + count] = flat.reshape(count, manifest.dim)
        names += table["label"].to_pylist()
        paths += table["path"].to_pylist()
    known = [path for path in paths if path is not None]
    return EmbeddingSet.of(
        rows,
        names,
        known if len(known) == len(paths) else None,
        manifest.trained_on,
    )
