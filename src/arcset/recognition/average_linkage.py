"""Average linkage on cosines, exact, without ever holding all pairs.

Average linkage joins the two groups whose mean cosine over all pairs between them is highest, again
and again, while it is at least the threshold. For unit embeddings that mean is a product of two
vectors: with m_A and m_B the mean embeddings of the groups,

    mean over a in A, b in B of cos(a, b)  =  m_A · m_B,

so that a group is one row and no table of pairs is needed. And a joined group is never closer to a
third than the closer of its parts was ("reducible"), so that all pairs of groups that are each
other's nearest can be joined at once without changing the result, and a group that has no neighbour
at the threshold will never have one and can be set aside.

Murtagh: A survey of recent advances in hierarchical clustering algorithms (1983), on reciprocal
nearest neighbours. Time grows with N²·D, memory with N·D.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["average_linkage"]

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]

_BLOCK = 1 << 23  # cosines at once, 32 MB
#: Cosines from here on are of copies of one sample: whole stars of them are joined in one round,
#: where joining pair by pair would take as many rounds as there are copies.
_COPY = 1 - 1e-6


def average_linkage(
    embeddings: Floats, threshold: float, watch: Callable[[int], None] | None = None
) -> Numbers:
    """The group of each row of unit embeddings (N, D), as any numbers (N,).

    watch: told after each round how many groups may still be joined.

    >>> turned = np.radians([0, 10, 20, 90], dtype=np.float32)
    >>> average_linkage(np.stack([np.cos(turned), np.sin(turned)], 1), 0.9).tolist()
    [0, 0, 0, 3]
    """
    owner = np.arange(len(embeddings))  # the group of each row, by its first row
    state = _Groups(embeddings)
    while len(state.rows):
        if watch is not None:
            watch(len(state.rows))
        state.look()
        state.set_aside(threshold)
        state.join(owner)
    return _roots(owner)


class _Groups:
    """The groups that may still be joined.

    rows: the first row of each (n,). sums: of the embeddings of each (n, D), and their number.
    near, cosine: the nearest other group, by place, and the mean cosine to it; −1 where unknown.
    """

    def __init__(self, embeddings: Floats) -> None:
        count = len(embeddings)
        self.rows = np.arange(count)
        self.sums = embeddings.astype(np.float64)
        self.sizes = np.ones(count)
        self.means = embeddings
        self.near = np.full(count, -1)
        self.cosine = np.full(count, -np.inf, np.float32)

    def look(self) -> None:
        """Find the nearest group of those whose nearest is not known."""
        stale = np.flatnonzero(self.near < 0)
        step = max(1, _BLOCK // len(self.rows))
        for start in range(0, len(stale), step):
            some = stale[start : start + step]
            cosines = self.means[some] @ self.means.T  # (b, n)
            cosines[np.arange(len(some)), some] = -np.inf
            self.near[some] = cosines.argmax(1)
            self.cosine[some] = cosines[np.arange(len(some)), self.near[some]]

    def set_aside(self, threshold: float) -> None:
        """Drop the groups that have no neighbour at the threshold."""
        self._keep(self.cosine >= threshold)

    def join(self, owner: Numbers) -> None:
        """Join all pairs that are each other's nearest, and write down who joined whom."""
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        count = len(self.rows)
        places, known = np.arange(count), self.near >= 0
        if not known.any():
            return
        joined = known & ((self.near[self.near] == places) | (self.cosine >= _COPY))
        if not joined.any():  # cosines that are equal but for rounding, in a ring
            joined[np.where(known, self.cosine, -np.inf).argmax()] = True
        start, end = places[joined], self.near[joined]
        links = coo_matrix((np.ones(len(start)), (start, end)), shape=(count, count))
        _, part = connected_components(links, directed=False)
        first = np.full(part.max() + 1, count)
        np.minimum.at(first, part, places)
        target = first[part]  # the place that each is joined to: the first of its part
        moved = np.flatnonzero(target != places)
        owner[self.rows[moved]] = self.rows[target[moved]]
        np.add.at(self.sums, target[moved], self.sums[moved])
        np.add.at(self.sizes, target[moved], self.sizes[moved])
        changed = np.zeros(count, bool)
        changed[moved] = changed[target[moved]] = True
        self.means = self.means.copy()
        grown = np.unique(target[moved])
        self.means[grown] = self.sums[grown] / self.sizes[grown, None]
        self.near[changed | changed[self.near]] = -1  # where it was −1 it stays so, or becomes so
        gone = np.zeros(count, bool)
        gone[moved] = True
        self._keep(~gone)

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        if kept.all():
            return
        place = np.cumsum(kept) - 1
        known = self.near >= 0
        self.near[known] = np.where(kept[self.near[known]], place[self.near[known]], -1)
        for name in ("rows", "sums", "sizes", "means", "near", "cosine"):
            setattr(self, name, getattr(self, name)[kept])


def _roots(owner: Numbers) -> Numbers:
    """Follow the joins to the end: each row's group by its first row."""
    while True:
        further = owner[owner]
        if np.array_equal(further, owner):
            return owner
        owner = further
