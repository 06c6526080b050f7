"""What thresholds accept when identities are drawn anew: pairs, weighted and counted by draw.

An identity drawn w times weighs w. Its genuine pairs weigh w, its impostor pairs with an identity
drawn v times w·v; copies of one identity never meet. With A (I, I) the number of impostor pairs of
each two identities that a threshold accepts, ½·wᵀAw are accepted in a draw.

- Few pairs are weighted one by one.
- Up to `DENSE_IDENTITIES` that is what is computed, identity by identity.
- Beyond, with w = 1 + d, it is ½·1ᵀA1 + dᵀA1 + ½·dᵀAd, and only the marginals A1 are counted. Of
  the last term, the part that it would have if the accepted pairs were spread evenly over all
  pairs is known, and kept. The rest is small where many pairs of identities share the accepted
  pairs, as each adds to it at random; in the tail, where few do, the accepted pairs are few as
  well, and are weighted one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from arcset.evaluation.pairs.bins import Bins
from arcset.evaluation.pairs.blocks import Block, SortedRows

__all__ = ["Accepted", "accepted_of_all_pairs", "accepted_of_pairs"]

FEW_PAIRS = 2**18  # and so few beside identities² × thresholds that each is the least work
FEWER = 16
DENSE_IDENTITIES = 500
TAIL_PAIRS = 2**16
BLOCK = (1024, 8192)  # rows and columns of cosines at once
DENSE_COUNTS = 2**22  # numbers counted at once
PAIR_WEIGHTS = 2**19  # pairs × draws weighted at once

Floats: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.intp]


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


class _Found(NamedTuple):
    """Pairs of one kind: their two identities and their bin, int32, of shapes that broadcast."""

    genuine: bool
    left: Tensor
    right: Tensor
    bin: Tensor


def accepted_of_pairs(
    weights: Floats, bins: Places, same: npt.NDArray[np.bool_], sides: Places, thresholds: int
) -> Accepted:
    """For given pairs.

    Parameters:
        weights: how often each identity is drawn (B, I).
        bins: how many of the thresholds accept each pair (P,).
        same: whether it is genuine (P,).
        sides: its two identities (P, 2).
        thresholds: how many there are.
    """
    genuine = _weighted(weights, bins[same], sides[same, :1], thresholds)  # (B, T + 1)
    impostor = _weighted(weights, bins[~same], sides[~same], thresholds)
    return Accepted(
        _at_least(genuine), _at_least(impostor), genuine.sum(axis=1), impostor.sum(axis=1)
    )


def accepted_of_all_pairs(weights: Floats, rows: SortedRows, bins: Bins) -> Accepted:
    """For all pairs of rows; `weights` (B, I) are in the order of `rows.labels`."""
    sizes = rows.sizes().astype(np.float64)  # (I,)
    all_genuine = weights @ (sizes * (sizes - 1) / 2)
    all_impostor = ((weights @ sizes) ** 2 - weights**2 @ sizes**2) / 2
    pairs = sum(rows.pair_counts())
    if pairs <= min(FEW_PAIRS, len(sizes) ** 2 * len(bins) // FEWER):
        count = _one_by_one
    else:
        count = _dense if len(sizes) <= DENSE_IDENTITIES else _by_marginals
    genuine, impostor = count(weights, rows, bins)
    return Accepted(weights @ _at_least(genuine), impostor, all_genuine, all_impostor)


def _one_by_one(weights: Floats, rows: SortedRows, bins: Bins) -> tuple[Counts, Floats]:
    """Genuine pairs by identity and bin (I, T + 1), and accepted impostors in each draw (B, T)."""
    genuine = np.zeros((weights.shape[1], len(bins) + 1), dtype=np.int64)
    bins_of = bins.of_rows(rows, *BLOCK)
    kept = []
    for block in rows.blocks(*BLOCK):
        for found in _kinds(rows, block, bins_of(block)):
            if found.genuine:
                _add(genuine, found.left, found.bin)
            else:
                each = torch.broadcast_tensors(found.left, found.right, found.bin)
                kept.append(torch.stack([part.reshape(-1) for part in each]))
    left, right, bin_ = torch.cat(kept, dim=1).numpy().astype(np.intp)
    return genuine, _at_least(_weighted(weights, bin_, np.stack((left, right), 1), len(bins)))


def _dense(weights: Floats, rows: SortedRows, bins: Bins) -> tuple[Counts, Floats]:
    """The same, from the accepted pairs of each two identities."""
    identities, width = weights.shape[1], len(bins) + 1
    genuine = np.zeros((identities, width), dtype=np.int64)
    drawn = torch.from_numpy(weights)
    accepted = torch.zeros(len(weights), len(bins), dtype=torch.float64)
    bins_of = bins.of_rows(rows, *BLOCK)
    most = max(1, DENSE_COUNTS // (identities * width))
    top, first = -1, 0
    counts = np.zeros((0, identities, width), dtype=np.int64)  # of the rows of one top

    def weigh() -> None:
        for i, partners in enumerate(counts, start=first):
            later = torch.from_numpy(_at_least(partners[i + 1 :]).copy())  # (I − i − 1, T)
            accepted.add_(drawn[:, i, None] * (drawn[:, i + 1 :] @ later))

    for block in rows.blocks(*BLOCK, identities=most):
        if block.top != top:
            weigh()
            top, first = block.top, int(rows.numbers[block.top])
            held = int(rows.numbers[block.bottom - 1]) - first + 1
            counts = np.zeros((held, identities, width), dtype=np.int64)
        for found in _kinds(rows, block, bins_of(block)):
            if found.genuine:
                _add(genuine, found.left, found.bin)
            else:
                place = (found.left - first) * identities + found.right
                _add(counts.reshape(-1, width), place, found.bin)
    weigh()
    return genuine, accepted.numpy()


def _by_marginals(weights: Floats, rows: SortedRows, bins: Bins) -> tuple[Counts, Floats]:
    """The same, from the impostor pairs of each identity, and one by one in the tail."""
    shape = weights.shape[1], len(bins) + 1
    genuine, impostor = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    start = int((bins.accepted > TAIL_PAIRS).sum())  # the lowest threshold of the tail
    kept: list[npt.NDArray[np.int32]] = []
    bins_of = bins.of_rows(rows, *BLOCK)
    for block in rows.blocks(*BLOCK):
        for found in _kinds(rows, block, bins_of(block)):
            if found.genuine:
                _add(genuine, found.left, found.bin)
                continue
            _add(impostor, found.left, found.bin)
            _add(impostor, found.right, found.bin)
            block_shape = found.bin.shape
            rare = np.unravel_index(np.flatnonzero(found.bin.numpy() > start), block_shape)
            each = (found.left, found.right, found.bin)
            kept.append(np.stack([part.expand(block_shape).numpy()[rare] for part in each]))

    sizes = rows.sizes().astype(np.float64)
    deviations = weights - 1
    rate = bins.accepted / rows.pair_counts()[1]  # (T,)
    spread = (deviations @ sizes) ** 2 - deviations**2 @ sizes**2  # dᵀAd, were all accepted
    marginal = _at_least(impostor)  # (I, T)
    accepted = marginal.sum(axis=0) / 2 + deviations @ marginal + spread[:, None] / 2 * rate
    left, right, bin_ = np.concatenate(kept, axis=1).astype(np.intp)
    tail = _weighted(weights, bin_, np.stack((left, right), axis=1), len(bins))
    accepted[:, start:] = _at_least(tail)[:, start:]
    return genuine, accepted


def _kinds(rows: SortedRows, block: Block, bins: Tensor) -> Iterator[_Found]:
    numbers = torch.from_numpy(rows.numbers.astype(np.int32))
    left, right = numbers[block.top : block.bottom, None], numbers[None, block.left : block.right]
    if not block.mixed:
        yield _Found(False, left, right, bins)
        return
    for genuine, chosen in zip((True, False), rows.kinds(block), strict=True):
        row, column = (torch.from_numpy(place) for place in np.nonzero(chosen))
        if len(row):
            yield _Found(genuine, left[row, 0], right[0, column], bins[row, column])


def _add(counts: Counts, places: Tensor, bins: Tensor) -> None:
    """Add one to `counts` (places, bins) for each pair."""
    width = counts.shape[1]
    low, high = int(places.min()), int(places.max()) + 1
    keys = (places - low) * width + bins
    found = torch.bincount(keys.view(-1), minlength=(high - low) * width)
    counts[low:high] += found.numpy().reshape(high - low, width)


def _weighted(weights: Floats, bins: Places, sides: Places, thresholds: int) -> Floats:
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


def _at_least(counts: npt.NDArray[np.int64] | Floats) -> Floats:
    """From counts by bin (…, T + 1) to what each threshold accepts (…, T)."""
    return np.cumsum(counts[..., :0:-1], axis=-1, dtype=np.float64)[..., ::-1]
