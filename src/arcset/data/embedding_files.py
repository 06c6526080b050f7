"""Embeddings in files, as Parquet or npz: arcset's own, and those of any other tool.

Also read is a folder of many Parquet files, as `arcset embed` writes it: see `embedding_folders`.

Parquet: one row per sample with the columns `embedding` (a list of numbers), `label` (text or whole
numbers) and, where known, `path`. npz: the arrays `embeddings` (N, D), `labels` (N,) and, where
known, `paths` (N,). Nothing is unpickled. Files that arcset writes also name the identities that
the embedding was trained on (`trained_on`), so that evaluating these is noticed.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data.embedding_folders import holds_shards, read_folder
from arcset.data.embedding_set import EmbeddingSet
from arcset.data.npz_files import find_array, read_npz
from arcset.errors import DataError, InputError, OptionError
from arcset.files import parse_json, reading, replacing

__all__ = ["SUFFIXES", "EmbeddingSet", "holds_embeddings", "read_embeddings", "write_embeddings"]

SUFFIXES = (".npz", ".parquet")
_TRAINED_ON = b"arcset.trained_on"
_NAMES = {  # what other tools call them; the first is what arcset writes
    "embeddings": ("embeddings", "embedding", "features", "feats", "X", "x"),
    "labels": ("labels", "label", "identities", "identity", "targets", "y"),
    "paths": ("paths", "path"),
}


def write_embeddings(path: Path | str, content: EmbeddingSet) -> None:
    """Write a Parquet or npz file, as the name says; raises `OptionError` for another suffix."""
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
            _write_parquet(part, content)


def holds_embeddings(path: Path | str) -> bool:
    """Whether this is a file of embeddings by its name, or a folder that `arcset embed` wrote.

    >>> holds_embeddings("faces.parquet"), holds_embeddings("faces.csv")
    (True, False)
    """
    path = Path(path)
    return holds_shards(path) or (path.suffix.lower() in SUFFIXES and not path.is_dir())


def read_embeddings(path: Path | str) -> EmbeddingSet:
    """Read embeddings from a Parquet or npz file of any tool, or a folder of `arcset embed`.

    The names `embeddings` and `labels` are looked for first, then those that others use, such as
    features and y. Halves (float16) become float32. Raises `DataError` for a file that is missing,
    damaged, or lacks one of them, for a folder that is not complete, and `OptionError` for another
    suffix.
    """
    path = Path(path)
    if holds_shards(path):
        return read_folder(path)
    _check_suffix(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    columns = read_npz(path) if path.suffix == ".npz" else _read_parquet(path)
    embeddings = find_array(columns, _NAMES["embeddings"], "embeddings", path)
    labels = find_array(columns, _NAMES["labels"], "labels", path)
    if labels.ndim != 1 or labels.dtype.kind not in "iuUSO":
        raise DataError(
            f"{path}: labels have shape {labels.shape} and type {labels.dtype}, expected one whole"
            " number or name per embedding"
        )
    names = [
        item.decode(errors="backslashreplace") if isinstance(item, bytes) else item
        for item in labels.tolist()
    ]
    if any(name is None for name in names):
        raise DataError(f"{path}: {names.count(None)} labels are missing")
    for name in (*_NAMES["paths"], "trained_on"):
        if name in columns and columns[name].ndim != 1:
            raise DataError(f"{path}: {name} is not one text per row")
    found = next((columns[name].tolist() for name in _NAMES["paths"] if name in columns), None)
    paths = None if found is None or None in found else [str(path) for path in found]
    if embeddings.dtype == np.float16:  # too coarse to compute with, and slow
        embeddings = embeddings.astype(np.float32)
    known = columns["trained_on"].tolist() if "trained_on" in columns else None
    try:
        return EmbeddingSet.of(embeddings, names, paths, known)
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def _check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise OptionError(f"{path} is neither .npz nor .parquet, the files that hold embeddings")


def _read_parquet(path: Path) -> dict[str, npt.NDArray[Any]]:
    import pyarrow as arrow
    from pyarrow import parquet

    with reading(path, "Parquet file"):
        table = parquet.read_table(path)
        columns: dict[str, npt.NDArray[Any]] = {}
        for name in table.column_names:
            column = table[name].combine_chunks()
            if arrow.types.is_list(column.type) or arrow.types.is_fixed_size_list(column.type):
                columns[name] = _matrix(column, len(table), f"{path}: column {name}")
            else:
                columns[name] = np.array(column.to_pylist())
        known = (table.schema.metadata or {}).get(_TRAINED_ON)
        if known is not None:
            columns["trained_on"] = np.array([str(name) for name in parse_json(known)])
        return columns


def _matrix(column: Any, rows: int, what: str) -> npt.NDArray[Any]:
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if column.null_count or rows == 0 or len(flat) % rows:
        raise DataError(f"{what} does not hold equally many numbers in every row")
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if len(set(lengths.tolist())) != 1:
        raise DataError(f"{what} does not hold equally many numbers in every row")
    matrix: npt.NDArray[Any] = flat.reshape(rows, -1)
    return matrix


def _write_parquet(path: Path, content: EmbeddingSet) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    rows, width = content.embeddings.shape
    flat = arrow.array(np.ascontiguousarray(content.embeddings).reshape(-1))
    columns = {
        "path": list(content.paths) if content.paths is not None else [None] * rows,
        "label": content.names.tolist(),
        "embedding": arrow.FixedSizeListArray.from_arrays(flat, width),
    }
    table = arrow.table(columns)
    if content.trained_on is not None:
        known = json.dumps(content.trained_on).encode()
        table = table.replace_schema_metadata({_TRAINED_ON: known})
    parquet.write_table(table, path)
