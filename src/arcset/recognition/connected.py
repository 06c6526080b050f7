"""Whatever a chain of high cosines connects."""

import numpy as np
import numpy.typing as npt

__all__ = ["connected"]

_BLOCK = 1 << 23  # cosines at once, 32 MB


def connected(embeddings: npt.NDArray[np.float32], threshold: float) -> npt.NDArray[np.int64]:
    """The group of each row of unit embeddings (N, D): cosines ≥ threshold connect two rows.

    >>> turned = np.radians([0, 20, 40, 90], dtype=np.float32)
    >>> connected(np.stack([np.cos(turned), np.sin(turned)], 1), 0.9).tolist()
    [0, 0, 0, 1]
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    count = len(embeddings)
    part = np.arange(count)
    step = max(1, _BLOCK // count)
    for start in range(0, count, step):
        rows, columns = np.nonzero(embeddings[start : start + step] @ embeddings.T >= threshold)
        # After each block the parts stand for all links so far, so that memory stays bounded.
        links = coo_matrix(
            (np.ones(len(rows), bool), (part[start + rows], part[columns])), shape=(count, count)
        )
        part = connected_components(links, directed=False)[1][part]
    return np.unique(part, return_inverse=True)[1].astype(np.int64)
