"""Embeddings in files, as Parquet or npz: arcset's own, and those of any other tool.

Parquet: one row per sample with the columns `embedding` (a list of numbers), `label` (text or whole
numbers) and, where known, `path`. npz: the arrays `embeddings` (N, D), `labels` (N,) and, where
known, `paths` (N,). Nothing is unpickled. Files that arcset writes also name the identities that
the embedding was trained on (`trained_on`), so that evaluating these is noticed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data.npz_files import find_array, read_npz
from arcset.errors import DataError, InputError, OptionError
from arcset.files import replacing

__all__ = ["SUFFIXES", "EmbeddingSet", "read_embeddings", "write_embeddings"]

SUFFIXES = (".npz", ".parquet")
_TRAINED_ON = b"arcset.trained_on"
_NAMES = {  # what other tools call them; the first is what arcset writes
    "embeddings": ("embeddings", "embedding", "features", "feats", "X", "x"),
    "labels": ("labels", "label", "identities", "identity", "targets", "y"),
    "paths": ("paths", "path"),
}


@dataclass(frozen=True, eq=False)
class EmbeddingSet:
    """Embeddings (N, D) of labelled samples.

    labels (N,) are the places of the samples' identities in `class_names`, which are sorted as
    text, so that two files about the same identities number them alike. paths: where the samples
    came from, or None. trained_on: identities that training knew, or None where nobody says.
    """

    embeddings: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None = None
    trained_on: tuple[str, ...] | None = None

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
        distinct, labels = np.unique([str(name) for name in names], return_inverse=True)
        return cls(
            matrix,
            labels.astype(np.int64).reshape(-1),
            tuple(distinct.tolist()),
            None if paths is None else tuple(paths),
            None if trained_on is None else tuple(trained_on),
        )

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def names(self) -> npt.NDArray[np.str_]:
        """The identity of each row, as text (N,)."""
        return np.array(self.class_names)[self.labels]

    def keep(self, identities: Sequence[str]) -> "EmbeddingSet":
        """The rows of some identities only; raises `InputError` if none of them is here."""
        kept = np.isin(self.names, list(identities))
        if not kept.any():
            raise InputError(f"none of the {len(identities)} identities asked for is among these")
        paths = None
        if self.paths is not None:
            paths = [path for path, wanted in zip(self.paths, kept, strict=True) if wanted]
        return EmbeddingSet.of(
            self.embeddings[kept], self.names[kept].tolist(), paths, self.trained_on
        )


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


def read_embeddings(path: Path | str) -> EmbeddingSet:
    """Read embeddings from a Parquet or npz file of any tool.

    The names `embeddings` and `labels` are looked for first, then those that others use, such as
    features and y. Raises `DataError` for a file that is missing, damaged, or lacks one of them,
    and `OptionError` for another suffix.
    """
    path = Path(path)
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
    found = next((columns[name].tolist() for name in _NAMES["paths"] if name in columns), None)
    paths = None if found is None or None in found else [str(path) for path in found]
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

    try:
        table = parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}") from None
    columns: dict[str, npt.NDArray[Any]] = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if arrow.types.is_list(column.type) or arrow.types.is_fixed_size_list(column.type):
            columns[name] = _matrix(column, len(table), f"{path}: column {name}")
        else:
            columns[name] = np.array(column.to_pylist())
    known = (table.schema.metadata or {}).get(_TRAINED_ON)
    if known is not None:
        try:
            columns["trained_on"] = np.array([str(name) for name in json.loads(known)])
        except ValueError as error:
            raise DataError(f"{path}: {_TRAINED_ON.decode()} is damaged: {error}") from None
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
