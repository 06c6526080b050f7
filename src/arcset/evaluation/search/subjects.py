"""Scores of probes against enrolled subjects: as quick as float32, as exact as float64.

Products in float32 tell nearly all scores apart. Those that lie closer together than the error of
such a product can be are computed once more in float64 and rounded to 2⁻⁴⁰, so that what is
equally similar on paper ties. The outcome is that of float64 throughout.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import normalize_rows

__all__ = ["Subjects"]

BLOCK_SCORES = 2**25  # products computed at once, 128 MB: fewer make slower products
HUGE = 1e100  # the square of a number up to this, or down to its inverse, is held by float64
PIECE_SCORES = 2**22  # of these looked at together
PIECE_NUMBERS = 2**18  # numbers of float64 rows held at once, 2 MB: they stay in the cache
DENSE = 32  # whole products are quicker once one score in so many is needed in float64

Floats = npt.NDArray[np.float64]
Quick = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Subjects:
    """A gallery, laid out so that the best of a subject's samples is quick to find.

    Subjects stand by their number of samples; those with n samples each fill n runs of columns,
    the first run with the first sample of each, and so on. The best of each subject is then the
    maximum of n neighbouring runs, some 20 times faster than one short reduction per subject.

    matrix: (R, D), a row for each sample.
    rows: (G,), the row behind each column.
    lengths: (G,), the length of that row.
    quick: (G, D), the columns as unit vectors.
    places: (S,), where each subject stands.
    counts, first, step: (S,), by place: how many samples a subject has, the column of its first
        one, and from each to the next.
    """

    matrix: npt.NDArray[Any]
    rows: Places
    lengths: Floats
    quick: Quick
    places: Places
    counts: Places
    first: Places
    step: Places

    @classmethod
    def enroll(cls, matrix: npt.NDArray[Any], numbers: Places) -> "Subjects":
        """The samples in `matrix` (R, D), no row zero, with the subject number of each from 0."""
        sizes = np.bincount(numbers)
        by_subject = np.argsort(numbers, kind="stable")
        starts = np.cumsum(sizes) - sizes
        sequence = np.argsort(sizes, kind="stable")
        rows, first, step, filled = [], [], [], 0
        for size, members in _runs(sizes[sequence]):
            subjects = sequence[members]
            rows.append(by_subject[starts[subjects] + np.arange(size)[:, None]].ravel())
            first.append(filled + np.arange(len(subjects)))
            step.append(np.full(len(subjects), len(subjects)))
            filled += size * len(subjects)
        joined = np.concatenate(rows)
        largest = np.maximum(matrix.max(axis=1), -matrix.min(axis=1)).astype(np.float64)
        if largest.max() > HUGE or largest.min() < 1 / HUGE:
            matrix = _units(matrix, np.arange(len(matrix)))
        lengths, quick = np.empty(len(joined)), np.empty(matrix.shape, dtype=np.float32)
        for part in _parts(len(joined), max(1, PIECE_NUMBERS // matrix.shape[1])):
            block = matrix[joined[part]].astype(np.float64, copy=False)
            lengths[part] = np.sqrt(np.einsum("nd,nd->n", block, block))
            np.divide(block, lengths[part, None], out=quick[part], casting="same_kind")
        return cls(
            matrix=matrix,
            rows=joined,
            lengths=lengths,
            quick=quick,
            places=np.argsort(sequence, kind="stable"),
            counts=sizes[sequence],
            first=np.concatenate(first),
            step=np.concatenate(step),
        )

    @classmethod
    def templates(
        cls, matrix: npt.NDArray[Any], numbers: Places, distinct: npt.NDArray[Any]
    ) -> "Subjects":
        """The same with one row per subject: the direction of the mean of its unit samples.

        Raises `InputError` where the samples of a subject cancel out.
        """
        order = np.argsort(numbers, kind="stable")
        total = np.zeros((len(distinct), matrix.shape[1]))
        for part in _parts(len(order), max(1, PIECE_NUMBERS // matrix.shape[1])):
            rows = order[part]
            firsts = np.flatnonzero(np.diff(numbers[rows], prepend=-1))
            total[numbers[rows[firsts]]] += np.add.reduceat(_units(matrix, rows), firsts, axis=0)
        length = np.sqrt(np.einsum("sd,sd->s", total, total)) / np.bincount(numbers)
        if length.min() < 16 * np.finfo(np.float64).eps:
            raise InputError(
                f"the samples of subject {distinct[int(np.argmin(length))]} cancel out, so that"
                " their mean has no direction; expected subjects that do not surround the origin"
            )
        return cls.enroll(total, np.arange(len(distinct)))

    def own_and_rank(
        self, probes: npt.NDArray[Any], chosen: Places, own: Places
    ) -> tuple[Floats, Places]:
        """For the `chosen` rows of `probes`: the score of their `own` subject, and its rank.

        The rank is 1 plus the number of other subjects that score as much or more.
        """
        scores, ranks = np.empty(len(chosen)), np.empty(len(chosen), dtype=np.intp)
        for part, units, products in self._products(probes, chosen):
            each, place = np.arange(len(units)), self.places[own[part]]
            score = self._exactly(units, products, each, place)
            by_subject = self._by_subject(products)  # (b, S)
            low = (score - self._error).astype(np.float32)[:, None]
            high = (score + self._error).astype(np.float32)[:, None]
            better = (by_subject > high).sum(axis=1)
            near = (by_subject >= low).sum(axis=1) - better  # one of them is the own subject
            unsure = np.flatnonzero(near > 1)
            if near[unsure].sum() * DENSE > by_subject.size:
                exact = self._all_exactly(units)
                score = exact[each, place]
                better = (exact >= score[:, None]).sum(axis=1) - 1
            elif len(unsure):
                band = (by_subject[unsure] >= low[unsure]) & (by_subject[unsure] <= high[unsure])
                band[np.arange(len(unsure)), place[unsure]] = False
                row, other = np.divmod(np.flatnonzero(band), len(self.counts))
                row = unsure[row]
                beaten = self._exactly(units, products, row, other) >= score[row]
                better += np.bincount(row[beaten], minlength=len(units))
            scores[part], ranks[part] = score, better + 1
        return scores, ranks

    def best(self, probes: npt.NDArray[Any], chosen: Places) -> Floats:
        """For the `chosen` rows of `probes`: the highest score of any subject."""
        scores = np.empty(len(chosen))
        for part, units, products in self._products(probes, chosen):
            by_subject = self._by_subject(products)  # (b, S)
            top = by_subject.max(axis=1, keepdims=True)
            near = by_subject >= top - np.float32(2 * self._error)
            if np.count_nonzero(near) * DENSE > near.size:
                scores[part] = self._all_exactly(units).max(axis=1)
            else:
                row, place = np.divmod(np.flatnonzero(near), len(self.counts))
                found = self._exactly(units, products, row, place)
                scores[part] = np.maximum.reduceat(found, np.flatnonzero(np.diff(row, prepend=-1)))
        return scores

    @property
    def _error(self) -> float:
        """How far a float32 product of unit vectors may be off, however it is summed.

        D roundings of the sum of |a·b| ≤ 1, two of the vectors, and some for the comparison.
        """
        return float(self.quick.shape[1] + 8) * 2.0**-24

    def _products(
        self, probes: npt.NDArray[Any], chosen: Places
    ) -> Iterator[tuple[slice, Floats, Quick]]:
        """Parts of `chosen`, their unit rows (b, D) and products with every column (b, G)."""
        columns, dim = self.quick.shape
        step = max(1, min(len(chosen), BLOCK_SCORES // max(columns, 4 * dim)))
        piece = max(1, PIECE_SCORES // columns)
        buffer = np.empty((step, columns), dtype=np.float32)
        for part in _parts(len(chosen), step):
            units = _units(probes, chosen[part])
            products = np.matmul(units.astype(np.float32), self.quick.T, out=buffer[: len(units)])
            for at in _parts(len(units), piece):
                yield slice(part.start + at.start, part.start + at.stop), units[at], products[at]

    def _by_subject(self, products: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """From (b, G), by column, to (b, S), by place: the best of each subject's samples."""
        if len(self.counts) == products.shape[1]:
            return products
        best = np.empty((len(products), len(self.counts)), dtype=products.dtype)
        start = 0
        for size, members in _runs(self.counts):
            many = members.stop - members.start
            runs = products[:, start : start + size * many].reshape(len(products), size, many)
            runs.max(axis=1, out=best[:, members])
            start += size * many
        return best

    def _all_exactly(self, units: Floats) -> Floats:
        """Scores in float64 of every subject, (b, S)."""
        cosines = np.empty((len(units), len(self.rows)))
        for part in _parts(len(self.rows), max(1, PIECE_NUMBERS // units.shape[1])):
            enrolled = self.matrix[self.rows[part]].astype(np.float64, copy=False)
            cosines[:, part] = units @ enrolled.T
        cosines /= self.lengths
        return self._by_subject(_rounded(cosines))

    def _exactly(self, units: Floats, products: Quick, probe: Places, place: Places) -> Floats:
        """Scores in float64 of pairs of a probe, by its row of `units`, and a place; (n,)."""
        if len(self.counts) == len(self.rows) or not len(probe):
            return self._cosines(units, probe, self.first[place])
        counts = self.counts[place]
        starts = np.cumsum(counts) - counts
        sample = np.arange(counts.sum()) - np.repeat(starts, counts)
        column = np.repeat(self.first[place], counts) + sample * np.repeat(self.step[place], counts)
        probe = np.repeat(probe, counts)
        quick = products[probe, column]
        top = np.maximum.reduceat(quick, starts) - np.float32(2 * self._error)
        near = np.flatnonzero(quick >= np.repeat(top, counts))  # one of these is the best
        cosines = np.full(len(quick), -np.inf)
        cosines[near] = self._cosines(units, probe[near], column[near])
        found: Floats = np.maximum.reduceat(cosines, starts)
        return found

    def _cosines(self, units: Floats, probe: Places, column: Places) -> Floats:
        """Cosines in float64 of pairs of a row of `units` and a column; (n,)."""
        cosines = np.empty(len(probe))
        for part in _parts(len(probe), max(1, PIECE_NUMBERS // units.shape[1])):
            enrolled = self.matrix[self.rows[column[part]]].astype(np.float64, copy=False)
            cosines[part] = np.einsum("nd,nd->n", units[probe[part]], enrolled)
        cosines /= self.lengths[column]
        return _rounded(cosines)


def _units(matrix: npt.NDArray[Any], rows: Places) -> Floats:
    units = matrix[rows].astype(np.float64, copy=False)
    normalize_rows(units)
    return units


def _rounded(cosines: Floats) -> Floats:
    """In place, so that pairs which are equally similar on paper tie."""
    cosines += 4096.0  # next to which float64 has steps of 2⁻⁴⁰
    cosines -= 4096.0
    return cosines.clip(-1, 1, out=cosines)


def _parts(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _runs(ascending: Places) -> Iterator[tuple[int, slice]]:
    """Each value in an ascending list, and where it stands."""
    starts = np.flatnonzero(np.diff(ascending, prepend=-1))
    for start, stop in zip(starts, np.append(starts[1:], len(ascending)), strict=True):
        yield int(ascending[start]), slice(int(start), int(stop))
