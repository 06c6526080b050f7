"""Some rows of a large array, without copying them: for samples that lie in a file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LazyRows", "is_mapped", "join_rows", "take_rows"]


class LazyRows:
    """The rows `rows` (N,) of `base` (M, …), read only when they are asked for.

    Behaves as a read-only array (N, …) as far as length, shape, indexing and conversion go.

        >>> view = LazyRows(np.arange(10).reshape(5, 2), np.array([4, 0]))
        >>> view.shape, view[0].tolist(), np.asarray(view).tolist()
        ((2, 2), [8, 9], [[8, 9], [0, 1]])
    """

    def __init__(self, base: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> None:
        self.base = base
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.rows), *self.base.shape[1:])

    @property
    def ndim(self) -> int:
        return self.base.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):  # rows first, so that only they are read
            first, *inner = index
            found = self.base[self.rows[first]]
            scalar = isinstance(first, int | np.integer)
            return found[tuple(inner)] if scalar else found[(slice(None), *inner)]
        return self.base[self.rows[index]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.base[self.rows], dtype=dtype)


def take_rows(images: Any, kept: npt.NDArray[Any]) -> Any:
    """The rows `kept`, numbers or a mask: a copy, or a view where the array lies in a file."""
    rows = np.flatnonzero(kept) if kept.dtype == np.bool_ else kept
    if isinstance(images, LazyRows):
        return LazyRows(images.base, images.rows[rows])
    if is_mapped(images):
        return LazyRows(images, rows)
    return images[rows]


def join_rows(parts: Sequence[Any], order: npt.NDArray[np.int64]) -> Any:
    """All parts one after the other, then in `order`: a copy, or a view where they share a file."""
    bases = [part.base if isinstance(part, LazyRows) else part for part in parts]
    whole = _whole(bases[0])
    numbers = [_row_numbers(base, whole) for base in bases]
    if any(each is None for each in numbers):
        return np.concatenate([np.asarray(part) for part in parts])[order]
    rows = [
        found[part.rows] if isinstance(part, LazyRows) else found
        for part, found in zip(parts, numbers, strict=True)
        if found is not None
    ]
    return LazyRows(whole, np.concatenate(rows)[order])


def _whole(array: Any) -> Any:
    """The complete mapped array that this one is a part of."""
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
    return array


def _row_numbers(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> npt.NDArray[np.int64] | None:
    """Which rows of the mapped array `whole` a part of it holds; None if it holds no such rows."""
    alike = part.shape[1:] == whole.shape[1:] and part.strides[1:] == whole.strides[1:]
    if not is_mapped(part) or _whole(part) is not whole or not alike or part.dtype != whole.dtype:
        return None
    start = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    steps = np.arange(len(part), dtype=np.int64)
    return np.asarray((start + steps * part.strides[0]) // whole.strides[0], dtype=np.int64)


def is_mapped(images: Any) -> bool:
    """Whether an array, or what it is a view of, is mapped from a file."""
    while images is not None:
        if isinstance(images, np.memmap):
            return True
        images = getattr(images, "base", None)
    return False
