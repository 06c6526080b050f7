"""Which of the nearest references are of the query's class, rank by rank.

What retrieval asks of a ranking is only whether its first, second, … place is of the right class,
so nothing else is kept: cosines are rounded to a grid, those of the query's own class are lowered
by half a step, and the sorted numbers alone tell the rank and the kind. Half a step lower means
that among equal cosines the wrong references come first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from arcset.evaluation.arrays import normalize_rows

__all__ = ["GRIDS", "Numbers", "Right", "Search", "nearest_are_right", "ranked"]

BLOCK_COSINES = 2**22  # cosines held at once, 16 or 32 MB
BLOCK_ROWS = 4096  # rows normalized at once
GRIDS = {np.dtype(np.float64): 2.0**40, np.dtype(np.float32): 2.0**22}  # steps per unit of cosine

Numbers = npt.NDArray[np.intp]
Right = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Search:
    """Unit queries (Q, D) and references (M, D), both sorted by class, and of one float type.

    numbers: the class of each query (Q,).
    starts: class c holds the references from starts[c] to starts[c + 1].
    own: the place of each query among the references (Q,), or None if it is none of them.
    """

    queries: npt.NDArray[Any]
    numbers: Numbers
    references: npt.NDArray[Any]
    starts: Numbers
    own: Numbers | None

    @classmethod
    def sort(
        cls,
        queries: npt.NDArray[Any],
        numbers: Numbers,
        references: npt.NDArray[Any] | None,
        reference_numbers: Numbers,
        kind: npt.DTypeLike,
    ) -> "Search":
        """Of the queries that some reference shares its class with, as floats of a `kind`.

        Without references the queries search each other.
        """
        counts = np.bincount(reference_numbers, minlength=int(numbers.max()) + 1)  # (C,)
        starts = np.concatenate(([0], np.cumsum(counts)))
        order = np.argsort(numbers, kind="stable")
        if references is None:
            units = _unit_rows(queries, order, kind)
            own = np.flatnonzero(counts[numbers[order]] > 1)
            chosen = units if len(own) == len(units) else units[own]
            return cls(chosen, numbers[order[own]], units, starts, own)
        order = order[counts[numbers[order]] > 0]
        units = _unit_rows(references, np.argsort(reference_numbers, kind="stable"), kind)
        return cls(_unit_rows(queries, order, kind), numbers[order], units, starts, None)

    @property
    def relevant(self) -> Numbers:
        """How many references each query should find, (Q,): those of its class but itself."""
        return np.diff(self.starts)[self.numbers] - (self.own is not None)

    @property
    def others(self) -> int:
        """How many references each query has, without itself."""
        return len(self.references) - (self.own is not None)

    def keys(self, rows: Numbers, out: torch.Tensor | None = None) -> npt.NDArray[Any]:
        """For some queries, ascending, the rounded cosines of all references (B, M).

        In steps of the grid: whole for another class, half a step lower for the query's own, and
        −inf for the query itself. `out` is memory to hold them.
        """
        grid = GRIDS[self.references.dtype]  # a power of two, so that the product rounds the same
        left = torch.from_numpy(self.queries[rows] * grid)
        right = torch.from_numpy(self.references).T
        keys: npt.NDArray[Any] = torch.mm(left, right, out=out).numpy()
        np.rint(keys, out=keys)
        classes, first = np.unique(self.numbers[rows], return_index=True)
        for number, start, stop in zip(classes, first, [*first[1:], len(rows)], strict=True):
            keys[start:stop, self.starts[number] : self.starts[number + 1]] -= 0.5
        if self.own is not None:
            keys[np.arange(len(rows)), self.own[rows]] = -np.inf
        return keys


def nearest_are_right(search: Search, depths: Numbers) -> Iterator[tuple[slice, Right]]:
    """By blocks of queries: whether the nearest reference, the next, … is of the query's class.

    Yields which queries, and (B, K) with K the largest of their `depths` (Q,), each of which is at
    most `search.others`. Time grows as Q·M·D; memory is one block.
    """
    count = len(search.references)
    step = min(max(1, BLOCK_COSINES // count), len(search.queries))
    kind = torch.from_numpy(search.references[:0]).dtype
    block = torch.empty(step, count, dtype=kind)  # fresh memory for each would cost a fifth
    for start in range(0, len(search.queries), step):
        rows = np.arange(start, min(start + step, len(search.queries)))
        depth = int(depths[rows].max())
        yield slice(start, start + len(rows)), ranked(search.keys(rows, block[: len(rows)]), depth)


def ranked(keys: npt.NDArray[Any], depth: int) -> Right:
    """Whether the `depth` largest keys of each row, largest first, are those of the own class.

    Afterwards the last `depth` columns of `keys` hold them, ascending.
    """
    cut = keys.shape[1] - depth
    if cut:
        keys.partition(cut, axis=1)
    largest = keys[:, cut:]
    largest.sort(axis=1)
    right: Right = np.ascontiguousarray((np.rint(largest) != largest)[:, ::-1])
    return right


def _unit_rows(matrix: npt.NDArray[Any], order: Numbers, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """The rows in the given order, divided by their length in float64, as floats of a kind."""
    units = np.empty((len(order), matrix.shape[1]), dtype=kind)
    for start in range(0, len(order), BLOCK_ROWS):
        block = matrix[order[start : start + BLOCK_ROWS]].astype(np.float64)
        normalize_rows(block)
        units[start : start + BLOCK_ROWS] = block
    return units
