"""Retrieval: does a search by example find samples of the same class?"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    check_choice,
    class_numbers,
    embedding_matrix,
    refuse_zero_rows,
)
from arcset.evaluation.bootstrap import DRAWS, SEED, draw_key, identity_weights
from arcset.evaluation.checks import checked_counts
from arcset.evaluation.results import Replicates, Result
from arcset.evaluation.search.faiss_search import nearest_are_right_by_faiss
from arcset.evaluation.search.nearest import Numbers, Search, nearest_are_right

__all__ = ["ENGINES", "Retrieval", "retrieval"]

ENGINES = ("auto", "blocks", "faiss")
PRECISE = 10**8  # up to so many cosines in float64; beyond, in float32, which is twice as fast

Floats = npt.NDArray[np.float64]


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

    def table(self) -> str:
        """The measures as aligned plain text; a k beyond the references carries a mark."""
        lines = [f"{'queries':<12}{self.queries:>11,}"]
        if self.left_out:
            lines.append(f"{'  left out':<12}{self.left_out:>11,}  no reference of their class")
        lines += [
            f"{'references':<12}{self.references:>11,}",
            f"{'MAP@R':<12}{'':5}{self.shown('map_at_r')}",
            f"{'R-precision':<12}{'':5}{self.shown('r_precision')}",
        ]
        if self.recall_at:
            lines += ["", f"{'k':>8}  {'recall@k':<24}  precision@k"]
        for k, recall in self.recall_at.items():
            precision, mark = self.shown(f"precision_at[{k}]"), " *" if math.isnan(recall) else ""
            lines.append(f"{k:>8}  {self.shown(f'recall_at[{k}]'):<24}  {precision}{mark}")
        if any(math.isnan(recall) for recall in self.recall_at.values()):
            lines.append("* fewer than k references")
        return "\n".join(lines)


def retrieval(
    embeddings: Array,
    labels: Array,
    *,
    ks: Iterable[int] = (1, 5, 10),
    references: Array | None = None,
    reference_labels: Array | None = None,
    engine: str = "auto",
    intervals: bool = False,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Retrieval:
    """Search by each embedding and see how many of the nearest are of its class.

    Parameters:
        embeddings: the queries (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers.
        ks: how many of the nearest to look at, whole numbers of at least 1.
        references, reference_labels: (M, D) and (M,), what is searched. It should not hold the
            queries themselves, which would find themselves first. By default every sample
            searches all others.
        engine: `blocks`, matrix products and a partial sort; `faiss`, its flat index, which is
            exact as well; or `auto`, the faster. That is `blocks`: measured on processors with
            20,000 × 128 and with 45,000 × 512, and 10 to 2,000 ranks, it took a third or less.
        intervals, draws, seed: see `bootstrap`. Identities of the queries are drawn; the
            references stay as they are.

    Queries without any reference of their class are left out, and counted. Equal cosines are
    ranked against us: references of another class come first. Up to 10⁸ cosines are computed in
    float64, and equal means equal to 2⁻⁴⁰; beyond that, and with `faiss`, in float32, where
    references whose cosines differ by less than 2⁻²² may trade places.

    Time grows as N·M·D, with a partial sort of N rows of M. Memory is a normalized copy of the
    input and less than 100 MB.

    Raises `InputError` for embeddings that are not a finite (N, D) matrix or hold a row of zeros,
    labels that are not N integers, references that do not fit the queries, and where no query has
    a reference of its class. Raises `OptionError` for a k below 1 and an unknown engine.

        >>> found = retrieval([[1, 0], [2, 1], [0, 1], [1, 2], [1, 1]], [0, 0, 1, 1, 2], ks=[1])
        >>> found.recall_at[1], found.map_at_r, found.queries, found.left_out
        (0.5, 0.5, 4, 1)
    """
    depths = list(dict.fromkeys(checked_counts("ks", ks)))
    check_choice("engine", engine, ENGINES)
    queries = embedding_matrix(embeddings)
    distinct, numbers = class_numbers(labels, len(queries))
    refuse_zero_rows(queries)
    if (references is None) != (reference_labels is None):
        missing = "references" if references is None else "reference_labels"
        raise InputError(
            f"{missing} are missing, expected references and reference_labels, or none"
        )
    searched, sought = None, numbers
    if references is not None and reference_labels is not None:
        searched = embedding_matrix(references, "references")
        known, places = class_numbers(reference_labels, len(searched), "reference_labels")
        refuse_zero_rows(searched, "references")
        if searched.shape[1] != queries.shape[1]:
            raise InputError(
                f"references have {searched.shape[1]} columns and embeddings {queries.shape[1]},"
                " expected as many"
            )
        sought = _renumbered(distinct, known)[places]

    coarse = engine == "faiss" or len(queries) * len(sought) > PRECISE
    search = Search.sort(queries, numbers, searched, sought, np.float32 if coarse else np.float64)
    if not len(search.queries):
        raise InputError(
            f"none of the {len(queries)} queries has a reference of its class, expected at least"
            " one that has"
        )
    values = _per_query(search, depths, engine)  # (Q, 2 · len(ks) + 2)
    means = values.mean(axis=0).tolist()
    result: dict[str, Any] = {
        "recall_at": dict(zip(depths, means[: len(depths)], strict=True)),
        "precision_at": dict(zip(depths, means[len(depths) : -2], strict=True)),
        "r_precision": means[-2],
        "map_at_r": means[-1],
        "queries": len(search.queries),
        "left_out": len(queries) - len(search.queries),
        "references": len(sought),
    }
    found = Retrieval(**result)
    if not intervals:
        return found
    weights = identity_weights(len(distinct), draws, seed)
    drawn = _drawn(values, search.numbers, weights)
    names = found.measures()
    replicates = Replicates(
        values={name: drawn[:, column] for column, name in enumerate(names)},
        identities=len(distinct),
        key=draw_key(distinct, seed, draws),
    )
    return Retrieval(**result, replicates=replicates)


def _renumbered(distinct: npt.NDArray[Any], known: npt.NDArray[Any]) -> Numbers:
    """For each of the `known` labels its place among the `distinct`, or their number if absent."""
    places = np.searchsorted(distinct, known)
    absent = places == len(distinct)
    places[absent] = 0
    absent |= distinct[places] != known
    places[absent] = len(distinct)
    return places


def _per_query(search: Search, ks: list[int], engine: str) -> Floats:
    """For each query recall at each k, precision at each k, R-precision and AP@R."""
    relevant = search.relevant
    within = [k for k in ks if k <= search.others]
    values = np.full((len(relevant), 2 * len(ks) + 2), np.nan)
    look = nearest_are_right_by_faiss if engine == "faiss" else nearest_are_right
    for part, right in look(search, np.maximum(relevant, max(within, default=1))):
        for column, k in enumerate(ks):
            if k in within:
                hits = right[:, :k].sum(axis=1)
                values[part, column] = hits > 0
                values[part, len(ks) + column] = hits / k
        count, ranks = relevant[part], np.arange(1, right.shape[1] + 1)
        right &= ranks <= count[:, None]
        found = right.cumsum(axis=1, dtype=np.int32)  # up to and with each rank
        values[part, -2] = found[:, -1] / count
        values[part, -1] = (found * right) @ (1 / ranks) / count
    return values


def _drawn(values: Floats, numbers: Numbers, weights: Floats) -> Floats:
    """The means over queries where class c counts weights[b, c] times, for each draw b."""
    identities = weights.shape[1]
    counts = np.bincount(numbers, minlength=identities)
    sums = np.stack(
        [np.bincount(numbers, weights=column, minlength=identities) for column in values.T]
    )
    with np.errstate(invalid="ignore"):  # a draw of identities that are all left out has none
        means: Floats = (weights @ sums.T) / (weights @ counts)[:, None]
    return means
