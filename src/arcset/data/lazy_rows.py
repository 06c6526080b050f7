"""Some rows of a large array, without copying them: for samples that lie in a file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LazyRows", "join_rows", "take_rows"]


class LazyRows:
    """The rows `rows` (N,) of `base` (M, …), mapped from a file: read when they are asked for.

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
    """The rows `kept`, numbers or a mask: a copy, or a view where the samples lie in a file."""
    rows = np.flatnonzero(kept) if kept.dtype == np.bool_ else kept
    if isinstance(images, LazyRows):
        return LazyRows(images.base, images.rows[rows])
    return images[rows]


def join_rows(parts: Sequence[Any], order: npt.NDArray[np.int64]) -> Any:
    """All parts one after the other, then in `order`: a copy, or a view where they share a file."""
    lazy = [part for part in parts if isinstance(part, LazyRows)]
    if len(lazy) == len(parts) and all(part.base is lazy[0].base for part in lazy):
        return LazyRows(lazy[0].base, np.concatenate([part.rows for part in lazy])[order])
    return np.concatenate([np.asarray(part) for part in parts])[order]
