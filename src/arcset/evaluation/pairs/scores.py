"""Cosines of pairs of embeddings, apart for genuine pairs (same class) and impostor pairs.

Cosines are computed in float64 and rounded to 2⁻⁴⁰ and to float32, so that pairs which are equally
similar on paper tie in spite of errors in the last bits, and many pairs fit into memory.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    as_array,
    class_numbers,
    embedding_matrix,
    normalize_rows,
    refuse_zero_rows,
)

__all__ = ["MOST_EMBEDDINGS", "Scores", "score_all_pairs", "score_given_pairs"]

MOST_EMBEDDINGS = 20_000  # 200 million pairs, 0.8 GB of scores
BLOCK_SCORES = 2**22  # cosines computed at once, 32 MB

Scores: TypeAlias = npt.NDArray[np.float32]


def score_all_pairs(embeddings: Array, labels: Array) -> tuple[Scores, Scores]:
    """Cosines of all pairs i < j: those with equal labels, and the others.

    Raises `InputError` for bad embeddings or labels, and beyond 20,000 embeddings.

        >>> score_all_pairs([[1, 0], [0, 1], [0, 2]], [5, 5, 6])
        (array([0.], dtype=float32), array([0., 1.], dtype=float32))
    """
    matrix = embedding_matrix(embeddings)
    count = len(matrix)
    if count > MOST_EMBEDDINGS:
        raise InputError(
            f"embeddings have {count} rows, expected at most {MOST_EMBEDDINGS} where all pairs"
            " are scored; draw a subset, or name the pairs with pairs= and same="
        )
    _, numbers = class_numbers(labels, count)
    units = _unit_rows(matrix)
    sizes = np.bincount(numbers)
    genuine = np.empty(int((sizes * (sizes - 1) // 2).sum()), dtype=np.float32)
    impostor = np.empty(count * (count - 1) // 2 - len(genuine), dtype=np.float32)
    filled = [0, 0]
    step = max(1, BLOCK_SCORES // count)
    for start in range(0, count, step):
        stop = min(start + step, count)
        cosines = _rounded(units[start:stop] @ units[start:].T)
        same = numbers[start:stop, None] == numbers[start:]
        later = np.arange(start, stop)[:, None] < np.arange(start, count)  # j > i
        for kind, (scores, chosen) in enumerate(((genuine, same), (impostor, ~same))):
            found = cosines[chosen & later]
            scores[filled[kind] : filled[kind] + len(found)] = found
            filled[kind] += len(found)
    return genuine, impostor


def score_given_pairs(embeddings: Array, pairs: Array, same: Array) -> tuple[Scores, Scores]:
    """Cosines of the `pairs` (P, 2) of row numbers: those that are the `same` (P,), and the others.

    Raises `InputError` for bad embeddings, row numbers out of range, and other types or shapes.

        >>> score_given_pairs([[1, 0], [0, 1], [0, 2]], [[1, 2]], [True])
        (array([1.], dtype=float32), array([], dtype=float32))
    """
    matrix = embedding_matrix(embeddings)
    rows, is_same = _checked_pairs(pairs, same, len(matrix))
    units = _unit_rows(matrix)
    cosines = np.empty(len(rows), dtype=np.float32)
    step = max(1, BLOCK_SCORES // units.shape[1])
    for start in range(0, len(rows), step):
        i, j = rows[start : start + step].T
        cosines[start : start + step] = _rounded(np.einsum("pd,pd->p", units[i], units[j]))
    return cosines[is_same], cosines[~is_same]


def _unit_rows(matrix: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    refuse_zero_rows(matrix)
    units = np.array(matrix, dtype=np.float64)
    normalize_rows(units)
    return units


def _rounded(cosines: npt.NDArray[np.float64]) -> Scores:
    """Cosines as scores; overwrites its input."""
    # Float32 alone would tell the cosines of orthogonal rows apart, which differ from 0 by 1e-17.
    # Next to 4096 float64 has steps of 2⁻⁴⁰, well above the error of a product of 512 terms.
    cosines += 4096.0
    cosines -= 4096.0
    return np.clip(cosines.astype(np.float32), -1, 1)


def _checked_pairs(
    pairs: Array, same: Array, count: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    rows, is_same = as_array(pairs, "pairs"), as_array(same, "same")
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
