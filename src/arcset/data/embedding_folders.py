"""Embeddings in a folder of Parquet files, its shards, as `arcset embed` writes for many samples.

FOLDER/  shard-00000.parquet, …      path, label and embedding of the samples, in order
         _arcset/manifest.json       which model, which inputs, how many to a shard: `Manifest`
         _arcset/inputs.parquet      the list of inputs
         _arcset/skipped-00000.json  what of a shard's inputs could not be read, and why
         _arcset/trained_on.json     the identities that training knew, where somebody says

Tools that read a folder of Parquet files pass over names that begin with an underscore. Which
inputs are in a shard follows from the list and the size of a shard alone.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from arcset.data.embedding_set import EmbeddingSet
from arcset.errors import DataError
from arcset.files import one_line, parse_json, reading, replacing, write_text, wrong_entry

__all__ = [
    "INPUTS",
    "MANIFEST",
    "OWN",
    "TRAINED_ON",
    "Manifest",
    "check_shard",
    "holds_shards",
    "read_folder",
    "read_manifest",
    "shard_path",
    "skipped_path",
    "write_shard",
]

OWN = "_arcset"  # the folder within for all that is no shard
MANIFEST, INPUTS, TRAINED_ON = (
    f"{OWN}/manifest.json",
    f"{OWN}/inputs.parquet",
    f"{OWN}/trained_on.json",
)
_KEY = b"arcset.shard"
_NOT_MEANT = (ValueError, TypeError, KeyError, AttributeError)  # what other JSON leads to
_ROWS = 1 << 14  # in a row group: what the Parquet writer holds at a time

Skipped = Sequence[tuple[str, str]]


class Manifest(BaseModel):
    """What a folder is of.

    model, digest, dim: name of the model, what it computes in 64 digits, and D.
    unit: whether the embeddings have length 1; those of a run keep their own.
    source, kind: what the inputs came from, and what that is, in words.
    inputs, listed: how many there are, and a digest of their list in 64 digits.
    identities: how many these are of; None where there were too many to be counted.
    shard_size: inputs in each shard but the last.
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
    samples: int | None = None
    skipped: int | None = None

    @property
    def identity(self) -> str:
        """64 digits: equal where shards of one folder may stand beside those of the other."""
        said = (self.digest, self.dim, self.unit, self.inputs, self.listed)
        whole = json.dumps([*said, self.shard_size, self.dtype])
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
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {folder / MANIFEST}: {error.strerror or error}") from None
    except ValidationError as error:
        raise DataError(
            f"{folder / MANIFEST} is damaged, or of a newer arcset: {wrong_entry(error)}"
        ) from None


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
) -> None:
    """Write a shard, complete or not at all; the shard is there only after what was skipped.

    embeddings: (N, D), those of `paths` and `labels`. Raises `DataError` where the disk is full.
    """
    import pyarrow as arrow
    from pyarrow import parquet

    note = skipped_path(folder, number)
    if skipped:
        write_text(note, json.dumps(list(skipped), ensure_ascii=False, indent=1) + "\n")
    else:
        note.unlink(missing_ok=True)  # of a shard that was damaged
    flat = arrow.array(np.ascontiguousarray(embeddings, manifest.dtype).reshape(-1))
    columns = [
        arrow.array(paths, arrow.string()),
        arrow.array(labels, arrow.string()),
        arrow.FixedSizeListArray.from_arrays(flat, manifest.dim),
    ]
    said = {"of": manifest.identity, "number": number, "skipped": len(skipped)}
    table = arrow.table(columns, names=["path", "label", "embedding"])
    table = table.replace_schema_metadata({_KEY: json.dumps(said).encode()})
    path = shard_path(folder, number)
    try:
        with replacing(path) as part:
            parquet.write_table(
                table,
                part,
                row_group_size=_ROWS,
                use_dictionary=["label"],  # numbers that hardly repeat only grow by one
                compression={"path": "zstd", "label": "zstd", "embedding.list.element": "none"},
                write_page_checksum=True,
            )
    except OSError as error:  # Arrow does not say which file
        why = os.strerror(error.errno) if error.errno else str(error)
        raise DataError(f"cannot write {path}: {why}") from None


def check_shard(
    folder: Path, manifest: Manifest, number: int, *, full: bool = False
) -> tuple[int, Skipped]:
    """How many samples a complete shard holds, and what was skipped; `DataError` for any other.

    Its footer is read, which stands at the end, and says how many rows there are. full: read all,
    with the checksum of every page.
    """
    from pyarrow import ArrowException, parquet

    path = shard_path(folder, number)
    try:
        with parquet.ParquetFile(path, page_checksum_verification=full) as file:
            rows = file.metadata.num_rows
            said = parse_json((file.metadata.metadata or {}).get(_KEY, b"{}"))
            if said.get("of") != manifest.identity or said.get("number") != number:
                raise DataError(f"{path} belongs to other embeddings")
            if full:
                _check_values(file, path)
        skipped = _skipped(skipped_path(folder, number)) if said["skipped"] else []
    except FileNotFoundError as error:
        raise DataError(f"{error.filename or path} is missing") from None
    except (OSError, ArrowException, *_NOT_MEANT) as error:
        raise DataError(f"{path} is damaged: {one_line(error)}") from None
    if rows + len(skipped) != len(manifest.inputs_of(number)) or len(skipped) != said["skipped"]:
        raise DataError(
            f"{path} holds {rows:,} samples of {len(manifest.inputs_of(number)):,} inputs, and "
            f"{len(skipped):,} were skipped"
        )
    return rows, skipped


def _skipped(path: Path) -> Skipped:
    return [(str(name), str(why)) for name, why in parse_json(path.read_bytes())]


def _check_values(file: Any, path: Path) -> None:
    for batch in file.iter_batches():
        if not np.isfinite(batch["embedding"].flatten().to_numpy(zero_copy_only=False)).all():
            raise DataError(f"{path} holds values that are not finite")


def read_folder(folder: Path) -> EmbeddingSet:
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
    places = np.empty(len(rows), np.int64)
    paths: list[str | None] = []
    numbers: dict[str, int] = {}
    start = 0
    for number, count in enumerate(counts):
        part = slice(start, start + count)
        start += count
        table = parquet.read_table(shard_path(folder, number)).combine_chunks()
        if not count:
            continue
        flat = table["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        rows[part] = flat.reshape(count, manifest.dim)
        labels = table["label"].combine_chunks().dictionary_encode()
        found = [numbers.setdefault(name, len(numbers)) for name in labels.dictionary.to_pylist()]
        places[part] = np.array(found, np.int64)[labels.indices.to_numpy()]
        paths += table["path"].to_pylist()
    names = sorted(numbers)
    order = np.empty(len(names), np.int64)
    order[[numbers[name] for name in names]] = np.arange(len(names))
    known = [path for path in paths if path is not None]
    return EmbeddingSet(
        rows,
        order[places],
        tuple(names),
        tuple(known) if len(known) == len(paths) else None,
        _trained_on(folder),
    )


def _trained_on(folder: Path) -> tuple[str, ...] | None:
    path = folder / TRAINED_ON
    try:
        return tuple(str(name) for name in parse_json(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}") from None
