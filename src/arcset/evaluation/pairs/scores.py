"""Cosines of pairs of embeddings, apart for genuine pairs (same class) and impostor pairs.

Here all of them are kept, for the pairs that a caller names and for sets of up to
`KEPT_EMBEDDINGS`; `tally` counts those of larger sets. Cosines are computed in float64 and rounded
to multiples of 2⁻⁴⁴, so that pairs which are equally similar on paper tie in spite of errors in the
last bits. Beyond `EXACT_EMBEDDINGS` they are rounded to float32 as well, so that many pairs fit
into memory; what that can change is bounded in `curves`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    as_array,
    embedding_matrix,
    normalize_rows,
    refuse_zero_rows,
)
from arcset.evaluation.pairs.blocks import SortedRows
from arcset.evaluation.pairs.ranked import Scores

__all__ = [
    "EXACT_EMBEDDINGS",
    "KEPT_EMBEDDINGS",
    "checked_pairs",
    "rounded",
    "score_all_pairs",
    "score_pairs",
]

EXACT_EMBEDDINGS = 4_096  # 8 million pairs, 67 MB of scores in float64
KEPT_EMBEDDINGS = 20_000  # 200 million pairs, 0.8 GB of scores in float32
BLOCK = (256, 8192)  # rows and columns of cosines computed at once, 16 MB
# Next to 384 float64 has steps of 2⁻⁴⁴. Half of one is 2.8e-14; products of 512 to 2048 terms are
# off by 2e-15, measured against extended precision. So cosines such as 0 and 1 never fall apart,
# and others of equal pairs hardly ever; with steps of 2⁻⁴⁸, half of which is 1.8e-15, they do.
SHIFT = 384.0


def score_all_pairs(rows: SortedRows, *, exact: bool = True) -> tuple[Scores, Scores]:
    """Cosines of all pairs of `rows` in float64: those with equal labels, and the others.

    exact: whether to keep them in float64; otherwise in float32.

    >>> import torch
    >>> rows = SortedRows.build([[1, 0], [0, 1], [0, 2]], [5, 5, 6], torch.float64)
    >>> score_all_pairs(rows)
    (array([0.]), array([0., 1.]))
    """
    genuine_count, impostor_count = rows.pair_counts()
    dtype: type[np.floating[Any]] = np.float64 if exact else np.float32
    genuine = np.empty(genuine_count, dtype=dtype)
    impostor = np.empty(impostor_count, dtype=dtype)
    filled = [0, 0]

    def place(kind: int, size: int) -> Scores:
        filled[kind] += size
        return (genuine, impostor)[kind][filled[kind] - size : filled[kind]]

    memory = rows.memory(*BLOCK)
    for block in rows.blocks(*BLOCK):
        cosines = rows.cosines(block, memory).numpy()
        if block.mixed:
            for kind, chosen in enumerate(rows.kinds(block)):
                found = rounded(cosines[chosen])
                place(kind, len(found))[:] = found
        else:
            rounded(cosines, place(1, cosines.size).reshape(cosines.shape))
    return genuine, impostor


def score_pairs(embeddings: Array, pairs: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Cosines (P,) of the `pairs` (P, 2) of row numbers.

    >>> score_pairs([[1, 0], [0, 1], [0, 2]], np.array([[1, 2], [0, 1]]))
    array([1., 0.])
    """
    matrix = embedding_matrix(embeddings)
    refuse_zero_rows(matrix)
    units = np.array(matrix, dtype=np.float64)
    normalize_rows(units)
    cosines = np.empty(len(pairs))
    step = max(1, BLOCK[0] * BLOCK[1] // units.shape[1])
    for start in range(0, len(pairs), step):
        i, j = pairs[start : start + step].T
        cosines[start : start + step] = rounded(np.einsum("pd,pd->p", units[i], units[j]))
    return cosines


def rounded(cosines: npt.NDArray[np.float64], out: Scores | None = None) -> Scores:
    """Cosines as scores, in `out` and its precision or in place; overwrites its input.

    >>> rounded(np.array([1e-17, 1 + 2e-16, 0.5 - 1e-16, 0.5 - 2.0**-44])) - [0, 1, 0.5, 0.5]
    array([ 0.00000000e+00,  0.00000000e+00,  0.00000000e+00, -5.68434189e-14])
    """
    cosines += SHIFT
    cosines -= SHIFT
    if out is None:
        out = cosines
    np.clip(cosines, -1, 1, out=out, casting="same_kind")
    return out


def checked_pairs(
    pairs: Array, same: Array, count: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """`pairs` (P, 2) of `count` rows and `same` (P,) as arrays.

    Raises `InputError` for row numbers out of range, and other types or shapes.
    """
    rows: npt.NDArray[Any] = as_array(pairs, "pairs")
    is_same: npt.NDArray[Any] = as_array(same, "same")
    if rows.ndim != 2 or rows.shape[1] != 2 or not len(rows):
        raise InputError(f"pairs have shape {rows.shape}, expected (P, 2) with P ≥ 1")
    if rows.dtype.kind not in "iu":
        raise InputError(f"pairs are of type {rows.dtype}, expected integers")
    if rows.min() < 0 or rows.max() >= count:
        outside = int(rows.min() if rows.min() < 0 else rows.max())
        raise InputError(f"pairs name row {outside}, expected rows from 0 to {count - 1}")
    if is_same.shape != (len(rows),):
        raise InputError(
            f"same has shape {is_same.shape}, expected ({len(rows)},): one answer per pair"
        )
    if is_same.dtype != np.bool_:
        raise InputError(f"same is of type {is_same.dtype}, expected bool")
    return rows.astype(np.intp), is_same
