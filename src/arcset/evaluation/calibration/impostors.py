"""The impostor pairs of a validation set, highest cosine first: what every threshold is read from.

Cosines are computed in float64 and rounded to 2⁻⁴⁰ and to float32, as `verification` does, so that
pairs which are equally similar on paper tie. Only the highest are kept, as only they decide about
low rates; so memory stays bounded however many samples there are.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    class_numbers,
    embedding_matrix,
    normalize_rows,
    refuse_zero_rows,
)

__all__ = ["FEWEST_IDENTITY_PAIRS", "ImpostorPairs", "Rows", "rounded_cosines", "unit_matrix"]

#: A rate is supported if the accepted impostor pairs come from so many pairs of identities.
FEWEST_IDENTITY_PAIRS = 10

MOST_KEPT = 2**22  # pairs; with both rows and the cosine 48 MB
BLOCK = 2**21  # cosines computed at once, 16 MB
SAMPLED = 2**18  # pairs looked at to guess where to stop keeping

Rows = npt.NDArray[np.intp]


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
    step = max(1, BLOCK // len(units))
    for start in range(0, len(units), step):
        cosines = rounded_cosines(units[start : start + step] @ units[start:].T)
        i, j = np.nonzero(cosines >= floor)
        impostor = (i < j) & (identity[start + i] != identity[start + j])
        i, j = i[impostor], j[impostor]
        found.append((cosines[i, j], (start + i).astype(np.int32), (start + j).astype(np.int32)))
    cosines, first, second = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return cosines, first, second
