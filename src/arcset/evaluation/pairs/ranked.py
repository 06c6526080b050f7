"""Many scores in ascending order, kept one by one or counted by value."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Counts", "Ranked", "Scores"]

Scores: TypeAlias = npt.NDArray[np.floating[Any]]  # float32 or float64
Counts: TypeAlias = npt.NDArray[np.int64]


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
