"""Arrays of pictures or of any other features: in npz files of any tool, and in memory.

Nothing is unpickled.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data.dataset import Dataset, ImageSet, number_names
from arcset.data.selection import evaluation_images
from arcset.data.sources.base import Entry, Source, cell_text, part_of, printable
from arcset.data.sources.samples import apart_identities, check_identities, for_testing
from arcset.data.sources.table import find_columns
from arcset.errors import DataError
from arcset.files import reading

Columns = dict[str, npt.NDArray[Any]]  # by what they hold, as "label"
_MOST_DEFLATED = 1032  # bytes of content per byte of a zip file, at most


def load_arrays(path: Path) -> Dataset:
    """The arrays `images` (or X, features, embeddings …) and `labels` (or y …) of an npz file.

    images: uint8 (N, H, W), (N, H, W, 1) or (N, H, W, 3) are pictures. Other numbers are features
        and become float32: (N, D), (N, H, W) and (N, H, W, C) as they are, any other shape as rows.
    labels: (N,) names or whole numbers. paths and split: (N,) text, where they are there; what a
        split means is said in `load_dataset`.
    Raises `DataError` for a file that is damaged, lacks one of the two, or holds values that are
    not finite. Nothing is unpickled.
    """
    columns = read_npz(path, ["images", "label"], ["path", "split"])
    images = _samples(columns["images"], path)
    names, paths, split = read_texts(columns, len(images), path)
    check_identities(set(names), path)
    parts = None if split is None else [part_of(word, str(path)) for word in split]
    class_names, labels = number_names(names)
    train = ImageSet(images, labels, class_names, None if paths is None else tuple(paths))
    apart = apart_identities(names, parts)
    dataset = Dataset(path.stem, train, None, "unknown", apart=apart)
    return dataset.divide(for_testing(names, paths, parts))


def dataset_of_arrays(images: Any, labels: Any, *, name: str = "arrays") -> Dataset:
    """Arrays in memory as a dataset: samples as in an npz file, and a label of each.

    labels: (N,) names or whole numbers; classes are in their order. Every fifth sample of a class
    that has five or more is for testing. Raises `DataError` as `load_arrays` does.

        >>> dataset = dataset_of_arrays(np.zeros((12, 8, 8), np.uint8), [10, 9] * 6)
        >>> dataset.class_names, len(dataset.train), len(dataset.test)
        (('9', '10'), 10, 2)
    """
    samples, keys = _samples(np.asarray(images), Path(name)), np.asarray(labels)
    is_named = keys.dtype.kind != "O" or {type(key) for key in keys.flat} == {str}
    if keys.shape != (len(samples),) or keys.dtype.kind not in "iuUSOT" or not is_named:
        raise DataError(
            f"{name}: labels must be ({len(samples)},) whole numbers or names, one per sample, not "
            f"{keys.dtype} {keys.shape}"
        )
    classes, numbers = np.unique(keys, return_inverse=True)
    names = tuple(str(one) for one in classes.tolist())
    check_identities(set(names), Path(name))
    train = ImageSet(samples, numbers.astype(np.int64), names)
    return hold_back_tests(Dataset(name, train=train, test=None, licence="unknown"))


def hold_back_tests(dataset: Dataset) -> Dataset:
    """A dataset without test images with some of its own for testing, as `for_testing` says."""
    if dataset.test is not None:
        return dataset
    train = dataset.train
    names = [train.class_names[label] for label in train.labels]
    return dataset.divide(for_testing(names, train.paths))


def _samples(array: npt.NDArray[Any], path: Path) -> npt.NDArray[Any]:
    if array.ndim < 2 or array.size == 0 or array.dtype.kind not in "biuf":
        raise DataError(
            f"{path}: images have shape {array.shape} and type {array.dtype}, expected numbers, "
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
            f"{path}: {len(bad):,} of {len(rows):,} samples hold values that are not finite "
            f"in float32, the first is number {bad[0]}"
        )
    return features if features.ndim <= 4 else rows


def read_texts(
    columns: Columns, count: int, path: Path
) -> tuple[list[str], list[str] | None, list[str] | None]:
    """Label, path and split of each of `count` samples; raises `DataError` for one without label.

    Paths and splits are None where there is no such column, or one is missing in it.
    """
    names, paths, split = (
        _texts(columns[what], what, count, path) if what in columns else None
        for what in ("label", "path", "split")
    )
    if names is None or "" in names:
        raise DataError(f"{path} has no label for sample {(names or ['']).index('')}")
    return names, None if paths is None or "" in paths else paths, split


def _texts(array: npt.NDArray[Any], what: str, count: int, path: Path) -> list[str]:
    """One text per sample, "" where it is missing; whole numbers, also floats, become text."""
    if array.shape not in ((count,), (count, 1)) or array.dtype.kind not in "iufUSO":
        raise DataError(
            f"{path}: column {what} has shape {array.shape} and type {array.dtype}, expected one "
            f"name or whole number for each of {count:,} samples"
        )
    if array.dtype.kind == "f" and not np.equal(array, np.rint(array)).all():
        raise DataError(f"{path}: column {what} holds floats that are no whole numbers")
    return [printable(cell_text(value)) for value in array.reshape(-1).tolist()]


class ArraySource(Source):
    """Arrays in memory, or mapped from a file: of a named dataset, an npz file, a part of a run.

    inverted: as in `Source`; None where they are what they are.
    """

    def __init__(
        self, samples: ImageSet, name: str, kind: str, inverted: bool | None = None
    ) -> None:
        self.name, self.kind = name, kind
        self._samples = samples
        self.shape = samples.shape
        self.features = samples.images.dtype != np.uint8
        self.inverted = inverted

    @property
    def samples(self) -> ImageSet:
        """All of them."""
        return self._samples

    def entries(self) -> Iterator[Entry]:
        names, paths = self.samples.class_names, self.samples.paths
        for row, label in enumerate(self.samples.labels):
            yield Entry(None if paths is None else paths[row], names[label], record=row)

    def content(self, entry: Entry) -> npt.NDArray[Any]:
        return np.asarray(self.samples.images[entry.record])

    def stamp_of_all(self) -> str:
        digest = hashlib.sha256(repr((self.samples.images.shape, self.shape)).encode())
        for start in range(0, len(self.samples), 1024):
            part = np.asarray(self.samples.images[start : start + 1024])
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()


class DatasetSource(ArraySource):
    """A dataset that was read from a file, the samples for testing among all."""

    def __init__(self, dataset: Dataset, name: str, kind: str) -> None:
        super().__init__(dataset.train, name, kind, dataset.invert)
        self._dataset = dataset

    @cached_property
    def samples(self) -> ImageSet:
        return evaluation_images(self._dataset, everything=True)

    def as_dataset(self) -> Dataset:
        return self._dataset


def read_npz(
    path: Path, required: Sequence[str], optional: Sequence[str], further: Sequence[str] = ()
) -> Columns:
    """The arrays of a file by what they hold, see `find_columns`; the others are not read.

    further: arrays by their very names; raises `OptionError` for one that is not there.

    Raises `DataError`, naming the file, where it is damaged, missing, or a single array, or a
    required array is missing.
    """
    with reading(path, "npz file"):
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise DataError(f"{path} holds a single array, expected an npz file of several")
        with content:
            names = find_columns(content.files, required, optional, path, further)
            sizes = {
                info.filename.removesuffix(".npy"): info.file_size
                for info in content.zip.infolist()
            }
            needed = sum(sizes[name] for name in names.values())
            if needed > _MOST_DEFLATED * path.stat().st_size:  # a few bytes can claim any size
                raise DataError(f"{path} says that it unpacks to {needed / 2**30:,.3g} GiB")
            columns = {what: content[name] for what, name in names.items()}
        for what, array in columns.items():
            # Elements of no bytes would let a small file claim any number of them.
            if not isinstance(array, np.ndarray) or (array.size and not array.itemsize):
                raise DataError(f"{path} is not a readable npz file: {names[what]} is no array")
        return columns
