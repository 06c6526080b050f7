"""Cosines of pairs of embeddings: one precision, one rounding, one way to walk over all pairs.

Embeddings are scaled to unit rows of float32. Their products are rounded to multiples of 2⁻²¹
(`round_cosines`), which is about what float32 products of some hundred terms are off by anyway: so
pairs that are equally similar on paper tie, and the cosine of two embeddings in an evaluation, a
verification and a gallery is one number, or at most one step off. As there are but four million
such multiples, a count for each holds all there is to know about the cosines of a billion pairs
(`count_all_pairs`).

Pairs are walked over in blocks. `SortedRows` has its rows sorted by label. Of row i, the partners
before `ends[i]`, where its class ends, are itself, earlier rows and genuine partners; all from
there on are impostors. So most blocks hold nothing but impostor pairs, and only those near the
diagonal need a closer look.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    normalize_rows,
    read_labelled,
)

#: Multiples of the grid in one unit of cosine.
STEPS = 2**21
#: Half of one: a threshold so much above a score rejects it in any precision.
HALF_STEP = 0.5 / STEPS
#: Multiples from −1 to 1.
CELLS = 2 * STEPS + 1
#: Cosines computed at once, 64 MB.
BLOCK = 2**24

_HEIGHT = 2048  # rows of a block of pairs; fewer make slower products
_TILE = 32  # rows of it that are counted at once, which the cache holds
_BEYOND = 4096  # multiples beyond ±1 that products may reach by rounding, and far more
# From 4 to 8 the float32 numbers are 2⁻²¹ apart and their bits count upwards, so that adding 6 to
# a cosine rounds it, and its bits, less those of 5, number its multiple.
_SHIFT = np.float32(6)
_FIRST = int(np.float32(5).view(np.int32))
_ROWS = 4096  # taken up in float64 at once

#: A rate is supported if the accepted impostor pairs come from so many pairs of identities.
FEWEST_IDENTITY_PAIRS = 10
MOST_KEPT = 2**22  # impostor pairs; with both rows and the cosine 48 MB
SAMPLED = 2**18  # pairs looked at to guess where to stop keeping
MOST_PAIRS = 2**21  # of each kind whose cosines are listed one by one

Rows: TypeAlias = npt.NDArray[np.intp]
Counts: TypeAlias = npt.NDArray[np.int64]
Scores: TypeAlias = npt.NDArray[np.float32]
Number = TypeVar("Number", np.float32, np.float64)


def unit_rows(matrix: npt.NDArray[Any], order: Rows | None = None) -> npt.NDArray[np.float32]:
    """Rows (N, D) of any length but zero as float32 rows of length 1, in the given `order`.

    >>> unit_rows(np.array([[3, 4], [0, 2]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """
    count = len(matrix) if order is None else len(order)
    units = np.empty((count, matrix.shape[1]), dtype=np.float32)
    for start in range(0, count, _ROWS):
        part = slice(start, start + _ROWS)
        rows = np.array(matrix[part if order is None else order[part]], dtype=np.float64)
        normalize_rows(rows)
        units[part] = rows
    return units


def round_cosines(cosines: npt.ArrayLike) -> Scores:
    """To the nearest multiple of 2⁻²¹ = 4.8e-7 within [−1, 1], as float32.

    An array of float32 is rounded in place.

        >>> round_cosines([1 + 1e-7, 0.5 - 1e-7, 2.0**-21]).tolist()
        [1.0, 0.5, 4.76837158203125e-07]
    """
    values = np.asarray(cosines)
    if values.dtype != np.float32:
        steps = np.rint(values.astype(np.float64).clip(-1, 1) * STEPS)
        return np.asarray(steps / STEPS, dtype=np.float32)
    np.clip(values, -1, 1, out=values)
    values += _SHIFT
    values -= _SHIFT
    return values


def cell_numbers(cosines: Scores) -> Rows:
    """The number of each one's multiple of 2⁻²¹, from 0 for −1; overwrites its input.

    >>> cell_numbers(np.float32([-1, 0, 1])).tolist()
    [0, 2097152, 4194304]
    """
    np.clip(cosines, -1, 1, out=cosines)
    cosines += _SHIFT
    return np.subtract(cosines.view(np.int32), _FIRST, dtype=np.intp)


def product_blocks(
    rows: npt.NDArray[Number], columns: npt.NDArray[Number], most: int = BLOCK
) -> Iterator[tuple[slice, npt.NDArray[Number]]]:
    """Products of rows (N, D) with all columns (M, D), some rows and about `most` at a time.

    In the type of both: float32 for cosines, float64 for distances, which cancel. Yields which
    rows, and their products (b, M), which are overwritten by the next.
    """
    step = max(1, min(most // len(columns), len(rows)))
    memory = np.empty((step, len(columns)), dtype=rows.dtype)  # fresh memory would cost a fifth
    for start in range(0, len(rows), step):
        part = slice(start, min(start + step, len(rows)))
        yield part, np.matmul(rows[part], columns.T, out=memory[: part.stop - start])


def cosine_blocks(
    rows: npt.NDArray[np.float32], columns: npt.NDArray[np.float32]
) -> Iterator[tuple[slice, Scores]]:
    """Rounded cosines of unit rows with all unit columns, as `product_blocks` has them.

    Some hundred rows at a time, of which the processor's cache holds much while they are sorted;
    with many columns no fewer than the product needs to be quick.
    """
    most = max(2**22, min(BLOCK, 128 * len(columns)))
    for part, cosines in product_blocks(rows, columns, most):
        yield part, round_cosines(cosines)


def score_pairs(units: npt.NDArray[np.float32], first: Rows, second: Rows) -> Scores:
    """Rounded cosines (P,) of pairs of unit rows.

    >>> units = np.float32([[1, 0], [0, 1], [0, 1]])
    >>> score_pairs(units, np.array([1, 0]), np.array([2, 1]))
    array([1., 0.], dtype=float32)
    """
    cosines = np.empty(len(first), dtype=np.float32)
    for start in range(0, len(first), _ROWS):
        part = slice(start, start + _ROWS)
        left, right = units[first[part]], units[second[part]]
        cosines[part] = round_cosines(np.einsum("pd,pd->p", left, right, dtype=np.float64))
    return cosines


@dataclass(frozen=True, eq=False)
class Block:
    """Cosines of the sorted rows from `top` to `bottom` with those from `left` to `right`.

    cosines: (bottom − top, right − left), neither clipped nor rounded, and overwritten by the next.
    mixed: whether it holds other than impostor pairs.
    """

    top: int
    bottom: int
    left: int
    right: int
    mixed: bool
    cosines: Scores


@dataclass(frozen=True, eq=False)
class SortedRows:
    """Embeddings as unit rows in the order of their labels.

    units: (N, D).
    order: the row that each was before (N,).
    labels: the distinct labels, sorted (I,).
    numbers: for each row the place of its label there (N,), ascending.
    ends: for each row where the rows of its label end (N,).
    """

    units: npt.NDArray[np.float32]
    order: Rows
    labels: npt.NDArray[Any]
    numbers: Rows
    ends: Rows

    @classmethod
    def build(cls, embeddings: Array, labels: Array) -> "SortedRows":
        """Raises `InputError` for bad embeddings or labels, and for rows of zeros."""
        matrix, distinct, numbers = read_labelled(embeddings, labels)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers))
        numbers = numbers[order]
        return cls(unit_rows(matrix, order), order, distinct, numbers, ends[numbers])

    @cached_property
    def sizes(self) -> Rows:
        """How many rows each label has (I,)."""
        return np.bincount(self.numbers)

    def pair_counts(self) -> tuple[int, int]:
        """How many pairs are genuine, and how many are impostors."""
        count = len(self.numbers)
        genuine = int((self.sizes * (self.sizes - 1) // 2).sum())
        return genuine, count * (count - 1) // 2 - genuine

    def blocks(self) -> Iterator[Block]:
        """Every pair i < j once, in blocks."""
        count = len(self.numbers)
        height = min(_HEIGHT, count)
        width = min(max(1, BLOCK // height), count)
        memory = np.empty(height * width, dtype=np.float32)
        for top in range(0, count, height):
            bottom = min(top + height, count)
            edge = int(self.ends[bottom - 1])
            for first, stop, mixed in ((top, edge, True), (edge, count, False)):
                for left in range(first, stop, width):
                    right = min(left + width, stop)
                    shape = bottom - top, right - left
                    cosines = memory[: shape[0] * shape[1]].reshape(shape)
                    np.matmul(self.units[top:bottom], self.units[left:right].T, out=cosines)
                    yield Block(top, bottom, left, right, mixed, cosines)

    def kinds(self, block: Block) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which pairs of a block are genuine, and which impostors; the rest is not to be counted.

        >>> rows = SortedRows.build(np.eye(3), [4, 4, 7])
        >>> for kind in rows.kinds(next(rows.blocks())):
        ...     print(kind.astype(int).tolist())
        [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
        [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
        """
        columns = np.arange(block.left, block.right)
        impostor = columns >= self.ends[block.top : block.bottom, None]
        later = columns > np.arange(block.top, block.bottom)[:, None]
        return later & ~impostor, impostor


class ScoreCounts(NamedTuple):
    """How many genuine and how many impostor pairs have each score.

    scores: the distinct ones, ascending (V,).
    genuine, impostor: numbers of pairs (V,).
    """

    scores: npt.NDArray[np.float64]
    genuine: Counts
    impostor: Counts

    @classmethod
    def of(cls, genuine: npt.NDArray[Any], impostor: npt.NDArray[Any]) -> "ScoreCounts":
        """From the scores of either kind, in any order.

        >>> ScoreCounts.of(np.array([0.5, 0.25]), np.array([0.25, 0.25])).impostor
        array([2, 0])
        """
        scores, places = np.unique(np.concatenate((genuine, impostor)), return_inverse=True)
        kinds = places[: len(genuine)], places[len(genuine) :]
        counts = (np.bincount(kind, minlength=len(scores)) for kind in kinds)
        return cls(scores.astype(np.float64), *counts)

    def totals(self) -> tuple[int, int]:
        """How many pairs are genuine and how many impostors; raises `InputError` unless both are.

        A false accept rate needs impostors, a true accept rate genuine pairs.
        """
        genuine, impostor = int(self.genuine.sum()), int(self.impostor.sum())
        if not genuine or not impostor:
            raise InputError(
                f"there are {genuine} genuine and {impostor} impostor pairs, expected at least one"
                " of each"
            )
        return genuine, impostor


def count_all_pairs(rows: SortedRows) -> ScoreCounts:
    """Rounded cosines of all pairs.

    Memory beyond the rows: some 200 MB for a block and the counts, whatever the number of pairs.
    """
    recent = np.zeros((2, CELLS + 2 * _BEYOND), dtype=np.uint32)  # small, so fast to count in
    earlier: Counts | None = None
    waiting = 0
    for block in rows.blocks():
        waiting += block.cosines.size
        if waiting >= 2**32:
            earlier = recent.astype(np.int64) if earlier is None else earlier + recent
            recent[:], waiting = 0, block.cosines.size
        _count_block(rows, block, *recent)
    counts = recent if earlier is None else earlier + recent
    counts[:, _BEYOND] += counts[:, :_BEYOND].sum(axis=1, dtype=counts.dtype)
    counts[:, -_BEYOND - 1] += counts[:, -_BEYOND:].sum(axis=1, dtype=counts.dtype)
    counts = counts[:, _BEYOND:-_BEYOND]
    cells = np.flatnonzero(counts[0] | counts[1])
    genuine, impostor = counts[:, cells].astype(np.int64)
    return ScoreCounts((cells - STEPS) / STEPS, genuine, impostor)


def _count_block(rows: SortedRows, block: Block, genuine: Any, impostor: Any) -> None:
    """Add the pairs of a block to the counts of both kinds; overwrites its cosines.

    What rounding has taken beyond ±1 is counted there; to clip it here would take as long as to
    round it.
    """
    one = np.uint32(1)
    for start in range(0, len(block.cosines), _TILE):
        cosines = block.cosines[start : start + _TILE]
        cosines += _SHIFT
        cells = np.subtract(cosines.view(np.int32), _FIRST - _BEYOND, dtype=np.intp)
        if not block.mixed:
            np.add.at(impostor, cells.ravel(), one)
            continue
        for row, values in enumerate(cells, block.top + start):
            later, end = (max(0, column - block.left) for column in (row + 1, int(rows.ends[row])))
            np.add.at(genuine, values[later:end], one)
            np.add.at(impostor, values[end:], one)


@dataclass(frozen=True, eq=False)
class ImpostorPairs:
    """Pairs of different identities, by falling cosine: what every threshold is read from.

    Only the highest are kept, as only they decide about low rates; so memory stays bounded however
    many samples there are.

    Fields:
        cosines: (P,) falling.
        first, second: (P,) the two rows of each pair.
        identity: (N,) for each row the number of its identity.
        sizes: (I,) how many rows an identity has.
        count: how many impostor pairs there are in all; P of them are kept.
        floor: every pair with a cosine of at least this is kept.
    """

    cosines: Scores
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
        rows = SortedRows.build(embeddings, labels)
        if len(rows.labels) < 2:
            raise InputError(
                f"labels hold the one identity {rows.labels[0]}, expected at least two identities"
            )
        count = rows.pair_counts()[1]
        floor = _floor(rows, most / count) if count > most else -1.0
        cosines, first, second = _pairs_above(rows, floor)
        order = np.argsort(-cosines, kind="stable")
        identity = np.empty(len(rows.order), dtype=np.intp)
        identity[rows.order] = rows.numbers
        return cls(cosines[order], first[order], second[order], identity, rows.sizes, count, floor)

    @cached_property
    def rising(self) -> Scores:
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
            return float(below) + HALF_STEP
        return (float(below) + float(self.cosines[accepted - 1])) / 2

    def by_probe(self, accepted: int) -> tuple[Rows, Rows]:
        """The first `accepted` pairs from either end: rows of probes, and of others."""
        first, second = (rows[:accepted].astype(np.intp) for rows in (self.first, self.second))
        return np.concatenate((first, second)), np.concatenate((second, first))

    def chance(self, subject: Rows, hits: Rows, samples: int) -> npt.NDArray[np.float64]:
        """How likely one of the `hits` rows of a subject is among `samples` rows drawn of it."""
        missed, sizes = np.ones(len(hits)), self.sizes[subject]
        for taken in range(samples):  # C(n − c, s)/C(n, s), factor by factor
            missed *= np.maximum(sizes - hits - taken, 0) / (sizes - taken)
        return 1 - missed

    def identity_pairs(self, accepted: int) -> int:
        """How many pairs of identities the first `accepted` pairs of samples come from."""
        a = self.identity[self.first[:accepted]]
        b = self.identity[self.second[:accepted]]
        return len(np.unique(np.minimum(a, b) * len(self.sizes) + np.maximum(a, b)))

    def support(self, accepted: int) -> int:
        """The same where it is below ten, that is, too few; otherwise ten or more."""
        for few in (1024, accepted):
            count = self.identity_pairs(min(few, accepted))
            if count >= FEWEST_IDENTITY_PAIRS:
                break
        return count


def _floor(rows: SortedRows, share: float) -> float:
    """About where the highest `share` of the impostor cosines begins, rather higher than lower."""
    places = np.argsort(rows.order)  # so that the order of labels has no part in it
    i, j = places[np.random.default_rng(0).integers(len(places), size=(2, SAMPLED))]
    apart = rows.numbers[i] != rows.numbers[j]
    cosines = score_pairs(rows.units, i[apart], j[apart])
    return float(np.float32(np.quantile(cosines, 1 - 0.8 * share)))


def _pairs_above(
    rows: SortedRows, floor: float
) -> tuple[Scores, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Cosine and rows of every impostor pair whose cosine is at least `floor`."""
    order = rows.order.astype(np.int32)
    parts = []
    for block in rows.blocks():
        cosines = round_cosines(block.cosines)
        chosen = cosines >= floor
        if block.mixed:
            chosen &= rows.kinds(block)[1]
        i, j = np.nonzero(chosen)
        parts.append((cosines[i, j], order[block.top + i], order[block.left + j]))
    cosines, first, second = map(np.concatenate, zip(*parts, strict=True))
    return cosines, first, second


def pair_cosines(
    embeddings: Array, labels: Array
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Cosines of all pairs, whether they are genuine, and how many pairs each stands for.

    One each; of a kind with more than two million pairs, every distinct cosine stands once.

    Raises `InputError` for bad embeddings or labels, and where a kind of pairs does not occur.

        >>> pair_cosines([[1, 0], [0, 1], [0, 2]], [5, 5, 6])
        (array([0., 0., 1.]), array([ True, False, False]), array([1., 1., 1.]))
    """
    pairs = count_all_pairs(SortedRows.build(embeddings, labels))
    cosines, stands_for = [], []
    for counts, total in zip(pairs[1:], pairs.totals(), strict=True):
        if total <= MOST_PAIRS:
            cosines.append(np.repeat(pairs.scores, counts))
            stands_for.append(np.ones(total))
        else:
            cosines.append(pairs.scores[counts > 0])
            stands_for.append(counts[counts > 0].astype(np.float64))
    same = np.repeat([True, False], [len(kind) for kind in cosines])
    return np.concatenate(cosines), same, np.concatenate(stands_for)
