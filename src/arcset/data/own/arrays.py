"""Arrays in an npz file, of pictures or of any other features, as a dataset."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data.dataset import Dataset
from arcset.data.npz_files import find_array, read_npz
from arcset.data.own.assembly import Assembly, check_identities, place_name
from arcset.data.own.parts import apart_identities, for_testing
from arcset.data.own.tables import cell_text, part_of
from arcset.data.own.trees import shown
from arcset.errors import DataError

__all__ = ["load_arrays"]

_NAMES = {  # what arrays may be called; the first is what messages ask for
    "images": ("images", "X", "x", "features", "feats", "embeddings", "embedding", "data"),
    "labels": ("labels", "label", "identities", "identity", "targets", "y"),
    "paths": ("paths", "path"),
    "split": ("split", "splits", "parts"),
}


def load_arrays(place: Path) -> Dataset:
    """The arrays `images` (or X, features, embeddings …) and `labels` (or y …) of an npz file.

    images: uint8 (N, H, W), (N, H, W, 1) or (N, H, W, 3) are pictures. Other numbers are features
        and become float32: (N, D), (N, H, W) and (N, H, W, C) as they are, any other shape as rows.
    labels: (N,) names or whole numbers. paths and split: (N,) text, where they are there; what a
        split means is said in `load_own`.
    Raises `DataError` for a file that is damaged, lacks one of the two, or holds values that are
    not finite. Nothing is unpickled.
    """
    arrays = read_npz(place, {name for names in _NAMES.values() for name in names})
    images = _samples(find_array(arrays, _NAMES["images"], "images", place), place)
    names = _column(
        find_array(arrays, _NAMES["labels"], "labels", place), len(images), "labels", place
    )
    if "" in names:
        raise DataError(f"{place} has no label for sample {names.index('')}")
    check_identities(set(names), place)
    paths = _optional(arrays, "paths", len(images), place)
    split = _optional(arrays, "split", len(images), place)
    parts = None if split is None else [part_of(word, str(place)) for word in split]
    testing = for_testing(names, paths or [str(row) for row in range(len(names))], parts)
    order = np.concatenate([np.flatnonzero(~testing), np.flatnonzero(testing)])
    class_names, labels = np.unique(names, return_inverse=True)
    assembly = Assembly(
        name=place_name(place),
        labels=labels.reshape(-1).astype(np.int64)[order],
        class_names=tuple(class_names.tolist()),
        paths=None if paths is None else tuple(paths[row] for row in order.tolist()),
        training=int((~testing).sum()),
        apart=apart_identities(names, parts),
    )
    return assembly.dataset(images[order], None)


def _samples(array: npt.NDArray[Any], place: Path) -> npt.NDArray[Any]:
    if array.ndim < 2 or array.size == 0 or array.dtype.kind not in "biuf":
        raise DataError(
            f"{place}: images have shape {array.shape} and type {array.dtype}, expected numbers, "
            f"one row or picture per sample"
        )
    if array.dtype == np.uint8 and array.ndim == 4 and array.shape[3] == 1:
        return array[..., 0]
    if array.dtype == np.uint8 and (array.ndim == 3 or (array.ndim == 4 and array.shape[3] == 3)):
        return array
    with np.errstate(over="ignore"):  # what is too large for float32 is noticed below
        features = array.astype(np.float32)
    rows = features.reshape(len(features), -1)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise DataError(
            f"{place}: {len(bad):,} of {len(rows):,} samples hold values that are not finite "
            f"in float32, the first is number {bad[0]}"
        )
    return features if features.ndim <= 4 else rows


def _optional(
    arrays: Mapping[str, npt.NDArray[Any]], what: str, count: int, place: Path
) -> list[str] | None:
    if not any(name in arrays for name in _NAMES[what]):
        return None
    return _column(find_array(arrays, _NAMES[what], what, place), count, what, place)


def _column(array: npt.NDArray[Any], count: int, what: str, place: Path) -> list[str]:
    """One text per sample."""
    if array.shape not in ((count,), (count, 1)) or array.dtype.kind not in "iufUS":
        raise DataError(
            f"{place}: {what} have shape {array.shape} and type {array.dtype}, expected one name "
            f"or whole number for each of {count:,} samples"
        )
    if array.dtype.kind == "f" and not np.equal(array, np.rint(array)).all():
        raise DataError(f"{place}: {what} are floats that are no whole numbers")
    return [shown(cell_text(value)) for value in array.reshape(-1).tolist()]
