"""The same ranking by FAISS: its flat index compares with every reference, so it is exact as well.

It returns the nearest references in an order of its own where cosines are equal. Within what it
returns that is mended by sorting anew; where the last one returned ties with the last one needed,
others that tie may have been left out, and the query is ranked once more by `nearest`.
"""

from collections.abc import Iterator

import numpy as np

from arcset.evaluation.search.nearest import GRIDS, Numbers, Right, Search, ranked

__all__ = ["nearest_are_right_by_faiss"]

BLOCK_FOUND = 2**20  # references returned at once
REDONE = 64  # queries ranked once more at a time


def nearest_are_right_by_faiss(search: Search, depths: Numbers) -> Iterator[tuple[slice, Right]]:
    """As `nearest.nearest_are_right`, in float32."""
    import faiss  # heavy, and not needed otherwise

    index = faiss.IndexFlatIP(search.references.shape[1])
    index.add(search.references)
    classes = np.repeat(np.arange(len(search.starts) - 1), np.diff(search.starts))  # (M,)
    step = max(1, BLOCK_FOUND // int(depths.max()))
    for start in range(0, len(search.queries), step):
        rows = np.arange(start, min(start + step, len(search.queries)))
        depth = int(depths[rows].max())
        wanted = min(depth + 2, len(search.references))  # itself, and one more to see ties
        cosines, found = index.search(search.queries[rows], wanted)  # (B, wanted)
        keys = np.rint(cosines * GRIDS[np.dtype(np.float32)])
        last = keys[:, -1].copy()
        keys -= 0.5 * (classes[found] == search.numbers[rows, None])
        if search.own is not None:
            keys[found == search.own[rows, None]] = -np.inf
        right = ranked(keys, depth)
        if wanted < len(search.references):
            open_ = np.flatnonzero(np.ceil(keys[:, -depth]) <= last)  # sorted from there on
            for some in range(0, len(open_), REDONE):
                again = open_[some : some + REDONE]
                right[again] = ranked(search.keys(rows[again]), depth)
        yield slice(start, start + len(rows)), right
