"""Embeddings as callers hand them in, brought to unit rows of float32."""

from typing import Any

import numpy as np

from arcset.errors import InputError
from arcset.evaluation.arrays import as_array, embedding_matrix, normalize_rows, refuse_zero_rows
from arcset.recognition.embedder import Embeddings

__all__ = ["single_vector", "unit_rows"]


def unit_rows(embeddings: Any, dim: int) -> Embeddings:
    """(N, D) of any length as (N, D) float32 of length 1; one embedding (D,) is one row.

    Raises `InputError` for another dimension, NaN, infinity, and rows that are all zero.

        >>> unit_rows([[3, 4], [0, 2]], dim=2).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """
    given = as_array(embeddings, "embeddings")
    matrix = embedding_matrix(given[None] if given.ndim == 1 else given)
    if matrix.shape[1] != dim:
        raise InputError(
            f"embeddings have {matrix.shape[1]} dimensions, and the gallery's have {dim}"
        )
    refuse_zero_rows(matrix)
    wide = matrix.astype(np.float64)
    normalize_rows(wide)
    return wide.astype(np.float32)


def single_vector(embedding: Any) -> Any:
    """(D,) or (1, D) as it is; raises `InputError` for several."""
    given = as_array(embedding, "embedding")
    if given.ndim != 1 and given.shape[:1] != (1,):
        raise InputError(f"embedding has shape {given.shape}, expected one of shape (D,)")
    return given
