"""What thresholds accept when identities are drawn anew, and what AUC, EER and TAR come to then.

An identity drawn w times weighs w. Its genuine pairs weigh w, its impostor pairs with an identity
drawn v times w·v; copies of one identity never meet. With A (I, I) the number of impostor pairs of
each two identities that a threshold accepts, ½·wᵀAw are accepted in a draw.

- Up to `DENSE_IDENTITIES` that is what is computed, identity by identity.
- Beyond, with w = 1 + d, it is ½·1ᵀA1 + dᵀA1 + ½·dᵀAd, and only the marginals A1 are counted. Of
  the last term, the part that it would have if the accepted pairs were spread evenly over all
  pairs is known, and kept. The rest is small where many pairs of identities share the accepted
  pairs, as each adds to it at random; in the tail, where few do, the accepted pairs are few as
  well, and are weighted one by one. Where there are few pairs at all, that is all of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from arcset.evaluation.pairs import (
    CELLS,
    STEPS,
    Block,
    Counts,
    Ranked,
    Rows,
    SortedRows,
    cell_numbers,
)

if TYPE_CHECKING:
    from arcset.evaluation.verification import Roc

__all__ = ["Accepted", "Bins", "accepted_of_all_pairs", "accepted_of_pairs", "replicate"]

DENSE_IDENTITIES = 500
TAIL_PAIRS = 2**18
DENSE_COUNTS = 2**22  # numbers counted at once
PAIR_WEIGHTS = 2**19  # pairs × draws weighted at once
MOST_SCORES = 2**13  # distinct ones that are all made thresholds, such as LFW's 6,000 pairs
AT_ONCE = 2**18  # draws × thresholds, which a processor's own memory holds

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bins:
    """Ascending thresholds. A pair is in bin k if k of them accept it, 0 … T.

    thresholds: (T,).
    accepted: how many impostor pairs each accepts (T,).
    complete: whether they are all the distinct scores there are, so that nothing lies between.
    """

    thresholds: Floats
    accepted: Counts
    complete: bool

    @classmethod
    def choose(cls, genuine: Ranked, impostor: Ranked, curve: "Roc") -> "Bins":
        """All distinct scores where they are few, otherwise the thresholds of the curve."""
        if len(genuine.values) + len(impostor.values) <= MOST_SCORES:
            distinct = np.union1d(genuine.values, impostor.values)
            accepted = impostor.total - impostor.below(distinct)
            return cls(distinct.astype(np.float64), accepted, True)
        accepted = np.rint(curve.far[::-1] * impostor.total).astype(np.int64)
        return cls(curve.threshold[::-1].copy(), accepted, False)

    def __len__(self) -> int:
        return len(self.thresholds)

    def of(self, cells: Rows) -> npt.NDArray[np.int32]:
        """The bin of each multiple of 2⁻²¹, as `cell_numbers` gives them."""
        return self._table[cells]

    @cached_property
    def _table(self) -> npt.NDArray[np.int32]:
        """The bin of every multiple (CELLS,)."""
        first = np.ceil(self.thresholds * STEPS).astype(np.intp) + STEPS  # that each accepts
        counts = np.bincount(first.clip(0, CELLS), minlength=CELLS + 1)
        return np.cumsum(counts[:CELLS], dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Accepted:
    """Weighted numbers of pairs in each draw.

    genuine, impostor: accepted by each threshold, from the lowest to the highest (B, T).
    all_genuine, all_impostor: all there are (B,).
    """

    genuine: Floats
    impostor: Floats
    all_genuine: Floats
    all_impostor: Floats


class _Pairs(NamedTuple):
    """Pairs of one kind: their two identities and their bin, of shapes that broadcast."""

    genuine: bool
    left: Rows
    right: Rows
    bin: npt.NDArray[np.int32]


def accepted_of_pairs(
    weights: Floats,
    bins: npt.NDArray[np.int32],
    same: npt.NDArray[np.bool_],
    sides: Rows,
    thresholds: int,
) -> Accepted:
    """For given pairs.

    Parameters:
        weights: how often each identity is drawn (B, I).
        bins: how many of the thresholds accept each pair (P,).
        same: whether it is genuine (P,).
        sides: its two identities (P, 2).
        thresholds: how many there are.
    """
    genuine = _weigh(weights, bins[same], sides[same, :1], thresholds)  # (B, T + 1)
    impostor = _weigh(weights, bins[~same], sides[~same], thresholds)
    return Accepted(
        _at_least(genuine), _at_least(impostor), genuine.sum(axis=1), impostor.sum(axis=1)
    )


def accepted_of_all_pairs(weights: Floats, rows: SortedRows, bins: Bins) -> Accepted:
    """For all pairs of rows; `weights` (B, I) are in the order of `rows.labels`."""
    sizes = rows.sizes.astype(np.float64)  # (I,)
    all_genuine = weights @ (sizes * (sizes - 1) / 2)
    all_impostor = ((weights @ sizes) ** 2 - weights**2 @ sizes**2) / 2
    dense = len(sizes) <= DENSE_IDENTITIES and rows.pair_counts()[1] > TAIL_PAIRS
    genuine, impostor = (_dense if dense else _by_marginals)(weights, rows, bins)
    return Accepted(weights @ _at_least(genuine), impostor, all_genuine, all_impostor)


def _dense(weights: Floats, rows: SortedRows, bins: Bins) -> tuple[Counts, Floats]:
    """Genuine pairs by identity and bin (I, T + 1), and accepted impostors in each draw (B, T).

    From the accepted pairs of each two identities.
    """
    identities, width = weights.shape[1], len(bins) + 1
    genuine = np.zeros((identities, width), dtype=np.int64)
    accepted = np.zeros((len(weights), len(bins)))
    most = max(1, DENSE_COUNTS // (identities * width))
    top, first = -1, 0
    counts = np.zeros((0, identities, width), dtype=np.int64)  # of the rows of one top

    def weigh() -> None:
        for i, partners in enumerate(counts, start=first):
            later = _at_least(partners[i + 1 :])  # (I − i − 1, T)
            np.add(accepted, weights[:, i, None] * (weights[:, i + 1 :] @ later), out=accepted)

    for block in rows.blocks(identities=most):
        if block.top != top:
            weigh()
            top, first = block.top, int(rows.numbers[block.top])
            held = int(rows.numbers[block.bottom - 1]) - first + 1
            counts = np.zeros((held, identities, width), dtype=np.int64)
        for pairs in _by_kind(rows, block, bins):
            if pairs.genuine:
                _add(genuine, pairs.left, pairs.bin)
            else:
                place = (pairs.left - first) * identities + pairs.right
                _add(counts.reshape(-1, width), place, pairs.bin)
    weigh()
    return genuine, accepted


def _by_marginals(weights: Floats, rows: SortedRows, bins: Bins) -> tuple[Counts, Floats]:
    """The same, from the impostor pairs of each identity, and one by one in the tail."""
    shape = weights.shape[1], len(bins) + 1
    genuine, impostor = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    start = int((bins.accepted > TAIL_PAIRS).sum())  # the lowest threshold of the tail
    rare: list[npt.NDArray[np.intp]] = []
    for block in rows.blocks():
        for pairs in _by_kind(rows, block, bins):
            if pairs.genuine:
                _add(genuine, pairs.left, pairs.bin)
                continue
            _add(impostor, pairs.left, pairs.bin)
            _add(impostor, pairs.right, pairs.bin)
            places = np.nonzero(pairs.bin > start)
            each = (np.broadcast_to(part, pairs.bin.shape)[places] for part in pairs[1:])
            rare.append(np.stack(list(each)))

    sizes = rows.sizes.astype(np.float64)
    deviations = weights - 1
    rate = bins.accepted / rows.pair_counts()[1]  # (T,)
    spread = (deviations @ sizes) ** 2 - deviations**2 @ sizes**2  # dᵀAd, were all accepted
    marginal = _at_least(impostor)  # (I, T)
    accepted = marginal.sum(axis=0) / 2 + deviations @ marginal + spread[:, None] / 2 * rate
    left, right, bin_ = np.concatenate(rare, axis=1)
    tail = _weigh(weights, bin_, np.stack((left, right), axis=1), len(bins))
    accepted[:, start:] = _at_least(tail)[:, start:]
    return genuine, accepted


def _by_kind(rows: SortedRows, block: Block, bins: Bins) -> Iterator[_Pairs]:
    left = rows.numbers[block.top : block.bottom, None]
    right = rows.numbers[None, block.left : block.right]
    found = bins.of(cell_numbers(block.cosines))
    if not block.mixed:
        yield _Pairs(False, left, right, found)
        return
    for genuine, chosen in zip((True, False), rows.kinds(block), strict=True):
        row, column = np.nonzero(chosen)
        if len(row):
            yield _Pairs(genuine, left[row, 0], right[0, column], found[row, column])


def _add(counts: Counts, places: Rows, bins: npt.NDArray[np.int32]) -> None:
    """Add one to `counts` (places, bins) for each pair."""
    width = counts.shape[1]
    low, high = int(places.min()), int(places.max()) + 1
    keys = (places - low) * width + bins
    found = np.bincount(keys.ravel(), minlength=(high - low) * width)
    counts[low:high] += found.reshape(high - low, width)


def _weigh(weights: Floats, bins: npt.NDArray[np.integer], sides: Rows, thresholds: int) -> Floats:
    """The weight of the pairs in each bin (B, T + 1): the product of those of their `sides`."""
    by_identity = np.ascontiguousarray(weights.T.astype(np.int32))  # (I, B)
    total = np.zeros((thresholds + 1, len(weights)))
    order = np.argsort(bins, kind="stable")
    step = max(1, PAIR_WEIGHTS // len(weights))
    for start in range(0, len(order), step):
        chosen = order[start : start + step]
        each = by_identity[sides[chosen, 0]]  # (pairs, B)
        if sides.shape[1] == 2:
            each *= by_identity[sides[chosen, 1]]
        held, first = np.unique(bins[chosen], return_index=True)
        total[held] += np.add.reduceat(each, first, axis=0, dtype=np.int32)
    return total.T


def _at_least(counts: Counts | Floats) -> Floats:
    """From counts by bin (…, T + 1) to what each threshold accepts (…, T)."""
    return np.cumsum(counts[..., :0:-1], axis=-1, dtype=np.float64)[..., ::-1]


@dataclass(frozen=True, eq=False)
class _Lines:
    """FAR and TAR (B, T + 2) in each draw, from the highest threshold to the lowest; both rise."""

    far: Floats
    tar: Floats
    impostor: Floats  # (B,)

    def area(self) -> Floats:
        """Under the straight lines between the points, which is what counting ties half gives."""
        steps = np.diff(self.far, axis=1)
        area: Floats = (steps * (self.tar[:, 1:] + self.tar[:, :-1])).sum(axis=1) / 2
        return area

    def equal_error(self) -> Floats:
        """Where the lines meet FAR = FRR."""
        ahead = self.far + self.tar - 1  # FAR − FRR, from −1 to 1
        after = np.argmax(ahead >= 0, axis=1)  # at least 1, as the first point is (0, 0)
        low, high = (_pick(ahead, after - step) for step in (1, 0))
        far, next_far = (_pick(self.far, after - step) for step in (1, 0))
        return far - low / (high - low) * (next_far - far)

    def tar_at(self, rate: float, *, between: bool) -> Floats:
        """The highest TAR whose FAR does not exceed `rate`; on the line where `between`."""
        last = (self.far <= rate).sum(axis=1) - 1
        tar = _pick(self.tar, last)
        if between:
            after = np.minimum(last + 1, self.far.shape[1] - 1)
            far, step = _pick(self.far, last), _pick(self.far, after) - _pick(self.far, last)
            share = np.divide(rate - far, step, out=np.zeros_like(step), where=step > 0)
            tar = tar + share * (_pick(self.tar, after) - tar)
        return np.where(1 / self.impostor > rate, np.nan, tar)


def replicate(
    accepted: Accepted, point: Mapping[str, float], rates: Mapping[str, float], *, complete: bool
) -> dict[str, Floats]:
    """Every measure in every draw.

    Parameters:
        accepted: what the thresholds accept; its first row is the data itself, not a draw.
        point: the measures of the data, by name: `auc`, `eer` and those of TAR at FAR.
        rates: the false accept rate of each of the latter.
        complete: whether the thresholds are all the scores. Otherwise TAR is read off between
            two of them, as the highest below would be too low by half a step; and what the
            thresholds make of the data itself, less what is known of it, is subtracted.

    NaN in draws without genuine or impostor pairs, or with fewer than 1/FAR impostor pairs, and
    throughout where the data do not support a rate.
    """
    count, thresholds = accepted.impostor.shape
    step = max(1, AT_ONCE // (thresholds + 2))
    found = {name: np.empty(count) for name in ("auc", "eer", *rates)}
    for start in range(0, count, step):
        some = slice(start, start + step)
        with np.errstate(invalid="ignore", divide="ignore"):
            lines = _lines(accepted, some)
            found["auc"][some], found["eer"][some] = lines.area(), lines.equal_error()
            for name, rate in rates.items():
                found[name][some] = lines.tar_at(rate, between=not complete)
    empty = (accepted.all_genuine == 0) | (accepted.all_impostor == 0)
    replicates = {}
    for name, values in found.items():
        shift = 0.0 if complete else point[name] - values[0]
        drawn = np.clip(values[1:] + shift, 0.0, 1.0)
        replicates[name] = np.where(empty[1:] | np.isnan(point[name]), np.nan, drawn)
    return replicates


def _lines(accepted: Accepted, some: slice) -> _Lines:
    """Of some of the draws."""
    far = _rising(accepted.impostor[some], accepted.all_impostor[some])
    tar = _rising(accepted.genuine[some], accepted.all_genuine[some])
    return _Lines(far, tar, accepted.all_impostor[some])


def _rising(counts: Floats, total: Floats) -> Floats:
    """Shares of the total (B, T + 2), with the highest threshold first, from 0 to 1."""
    found = np.empty((len(counts), counts.shape[1] + 2))
    found[:, 0], found[:, -1] = 0, 1
    shares = found[:, 1:-1]
    np.divide(counts[:, ::-1], total[:, None], out=shares)
    np.clip(shares, 0.0, 1.0, out=shares)
    # Without the small terms that `draws` leaves out, a step could lead backwards.
    np.maximum.accumulate(shares, axis=1, out=shares)
    return found


def _pick(values: Floats, places: npt.NDArray[np.intp]) -> Floats:
    """One of each row."""
    return np.take_along_axis(values, places[:, None], axis=1)[:, 0]
