"""All pairs of embeddings, walked in blocks of cosines.

Rows are sorted by label. Of row i, the partners before `ends[i]`, where its class ends, are itself,
earlier rows and genuine partners; all from there on are impostors. So most blocks hold nothing but
impostor pairs, and only those near the diagonal need a closer look.

Many scores in ascending order, kept one by one or counted by value.

Cosines of pairs of embeddings, apart for genuine pairs (same class) and impostor pairs.

Here all of them are kept, for the pairs that a caller names and for sets of up to
`KEPT_EMBEDDINGS`; `tally` counts those of larger sets. Cosines are computed in float64 and rounded
to multiples of 2⁻⁴⁴, so that pairs which are equally similar on paper tie in spite of errors in the
last bits. Beyond `EXACT_EMBEDDINGS` they are rounded to float32 as well, so that many pairs fit
into memory; what that can change is bounded in `curves`.

Cosines of all pairs of a large set: not kept, but counted by their value.

Cosines are float32 products, rounded to multiples of 2⁻²¹. The rounding moves a cosine by at most
2.4e-7, which is about what float32 products of some hundred terms are off by anyway; and as there
are but four million such multiples, a count for each holds all there is to know about a billion
pairs. So nothing is sampled or guessed: accept rates, thresholds, AUC and EER are those of all the
rounded cosines. What rounding itself can change is bounded in `curves`.

The impostor pairs of a validation set, highest cosine first: what every threshold is read from.

Cosines are computed in float64 and rounded to 2⁻⁴⁰ and to float32, as `verification` does, so that
pairs which are equally similar on paper tie. Only the highest are kept, as only they decide about
low rates; so memory stays bounded however many samples there are.

Pairs to calibrate on: all of an embedding set, or a fair sample of them.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from arcset.checks import check_count
from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    as_array,
    class_numbers,
    embedding_matrix,
    normalize_rows,
    refuse_zero_rows,
)

__all__ = [
    "CELLS",
    "EXACT_EMBEDDINGS",
    "FEWEST_IDENTITY_PAIRS",
    "KEPT_EMBEDDINGS",
    "Block",
    "Counts",
    "ImpostorPairs",
    "Ranked",
    "Rows",
    "Scores",
    "SortedRows",
    "cell_values",
    "checked_pairs",
    "pair_cosines",
    "rounded",
    "rounded_cosines",
    "score_all_pairs",
    "score_pairs",
    "tally_all_pairs",
    "to_cells",
    "unit_matrix",
]

CHUNK = 2**22  # numbers normalized at once
Scores: TypeAlias = npt.NDArray[np.floating[Any]]  # float32 or float64
Counts: TypeAlias = npt.NDArray[np.int64]
EXACT_EMBEDDINGS = 4_096  # 8 million pairs, 67 MB of scores in float64
KEPT_EMBEDDINGS = 20_000  # 200 million pairs, 0.8 GB of scores in float32
KEPT_BLOCK = (256, 8192)  # rows and columns of cosines computed at once, 16 MB
# Next to 384 float64 has steps of 2⁻⁴⁴. Half of one is 2.8e-14; products of 512 to 2048 terms are
# off by 2e-15, measured against extended precision. So cosines such as 0 and 1 never fall apart,
# and others of equal pairs hardly ever; with steps of 2⁻⁴⁸, half of which is 1.8e-15, they do.
SHIFT_KEPT = 384.0
COUNTED_BLOCK = (2048, 16384)  # rows and columns of cosines computed at once, 134 MB
STEP = 2.0**-21
SPARE = 64  # cells beyond −1 and beyond 1, where rounding may lead
CELLS = 2**22 + 1 + 2 * SPARE
# From 4 to 8 the float32 numbers are 2⁻²¹ apart and their bits count upwards, so that adding 6 to
# a cosine rounds it, and its bits, less those of 5, number its multiple.
SHIFT_COUNTED = 6.0
FIRST = int(torch.tensor(SHIFT_COUNTED - 1.0).view(torch.int32)) - SPARE
#: A rate is supported if the accepted impostor pairs come from so many pairs of identities.
FEWEST_IDENTITY_PAIRS = 10
MOST_KEPT = 2**22  # pairs; with both rows and the cosine 48 MB
BLOCK_COSINES = 2**21  # cosines computed at once, 16 MB
SAMPLED = 2**18  # pairs looked at to guess where to stop keeping
Rows = npt.NDArray[np.intp]
MOST_PAIRS = 2**21  # of each kind; beyond, a sample is drawn


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


@dataclass(frozen=True, eq=False)
class Ranked:
    """Scores in ascending order; what is asked about them is answered by binary search.

    values: the scores; equal ones are repeated, or one stands for several.
    before: how many scores come before each value, and in total (len + 1,); None where every
        value stands for one.

        >>> ranked = Ranked.counted(np.array([0.25, 0.5], np.float32), np.array([3, 1]))
        >>> ranked.total, ranked.up_to(np.array([0.25], np.float32)).tolist()
        (4, [3])
    """

    values: Scores
    before: Counts | None = None

    @classmethod
    def sort(cls, scores: Scores) -> "Ranked":
        """From scores in any order, which are sorted in place."""
        scores.sort()
        return cls(scores)

    @classmethod
    def counted(cls, values: Scores, counts: Counts) -> "Ranked":
        """From distinct ascending values and how often each occurs."""
        held = np.flatnonzero(counts)
        return cls(values[held], np.concatenate(([0], np.cumsum(counts[held]))))

    @property
    def total(self) -> int:
        """How many scores there are."""
        return len(self.values) if self.before is None else int(self.before[-1])

    def below(self, scores: Scores) -> Counts:
        """How many are < each of `scores`."""
        return self._rank(np.searchsorted(self.values, scores, side="left"))

    def up_to(self, scores: Scores) -> Counts:
        """How many are ≤ each of `scores`."""
        return self._rank(np.searchsorted(self.values, scores, side="right"))

    def at(self, ranks: Counts) -> Scores:
        """The scores with so many before them, where all stand in a row."""
        if self.before is None:
            return self.values[ranks]
        return self.values[np.searchsorted(self.before, ranks, side="right") - 1]

    def next_above(self, scores: Scores) -> Scores:
        """The lowest that is > each of `scores`; inf where there is none."""
        places = np.searchsorted(self.values, scores, side="right")
        found = self.values[np.minimum(places, len(self.values) - 1)]
        return np.where(places < len(self.values), found, np.float32(np.inf))

    def next_below(self, scores: Scores) -> Scores:
        """The highest that is < each of `scores`; −inf where there is none."""
        places = np.searchsorted(self.values, scores, side="left")
        found = self.values[np.maximum(places, 1) - 1]
        return np.where(places > 0, found, np.float32(-np.inf))

    def distinct(self) -> Scores:
        """The distinct scores."""
        first = np.ones(len(self.values), dtype=np.bool_)
        np.not_equal(self.values[1:], self.values[:-1], out=first[1:])
        return self.values[first]

    def _rank(self, places: npt.NDArray[np.intp]) -> Counts:
        return places if self.before is None else self.before[places]


def score_all_pairs(rows: SortedRows, *, exact: bool = True) -> tuple[Scores, Scores]:
    """Cosines of all pairs of `rows` in float64: those with equal labels, and the others.

    exact: whether to keep them in float64; otherwise in float32.

    >>> import torch
    >>> rows = SortedRows.build([[1, 0], [0, 1], [0, 2]], [5, 5, 6], torch.float64)
    >>> score_all_pairs(rows)
    (array([0.]), array([0., 1.]))
    """
    genuine_count, impostor_count = rows.pair_counts()
    dtype: type[np.floating[Any]] = np.float64 if exact else np.float32
    genuine = np.empty(genuine_count, dtype=dtype)
    impostor = np.empty(impostor_count, dtype=dtype)
    filled = [0, 0]

    def place(kind: int, size: int) -> Scores:
        filled[kind] += size
        return (genuine, impostor)[kind][filled[kind] - size : filled[kind]]

    memory = rows.memory(*KEPT_BLOCK)
    for block in rows.blocks(*KEPT_BLOCK):
        cosines = rows.cosines(block, memory).numpy()
        if block.mixed:
            for kind, chosen in enumerate(rows.kinds(block)):
                found = rounded(cosines[chosen])
                place(kind, len(found))[:] = found
        else:
            rounded(cosines, place(1, cosines.size).reshape(cosines.shape))
    return genuine, impostor


def score_pairs(embeddings: Array, pairs: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Cosines (P,) of the `pairs` (P, 2) of row numbers.

    >>> score_pairs([[1, 0], [0, 1], [0, 2]], np.array([[1, 2], [0, 1]]))
    array([1., 0.])
    """
    matrix = embedding_matrix(embeddings)
    refuse_zero_rows(matrix)
    units = np.array(matrix, dtype=np.float64)
    normalize_rows(units)
    cosines = np.empty(len(pairs))
    step = max(1, KEPT_BLOCK[0] * KEPT_BLOCK[1] // units.shape[1])
    for start in range(0, len(pairs), step):
        i, j = pairs[start : start + step].T
        cosines[start : start + step] = rounded(np.einsum("pd,pd->p", units[i], units[j]))
    return cosines


def rounded(cosines: npt.NDArray[np.float64], out: Scores | None = None) -> Scores:
    """Cosines as scores, in `out` and its precision or in place; overwrites its input.

    >>> rounded(np.array([1e-17, 1 + 2e-16, 0.5 - 1e-16, 0.5 - 2.0**-44])) - [0, 1, 0.5, 0.5]
    array([ 0.00000000e+00,  0.00000000e+00,  0.00000000e+00, -5.68434189e-14])
    """
    cosines += SHIFT_KEPT
    cosines -= SHIFT_KEPT
    if out is None:
        out = cosines
    np.clip(cosines, -1, 1, out=out, casting="same_kind")
    return out


def checked_pairs(
    pairs: Array, same: Array, count: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """`pairs` (P, 2) of `count` rows and `same` (P,) as arrays.

    Raises `InputError` for row numbers out of range, and other types or shapes.
    """
    rows: npt.NDArray[Any] = as_array(pairs, "pairs")
    is_same: npt.NDArray[Any] = as_array(same, "same")
    if rows.ndim != 2 or rows.shape[1] != 2 or not len(rows):
        raise InputError(f"pairs have shape {rows.shape}, expected (P, 2) with P ≥ 1")
    if rows.dtype.kind not in "iu":
        raise InputError(f"pairs are of type {rows.dtype}, expected integers")
    if rows.min() < 0 or rows.max() >= count:
        outside = int(rows.min() if rows.min() < 0 else rows.max())
        raise InputError(f"pairs name row {outside}, expected rows from 0 to {count - 1}")
    if is_same.shape != (len(rows),):
        raise InputError(
            f"same has shape {is_same.shape}, expected ({len(rows)},): one answer per pair"
        )
    if is_same.dtype != np.bool_:
        raise InputError(f"same is of type {is_same.dtype}, expected bool")
    return rows.astype(np.intp), is_same


def to_cells(cosines: Tensor) -> Tensor:
    """The number of the multiple of 2⁻²¹ that is nearest, int32; overwrites its input.

    >>> to_cells(torch.tensor([-1.0, 0.0, 1.0])) - SPARE
    tensor([      0, 2097152, 4194304], dtype=torch.int32)
    """
    return cosines.add_(SHIFT_COUNTED).view(torch.int32).sub_(FIRST)


def cell_values() -> npt.NDArray[np.float32]:
    """The cosine that each cell stands for (CELLS,)."""
    values = np.arange(-SPARE, CELLS - SPARE, dtype=np.float64) * STEP - 1.0
    return values.clip(-1.0, 1.0).astype(np.float32)


def tally_all_pairs(rows: SortedRows) -> tuple[Ranked, Ranked]:
    """Rounded cosines of all pairs of float32 `rows`: those with equal labels, and the others.

    Memory: a block of cosines, and two counters of 34 MB, and as much while counting, per thread.
    """
    threads = torch.get_num_threads()
    counters = [torch.zeros(2, CELLS, dtype=torch.int64) for _ in range(threads)]
    memory = rows.memory(*COUNTED_BLOCK)
    with ThreadPoolExecutor(threads) as pool:
        for block in rows.blocks(*COUNTED_BLOCK):
            # Counting is a walk of one thread, so that each takes some of the rows.
            cosines = rows.cosines(block, memory)
            pieces = cosines.chunk(threads)
            tops = np.cumsum([block.top, *map(len, pieces)])
            parts = [
                Block(int(top), int(bottom), block.left, block.right, block.mixed)
                for top, bottom in pairwise(tops)
            ]
            used = counters[: len(parts)]
            list(pool.map(_count, used, pieces, [rows] * len(parts), parts))
    for counter in counters[1:]:
        counters[0] += counter
    counts = counters[0].numpy()  # (2, CELLS)
    counts[:, SPARE] += counts[:, :SPARE].sum(axis=1)
    counts[:, -1 - SPARE] += counts[:, -SPARE:].sum(axis=1)
    values = cell_values()[SPARE:-SPARE]
    genuine, impostor = counts[:, SPARE:-SPARE]
    return Ranked.counted(values, genuine), Ranked.counted(values, impostor)


def _count(counter: Tensor, cosines: Tensor, rows: SortedRows, block: Block) -> None:
    cells = to_cells(cosines)
    if not block.mixed:
        _add(counter[1], cells.view(-1))
        return
    for kind, chosen in enumerate(rows.kinds(block)):
        _add(counter[kind], torch.from_numpy(cells.numpy()[chosen]))


def _add(counter: Tensor, cells: Tensor) -> None:
    if len(cells):
        found = torch.bincount(cells)
        counter[: len(found)] += found


@dataclass(frozen=True, eq=False)
class ImpostorPairs:
    """Pairs of different identities, by falling cosine, down to the `floor`.

    Fields:
        cosines: (P,) float32, falling.
        first, second: (P,) the two rows of each pair.
        identity: (N,) for each row the number of its identity.
        sizes: (I,) how many rows an identity has.
        count: how many impostor pairs there are in all; P of them are kept.
        floor: every pair with a cosine of at least this is kept.
    """

    cosines: npt.NDArray[np.float32]
    first: npt.NDArray[np.int32]
    second: npt.NDArray[np.int32]
    identity: Rows
    sizes: Rows
    count: int
    floor: float

    @classmethod
    def of(cls, embeddings: Array, labels: Array, *, most: int = MOST_KEPT) -> "ImpostorPairs":
        """Of embeddings (N, D) and labels (N,), keeping about `most` pairs or fewer.

        Raises `InputError` for bad embeddings or labels, a row of zeros, and fewer than two
        identities.
        """
        units = unit_matrix(embeddings)
        distinct, identity = class_numbers(labels, len(units))
        if len(distinct) < 2:
            raise InputError(
                f"labels hold the one identity {distinct[0]}, expected at least two identities"
            )
        sizes = np.bincount(identity)
        count = int((len(units) ** 2 - (sizes.astype(object) ** 2).sum()) // 2)
        floor = _floor(units, identity, most / count) if count > most else -1.0
        cosines, first, second = _pairs_above(units, identity, floor)
        order = np.argsort(-cosines, kind="stable")
        return cls(cosines[order], first[order], second[order], identity, sizes, count, floor)

    @cached_property
    def rising(self) -> npt.NDArray[np.float32]:
        """The cosines, negated, to be searched."""
        return -self.cosines

    def whole_ties(self, accepted: int) -> int:
        """The highest number ≤ `accepted` of first pairs that splits no ties."""
        if not 0 < accepted < len(self.cosines):
            return accepted
        if self.cosines[accepted - 1] > self.cosines[accepted]:
            return accepted
        return int(np.searchsorted(self.rising, self.rising[accepted], side="left"))

    def threshold(self, accepted: int) -> float:
        """A threshold that accepts just the first `accepted` pairs, which must split no ties.

        It lies halfway to the next pair, so that it holds for cosines in another precision too.
        """
        if accepted == len(self.cosines):
            return self.floor
        below = self.cosines[accepted]
        if accepted == 0:
            return float(np.nextafter(below, np.float32(2)))
        return (float(below) + float(self.cosines[accepted - 1])) / 2

    def identity_pairs(self, accepted: int) -> int:
        """How many pairs of identities the first `accepted` pairs of samples come from."""
        a = self.identity[self.first[:accepted]]
        b = self.identity[self.second[:accepted]]
        return len(np.unique(np.minimum(a, b) * len(self.sizes) + np.maximum(a, b)))

    def support(self, accepted: int) -> int:
        """The same where it is below ten, that is, too few; otherwise ten or more."""
        for few in (1024, accepted):
            found = self.identity_pairs(min(few, accepted))
            if found >= FEWEST_IDENTITY_PAIRS:
                break
        return found


def unit_matrix(embeddings: Array) -> npt.NDArray[np.float64]:
    """`embeddings` checked, with rows of length 1, as a copy in float64."""
    matrix = embedding_matrix(embeddings)
    refuse_zero_rows(matrix)
    units = np.array(matrix, dtype=np.float64)
    normalize_rows(units)
    return units


def rounded_cosines(cosines: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Cosines without the digits that rounding errors reach; overwrites its input."""
    cosines += 4096.0  # beside which float64 has steps of 2⁻⁴⁰
    cosines -= 4096.0
    return np.clip(cosines.astype(np.float32), -1, 1)


def _floor(units: npt.NDArray[np.float64], identity: Rows, share: float) -> float:
    """About where the highest `share` of the impostor cosines begins, rather higher than lower."""
    generator = np.random.default_rng(0)
    i, j = generator.integers(len(units), size=(2, SAMPLED))
    i, j = (rows[identity[i] != identity[j]] for rows in (i, j))
    parts = [
        np.einsum("pd,pd->p", units[i[at : at + 4096]], units[j[at : at + 4096]])
        for at in range(0, len(i), 4096)
    ]
    cosines = rounded_cosines(np.concatenate(parts))
    return float(np.float32(np.quantile(cosines, 1 - 0.8 * share)))


def _pairs_above(
    units: npt.NDArray[np.float64], identity: Rows, floor: float
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Cosine and rows of every impostor pair i < j whose cosine is at least `floor`."""
    found = []
    step = max(1, BLOCK_COSINES // len(units))
    for start in range(0, len(units), step):
        cosines = rounded_cosines(units[start : start + step] @ units[start:].T)
        i, j = np.nonzero(cosines >= floor)
        impostor = (i < j) & (identity[start + i] != identity[start + j])
        i, j = i[impostor], j[impostor]
        found.append((cosines[i, j], (start + i).astype(np.int32), (start + j).astype(np.int32)))
    cosines, first, second = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return cosines, first, second


def pair_cosines(
    embeddings: Array, labels: Array, *, most: int = MOST_PAIRS, seed: int = 0
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Cosines of pairs, whether they are genuine, and how many pairs each stands for.

    All pairs where there are at most `most` of a kind (some 2,000 embeddings for the impostors);
    otherwise that many, drawn with replacement by `seed`, each standing for more than one.

    Raises `InputError` for bad embeddings or labels, and where a kind of pairs does not occur.

        >>> pair_cosines([[1, 0], [0, 1], [0, 2]], [5, 5, 6])
        (array([0., 0., 1.], dtype=float32), array([ True, False, False]), array([1., 1., 1.]))
    """
    check_count("most", most)
    units = unit_matrix(embeddings)
    _, identity = class_numbers(labels, len(units))
    sizes = np.bincount(identity)
    genuine = int((sizes * (sizes - 1) // 2).sum())
    impostor = len(units) * (len(units) - 1) // 2 - genuine
    if not genuine or not impostor:
        raise InputError(
            f"there are {genuine} genuine and {impostor} impostor pairs, expected both"
        )
    generator = np.random.default_rng(seed)
    kinds = [
        _genuine_rows(identity, sizes, most if genuine > most else None, generator),
        _impostor_rows(identity, most if impostor > most else None, generator),
    ]
    i, j = np.concatenate(kinds, axis=1)
    cosines = [
        rounded_cosines(np.einsum("pd,pd->p", units[i[at : at + 4096]], units[j[at : at + 4096]]))
        for at in range(0, len(i), 4096)
    ]
    numbers = np.array([kinds[0].shape[1], kinds[1].shape[1]])
    same = np.repeat([True, False], numbers)
    stands_for = np.repeat(np.array([genuine, impostor]) / numbers, numbers)
    return np.concatenate(cosines), same, stands_for


def _genuine_rows(
    identity: Rows,
    sizes: Rows,
    drawn: int | None,
    generator: np.random.Generator,
) -> Rows:
    """Rows (2, P) of all genuine pairs, or of `drawn` ones."""
    order = np.argsort(identity, kind="stable")
    starts = np.cumsum(sizes) - sizes
    if drawn is None:
        parts = [
            starts[which] + np.stack(np.triu_indices(sizes[which], 1))
            for which in np.flatnonzero(sizes > 1)
        ]
        return np.asarray(order[np.concatenate(parts, axis=1)])
    chance = sizes * (sizes - 1.0)
    which = generator.choice(len(sizes), size=drawn, p=chance / chance.sum())
    first = generator.integers(sizes[which])
    second = (first + generator.integers(1, sizes[which])) % sizes[which]
    return np.asarray(order[starts[which] + np.stack((first, second))])


def _impostor_rows(identity: Rows, drawn: int | None, generator: np.random.Generator) -> Rows:
    """Rows (2, P) of all impostor pairs, or of `drawn` ones."""
    if drawn is None:
        i, j = np.triu_indices(len(identity), 1)
        apart = identity[i] != identity[j]
        return np.stack((i[apart], j[apart]))
    found: list[Rows] = []
    while sum(part.shape[1] for part in found) < drawn:
        rows = generator.integers(len(identity), size=(2, drawn))
        found.append(rows[:, identity[rows[0]] != identity[rows[1]]])
    return np.concatenate(found, axis=1)[:, :drawn]
