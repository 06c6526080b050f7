"""Embeddings as callers hand them in, brought to unit rows of float32."""

from typing import Any

import numpy as np

from arcset.errors import InputError
from arcset.evaluation.arrays import as_array, embedding_matrix, normalize_rows, refuse_zero_rows
from arcset.recognition.recognizer import Embeddings

__all__ = ["single_vector", "unit_rows"]

_UNIT = 1e-5  # how far the square of a length that is 1 may be from it, by rounding
_AT_ONCE = 4096  # rows that are held in float64 at a time


def unit_rows(embeddings: Any, dim: int) -> Embeddings:
    """(N, D) of any length as (N, D) float32 of length 1; one embedding (D,) is one row.

    What has length 1 stays as it is, to the last digit, and may be the same memory.

    Raises `InputError` for another dimension, NaN, infinity, and rows that are all zero.

        >>> unit_rows([[3, 4], [0, 2]], dim=2).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """
    given = as_array(embeddings, "embeddings")
    if given.ndim == 1:
        given = given[None]
    if given.ndim != 2 or given.shape[1] != dim or given.dtype.kind != "f" or not len(given):
        given = embedding_matrix(given)
        if given.shape[1] != dim:
            raise InputError(
                f"embeddings have {given.shape[1]} numbers each, and the gallery's have {dim}"
            )
    if len(given) == 1 and given.dtype == np.float32:  # often, and quick
        row = given[0]
        if abs(float(np.vdot(row, row)) - 1) < _UNIT:
            return given
    units = np.empty(given.shape, np.float32)
    for start in range(0, len(given), _AT_ONCE):
        rows = given[start : start + _AT_ONCE].astype(np.float64)
        squares = np.einsum("nd,nd->n", rows, rows)
        if ((squares > 1e-200) & (squares < 1e200)).all():  # false for what is not finite
            squares[np.abs(squares - 1) < _UNIT] = 1
            rows /= np.sqrt(squares)[:, None]
        else:  # find out what is wrong, or scale what is very long or short
            embedding_matrix(given)
            refuse_zero_rows(given)
            normalize_rows(rows)
        units[start : start + _AT_ONCE] = rows
    return units


def single_vector(embedding: Any) -> Any:
    """(D,) or (1, D) as it is; raises `InputError` for several."""
    given = as_array(embedding, "embedding")
    if given.ndim != 1 and given.shape[:1] != (1,):
        raise InputError(f"embedding has shape {given.shape}, expected one of shape (D,)")
    return given
