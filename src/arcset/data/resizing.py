"""Images made smaller by exact area averaging, and larger by bilinear interpolation.

Both are one sparse matrix per axis with whole numbers in it. Sums of pixels weighted by whole
numbers are exact in float64 whatever their order, and the one division at the end is rounded
once: the same image gives the same pixels on any machine, and a constant image stays constant.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["resized"]

Pixels = npt.NDArray[np.uint8]


def resized(
    pixels: Pixels,
    height: int,
    width: int,
    *,
    blocks: tuple[int, int] = (1, 1),
    whole: tuple[int, int] | None = None,
) -> Pixels:
    """(H, W) or (H, W, C) to (height, width) or (height, width, C), half to even.

    An axis that shrinks is averaged: each new pixel is the mean over the old ones it covers, each
    counted by the share that is covered. An axis that grows is interpolated between the centers of
    the old pixels, and constant beyond the outermost ones.

    blocks, whole: for pixels that are means over blocks of this height and width of a finer image,
        whose height and width are `whole`, so that the last blocks may have been smaller. They
        count by what they really cover.

        >>> resized(np.array([[0, 60, 120]], np.uint8), 1, 2)
        array([[ 20, 100]], dtype=uint8)
        >>> resized(np.array([[0, 100]], np.uint8), 1, 4)
        array([[  0,  25,  75, 100]], dtype=uint8)
    """
    if pixels.shape[:2] == (height, width) and blocks == (1, 1):
        return pixels
    channels = pixels.shape[2:]
    lengths = whole or pixels.shape[:2]
    rows, below_rows = _weights(lengths[0], height, blocks[0])
    columns, below_columns = _weights(lengths[1], width, blocks[1])
    sums = rows @ pixels.reshape(len(pixels), -1).astype(np.float64)  # (h, W·C)
    sums = sums.reshape(height, pixels.shape[1], *channels).swapaxes(0, 1)  # (W, h[, C])
    sums = columns @ sums.reshape(pixels.shape[1], -1)  # (w, h·C)
    sums = sums.reshape(width, height, *channels).swapaxes(0, 1)  # (h, w[, C])
    means: Pixels = np.rint(sums / (below_rows * below_columns)).astype(np.uint8)
    return means


@lru_cache(maxsize=256)
def _weights(length: int, target: int, block: int) -> tuple[Any, int]:
    """A sparse matrix (target, pixels) of whole numbers, and what each of its rows sums to."""
    from scipy import sparse

    if target < length:
        at, pixel, weight, total = _overlaps(length, target, block)
    else:
        at, pixel, weight, total = _neighbours(length, target)
    shape = (target, -(-length // block))
    return sparse.coo_matrix((weight.astype(np.float64), (at, pixel)), shape=shape).tocsr(), total


Index = npt.NDArray[np.int64]


def _overlaps(length: int, target: int, block: int) -> tuple[Index, Index, Index, int]:
    """How far old pixels reach into new ones, in units of 1 / target."""
    old = np.arange(0, length, block) * target  # where old pixels begin
    new = np.arange(target + 1) * length  # where new ones begin, and the end of all
    ends = np.union1d(old, new)
    starts = ends[:-1]
    return starts // length, starts // (block * target), np.diff(ends), length


def _neighbours(source: int, target: int) -> tuple[Index, Index, Index, int]:
    """The two old pixels whose centers enclose that of a new one; in units of 1 / (2 target)."""
    unit = 2 * target
    places = (2 * np.arange(target) + 1) * source - target  # of new centers, old ones at 0, unit, …
    before, share = np.divmod(places, unit)
    pixels = np.concatenate([before, before + 1]).clip(0, source - 1)
    weights = np.concatenate([unit - share, share])
    return np.tile(np.arange(target), 2), pixels, weights, unit
