"""Angles between samples and class centers, as the page shows them."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["NO_ANGLE", "sample_angles", "unit"]

NO_ANGLE = 65535  # where there is none: an unseen class has no center of its own

Floats = npt.NDArray[np.floating[Any]]


def sample_angles(
    embeddings: Floats, centers: Floats, own: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.uint16]:
    """(N, 3): 0.01° to the own center, to the nearest other one, and that one's number.

    `own` is None where the samples belong to no center; the nearest of all is the second column.
    """
    cosines = unit(embeddings) @ unit(centers).T  # (N, C)
    steps = np.degrees(np.arccos(cosines.clip(-1, 1))) * 100
    found = np.full((len(embeddings), 3), NO_ANGLE, np.uint16)
    rows = np.arange(len(embeddings))
    if own is not None:
        found[:, 0] = np.round(steps[rows, own])
        steps[rows, own] = np.inf
    if own is None or len(centers) > 1:
        found[:, 2] = steps.argmin(1)
        found[:, 1] = np.round(steps.min(1))
    return found


def unit(rows: Floats) -> Floats:
    """Rows of length 1, in float64; a zero row stays zero."""
    wide = np.asarray(rows, np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(length > 0, length, 1.0)
