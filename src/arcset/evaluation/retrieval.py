"""Retrieval: does a search by example find samples of the same class?

What retrieval asks of a ranking is only whether its first, second, … place is of the right class,
so nothing else is kept: of the rounded cosines, those of the query's own class are lowered
by half a step, and the sorted numbers alone tell the rank and the kind. Half a step lower means
that among equal cosines the wrong references come first.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from arcset.checks import check_counts
from arcset.errors import InputError
from arcset.evaluation.arrays import Array, find_labels, read_labelled
from arcset.evaluation.bootstrap import (
    DRAWS,
    SEED,
    Resampling,
    draw_means,
    find_blocked,
    groups_of,
    search_error,
)
from arcset.evaluation.pairs import HALF_STEP, STEPS, Rows, Scores, cosine_blocks, unit_rows
from arcset.evaluation.rates import Floats
from arcset.evaluation.results import Result

Right = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Search:
    """Unit queries (Q, D) and references (M, D), both sorted by class.

    numbers: the class of each query (Q,).
    starts: class c holds the references from starts[c] to starts[c + 1].
    own: the place of each query among the references (Q,), or None if it is none of them.
    """

    queries: npt.NDArray[np.float32]
    numbers: Rows
    references: npt.NDArray[np.float32]
    starts: Rows
    own: Rows | None

    @classmethod
    def sort(
        cls,
        queries: npt.NDArray[Any],
        numbers: Rows,
        references: npt.NDArray[Any] | None,
        reference_numbers: Rows,
    ) -> "Search":
        """Of the queries that some reference shares its class with.

        Without references the queries search each other.
        """
        counts = np.bincount(reference_numbers, minlength=int(numbers.max()) + 1)  # (C,)
        starts = np.concatenate(([0], np.cumsum(counts)))
        order = np.argsort(numbers, kind="stable")
        if references is None:
            units = unit_rows(queries, order)
            own = np.flatnonzero(counts[numbers[order]] > 1)
            chosen = units if len(own) == len(units) else units[own]
            return cls(chosen, numbers[order[own]], units, starts, own)
        order = order[counts[numbers[order]] > 0]
        units = unit_rows(references, np.argsort(reference_numbers, kind="stable"))
        return cls(unit_rows(queries, order), numbers[order], units, starts, None)

    @property
    def relevant(self) -> Rows:
        """How many references each query should find, (Q,): those of its class but itself."""
        return np.diff(self.starts)[self.numbers] - (self.own is not None)

    @property
    def others(self) -> int:
        """How many references each query has, without itself."""
        return len(self.references) - (self.own is not None)

    def blocks(self, rows: Rows) -> Iterator[tuple[slice, Scores]]:
        """For some queries, ascending, their cosines with all references (b, M), in blocks.

        Half a step lower for those of the query's own class, and −inf for the query itself.
        """
        queries = self.queries if len(rows) == len(self.queries) else self.queries[rows]
        for part, cosines in cosine_blocks(queries, self.references):
            some = rows[part]
            classes, first = np.unique(self.numbers[some], return_index=True)
            for number, start, stop in zip(classes, first, [*first[1:], len(some)], strict=True):
                cosines[start:stop, self.starts[number] : self.starts[number + 1]] -= HALF_STEP
            if self.own is not None:
                cosines[np.arange(len(some)), self.own[some]] = -np.inf
            yield part, cosines

    def nearest_are_right(self, depths: Rows) -> Iterator[tuple[slice, Right]]:
        """By blocks of queries: whether the nearest reference, the next, … is of the query's class.

        Yields which queries, and (B, K) with K the largest of their `depths` (Q,), each of which
        is at most `others`.
        """
        for part, cosines in self.blocks(np.arange(len(self.queries))):
            cut = cosines.shape[1] - int(depths[part].max())
            if cut:
                cosines.partition(cut, axis=1)
            largest = cosines[:, cut:]
            largest.sort(axis=1)
            yield part, np.ascontiguousarray(_are_lowered(largest)[:, ::-1])


def _are_lowered(cosines: Scores) -> Right:
    """Which lie between two multiples of the grid."""
    steps = cosines * STEPS
    lowered: Right = np.rint(steps) != steps
    return lowered


@dataclass(frozen=True, kw_only=True)
class Retrieval(Result):
    """How well a query finds its class among the references, nearest by cosine first.

    Fields, R being the number of references of the query's class, without the query itself:
        recall_at: for each k the share of queries with one of their class among the k nearest.
        precision_at: for each k the mean share of the k nearest that are of the query's class.
            Both are NaN where there are fewer than k references.
        r_precision: mean share of the R nearest that are of the query's class.
        map_at_r: mean over queries of 1/R · Σ over ranks i ≤ R that are of the class of the
            precision at i. K. Musgrave et al., "A Metric Learning Reality Check" (2020).
        queries: how many were answered.
        left_out: queries that no search can answer, as no reference is of their class.
        references: how many were searched; by default that is every sample, and each query leaves
            itself out.
    """

    named: ClassVar[tuple[str, ...]] = ("recall_at", "precision_at", "r_precision", "map_at_r")

    recall_at: dict[int, float]
    precision_at: dict[int, float]
    r_precision: float
    map_at_r: float
    queries: int
    left_out: int
    references: int

    def _size(self) -> str:
        left_out = f" ({self.left_out:,} left out: no reference of their class)"
        queries = f"{self.queries:,} queries{left_out if self.left_out else ''}"
        return f"{queries} among {self.references:,} references"

    def _notes(self) -> dict[str, str]:
        undefined = [name for name, value in self.measures().items() if math.isnan(value)]
        return dict.fromkeys(undefined, "fewer references than that")


def retrieval(
    embeddings: Array,
    labels: Array,
    *,
    ks: Iterable[int] = (1, 5, 10),
    references: Array | None = None,
    reference_labels: Array | None = None,
    intervals: bool = False,
    draws: int = DRAWS,
    seed: int = SEED,
    groups: Array | None = None,
) -> Retrieval:
    """Search by each embedding and see how many of the nearest are of its class.

    Parameters:
        embeddings, labels: the queries (N, D), and the class of each (N,).
        ks: how many of the nearest to look at, whole numbers of at least 1.
        references, reference_labels: (M, D) and (M,), what is searched. It should not hold the
            queries themselves, which would find themselves first. By default every sample
            searches all others.
        intervals, draws, seed: see `bootstrap`. Identities of the queries are drawn; the
            references stay as they are, except for recall, see `search_error`.
        groups: (N,) of the queries, to draw whole groups of identities.

    Queries without any reference of their class are left out, and counted. Equal cosines are
    ranked against us: references of another class come first. Cosines are rounded as `pairs` says.

    Time grows as N·M·D, with a partial sort of N rows of M. Memory is a normalized copy of the
    input and about 200 MB.

    Raises `InputError` for references that do not fit the queries, and where no query has one of
    its class.

        >>> result = retrieval([[1, 0], [2, 1], [0, 1], [1, 2], [1, 1]], [0, 0, 1, 1, 2], ks=[1])
        >>> result.recall_at[1], result.map_at_r, result.queries, result.left_out
        (0.5, 0.5, 4, 1)
    """
    depths = list(dict.fromkeys(check_counts("ks", ks)))
    queries, distinct, numbers = read_labelled(embeddings, labels)
    if (references is None) != (reference_labels is None):
        missing = "references" if references is None else "reference_labels"
        raise InputError(
            f"{missing} are missing, expected references and reference_labels, or none"
        )
    searched, sought = None, numbers
    if references is not None and reference_labels is not None:
        searched, known, places = read_labelled(
            references, reference_labels, "references", "reference_labels", queries.shape[1]
        )
        among = find_labels(known, distinct)
        sought = np.where(among < 0, len(distinct), among)[places]

    search = Search.sort(queries, numbers, searched, sought)
    if not len(search.queries):
        raise InputError(
            f"none of the {len(queries)} queries has a reference of its class, expected at least"
            " one that has"
        )
    values = _per_query(search, depths)  # (Q, 2 · len(ks) + 2)
    means = values.mean(axis=0).tolist()
    result = Retrieval(
        recall_at=dict(zip(depths, means[: len(depths)], strict=True)),
        precision_at=dict(zip(depths, means[len(depths) : -2], strict=True)),
        r_precision=means[-2],
        map_at_r=means[-1],
        queries=len(search.queries),
        left_out=len(queries) - len(search.queries),
        references=len(sought),
    )
    if not intervals:
        return result
    resampling = Resampling.of(distinct, groups_of(numbers, groups), draws, seed)
    drawn = draw_means(values, search.numbers, resampling.of_identities)
    replicates = resampling.replicates(
        dict(zip(result.measures(), drawn.T, strict=True)),
        _recall_errors(search, depths, values, resampling.units),
    )
    return replace(result, replicates=replicates)


def _per_query(search: Search, ks: list[int]) -> Floats:
    """For each query recall at each k, precision at each k, R-precision and AP@R."""
    relevant = search.relevant
    within = [k for k in ks if k <= search.others]
    values = np.full((len(relevant), 2 * len(ks) + 2), np.nan)
    depths = np.maximum(relevant, max(within, default=1))
    for part, right in search.nearest_are_right(depths):
        for column, k in enumerate(ks):
            if k in within:
                hits = right[:, :k].sum(axis=1)
                values[part, column] = hits > 0
                values[part, len(ks) + column] = hits / k
        count, ranks = relevant[part], np.arange(1, right.shape[1] + 1)
        right &= ranks <= count[:, None]
        hits = right.cumsum(axis=1, dtype=np.int32)  # up to and with each rank
        values[part, -2] = hits[:, -1] / count
        values[part, -1] = (hits * right) @ (1 / ranks) / count
    return values


def _recall_errors(search: Search, ks: list[int], values: Floats, drawn: Rows) -> dict[str, float]:
    """The standard errors of recall at each k, by its name; `values` are those of the queries.

    drawn: for each identity the number of what it is drawn with. Classes of references that no
    query has are no identities that could be drawn.
    """
    hits = values[:, : len(ks)]
    filled = np.flatnonzero(np.diff(search.starts) > 0)  # classes with references
    missing = np.flatnonzero((hits == 0).any(axis=1))
    ahead = ((drawn[whose], count) for whose, count in _ahead_of_hits(search, missing, filled))
    blocked = find_blocked(ahead, np.append(drawn, -1)[filled.clip(max=len(drawn))], ks)
    return {
        f"recall_at[{k}]": search_error(
            hits[:, column] == 0, drawn[search.numbers], blocked[k], int(drawn.max()) + 1
        )
        for column, k in enumerate(ks)
        if not np.isnan(hits[:, column]).any()
    }


def _ahead_of_hits(search: Search, rows: Rows, classes: Rows) -> Iterator[tuple[Rows, Rows]]:
    """For some queries their class, and how many references of each class precede their first hit.

    In blocks: (b,), and (b, C) for the `classes` (C,), which must have references.
    """
    for part, cosines in search.blocks(rows):
        nearest = np.where(_are_lowered(cosines), cosines, -np.inf).max(axis=1, keepdims=True)
        ahead = np.add.reduceat(cosines > nearest, search.starts[classes], axis=1, dtype=np.intp)
        yield search.numbers[rows[part]], ahead
