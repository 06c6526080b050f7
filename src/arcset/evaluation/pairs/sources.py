"""Which pairs are judged: all of a labelled set, or those that the caller names."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from arcset.errors import InputError
from arcset.evaluation.arrays import Array, class_numbers, embedding_matrix
from arcset.evaluation.pairs import scores
from arcset.evaluation.pairs.bins import Bins
from arcset.evaluation.pairs.blocks import SortedRows
from arcset.evaluation.pairs.draws import Accepted, accepted_of_all_pairs, accepted_of_pairs
from arcset.evaluation.pairs.ranked import Ranked
from arcset.evaluation.pairs.tally import tally_all_pairs

__all__ = ["AllPairs", "GivenPairs", "Source", "choose_source"]


class Source(Protocol):
    """Pairs that can be scored, and counted again for draws of identities."""

    #: Whether scores are kept in float64, or rounded further to be kept or counted.
    exact: bool
    #: The distinct labels, sorted; None where none were given.
    labels: npt.NDArray[Any] | None

    def rank(self) -> tuple[Ranked, Ranked]:
        """The scores of genuine and of impostor pairs."""
        ...

    def accepted(self, weights: npt.NDArray[np.float64], bins: Bins) -> Accepted:
        """What thresholds accept, with each label weighted (B, I)."""
        ...


class AllPairs:
    """All pairs i < j; genuine where the labels are equal."""

    labels: npt.NDArray[Any] | None

    def __init__(self, embeddings: Array, labels: Array) -> None:
        matrix = embedding_matrix(embeddings)
        self._kept = len(matrix) <= scores.KEPT_EMBEDDINGS
        self.exact = self._kept and len(matrix) <= scores.EXACT_EMBEDDINGS
        dtype = torch.float64 if self._kept else torch.float32
        self._rows = SortedRows.build(matrix, labels, dtype)
        self.labels = self._rows.labels
        _refuse_one_kind(*self._rows.pair_counts())

    def rank(self) -> tuple[Ranked, Ranked]:
        """Scores that are kept where they are not too many, and counted otherwise."""
        if not self._kept:
            return tally_all_pairs(self._rows)
        genuine, impostor = scores.score_all_pairs(self._rows, exact=self.exact)
        return Ranked.sort(genuine), Ranked.sort(impostor)

    def accepted(self, weights: npt.NDArray[np.float64], bins: Bins) -> Accepted:
        """The pairs are scored once more, and counted by identity."""
        return accepted_of_all_pairs(weights, self._rows, bins)


class GivenPairs:
    """Pairs (P, 2) of row numbers; genuine where `same` (P,) says so."""

    exact = True

    def __init__(self, embeddings: Array, pairs: Array, same: Array, labels: Array | None) -> None:
        matrix = embedding_matrix(embeddings)
        places, self._same = scores.checked_pairs(pairs, same, len(matrix))
        self.labels = None
        if labels is not None:
            self.labels, numbers = class_numbers(labels, len(matrix))
            self._sides = numbers[places]  # (P, 2)
            odd = np.flatnonzero((self._sides[:, 0] == self._sides[:, 1]) != self._same)
            if len(odd):
                first, second = self.labels[self._sides[odd[0]]]
                raise InputError(
                    f"pair {odd[0]} has the labels {first} and {second}, but same is"
                    f" {bool(self._same[odd[0]])}"
                )
        _refuse_one_kind(int(self._same.sum()), int((~self._same).sum()))
        self._scores = scores.score_pairs(matrix, places)

    def rank(self) -> tuple[Ranked, Ranked]:
        """Scores that are kept."""
        return Ranked.sort(self._scores[self._same]), Ranked.sort(self._scores[~self._same])

    def accepted(self, weights: npt.NDArray[np.float64], bins: Bins) -> Accepted:
        """The pairs are weighted one by one; needs labels."""
        found = bins.of_scores(self._scores)
        return accepted_of_pairs(weights, found, self._same, self._sides, len(bins))


def choose_source(
    embeddings: Array, labels: Array | None, pairs: Array | None, same: Array | None
) -> Source:
    """All pairs where labels are given, the given pairs otherwise.

    Raises `InputError` where neither is given, or one of `pairs` and `same` without the other.
    """
    if pairs is not None and same is not None:
        return GivenPairs(embeddings, pairs, same, labels)
    if labels is not None and pairs is None and same is None:
        return AllPairs(embeddings, labels)
    given = {"labels": labels, "pairs": pairs, "same": same}
    names = [name for name, value in given.items() if value is not None]
    raise InputError(
        f"{' and '.join(names) or 'neither labels nor pairs'} were given, expected either"
        " labels, or pairs and same"
    )


def _refuse_one_kind(genuine: int, impostor: int) -> None:
    for kind, count in (("genuine", genuine), ("impostor", impostor)):
        if not count:
            raise InputError(
                f"there are {genuine} genuine and {impostor} impostor pairs, expected"
                f" at least one {kind} pair"
            )
