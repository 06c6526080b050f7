"""All pairs of embeddings, walked in blocks of cosines.

Rows are sorted by label. Of row i, the partners before `ends[i]`, where its class ends, are itself,
earlier rows and genuine partners; all from there on are impostors. So most blocks hold nothing but
impostor pairs, and only those near the diagonal need a closer look.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from arcset.evaluation.arrays import (
    Array,
    class_numbers,
    embedding_matrix,
    normalize_rows,
    refuse_zero_rows,
)

__all__ = ["Block", "SortedRows"]

CHUNK = 2**22  # numbers normalized at once


@dataclass(frozen=True)
class Block:
    """Rows from `top` to `bottom` against columns from `left` to `right`.

    mixed: whether it holds other than impostor pairs.
    """

    top: int
    bottom: int
    left: int
    right: int
    mixed: bool

    @property
    def size(self) -> int:
        """How many cosines it has."""
        return (self.bottom - self.top) * (self.right - self.left)


@dataclass(frozen=True, eq=False)
class SortedRows:
    """Embeddings of unit length in the order of their labels.

    units: (N, D).
    labels: the distinct labels, sorted (I,).
    numbers: for each row the place of its label there (N,), ascending.
    ends: for each row where the rows of its label end (N,).
    """

    units: Tensor
    labels: npt.NDArray[Any]
    numbers: npt.NDArray[np.intp]
    ends: npt.NDArray[np.intp]

    @classmethod
    def build(cls, embeddings: Array, labels: Array, dtype: torch.dtype) -> "SortedRows":
        """Normalize in float64, whatever the `dtype` of the units, and sort.

        Raises `InputError` for bad embeddings or labels, and for rows of zeros.
        """
        matrix = embedding_matrix(embeddings)
        distinct, numbers = class_numbers(labels, len(matrix))
        refuse_zero_rows(matrix)
        order = np.argsort(numbers, kind="stable")
        units = torch.empty(matrix.shape, dtype=dtype)
        step = max(1, CHUNK // matrix.shape[1])
        for start in range(0, len(matrix), step):
            part = matrix[order[start : start + step]].astype(np.float64)
            normalize_rows(part)
            units[start : start + step] = torch.from_numpy(part)
        ends = np.cumsum(np.bincount(numbers))
        numbers = numbers[order]
        return cls(units, distinct, numbers, ends[numbers])

    def sizes(self) -> npt.NDArray[np.intp]:
        """How many rows each label has (I,)."""
        return np.bincount(self.numbers)

    def pair_counts(self) -> tuple[int, int]:
        """How many pairs are genuine, and how many are impostors."""
        count, sizes = len(self.numbers), self.sizes()
        genuine = int((sizes * (sizes - 1) // 2).sum())
        return genuine, count * (count - 1) // 2 - genuine

    def blocks(self, height: int, width: int, identities: int | None = None) -> Iterator[Block]:
        """Every pair i < j once, in blocks of at most `height` × `width`; all of one top in a row.

        identities: how many labels the rows of a block may have at most.
        """
        count, top = len(self.numbers), 0
        while top < count:
            bottom = min(top + height, count)
            if identities is not None:
                last = self.numbers[top] + identities
                bottom = min(bottom, int(np.searchsorted(self.numbers, last)))
            edge = int(self.ends[bottom - 1])
            for first, stop, mixed in ((top, edge, True), (edge, count, False)):
                for left in range(first, stop, width):
                    yield Block(top, bottom, left, min(left + width, stop), mixed)
            top = bottom

    def memory(self, height: int, width: int) -> Tensor:
        """Room for the cosines of any block; fresh memory for each would cost as much as some."""
        count = len(self.units)
        return torch.empty(min(height, count) * min(width, count), dtype=self.units.dtype)

    def cosines(self, block: Block, memory: Tensor) -> Tensor:
        """The cosines of a block (rows, columns), in `memory`."""
        rows, columns = self.units[block.top : block.bottom], self.units[block.left : block.right]
        return torch.mm(rows, columns.T, out=memory[: block.size].view(len(rows), len(columns)))

    def kinds(self, block: Block) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which pairs of a block are genuine, and which impostors; the rest is not to be counted.

        >>> rows = SortedRows.build(np.eye(3), [4, 4, 7], torch.float64)
        >>> for kind in rows.kinds(Block(0, 3, 0, 3, True)):
        ...     print(kind.astype(int).tolist())
        [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
        [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
        """
        columns = np.arange(block.left, block.right)
        ends = self.ends[block.top : block.bottom, None]
        later = columns > np.arange(block.top, block.bottom)[:, None]
        impostor = columns >= ends
        return later & ~impostor, impostor
