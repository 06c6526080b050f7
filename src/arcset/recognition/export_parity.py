"""Whether a run and its export give the same embeddings and the same answers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from arcset.recognition.recognizer import Embeddings

__all__ = ["LEAST_COSINE", "Parity", "compare"]

LEAST_COSINE = 0.99999  # between an image's two embeddings
# Cosines of float32 embeddings are rounded by about this much: a pair so near to a threshold is
# decided by the rounding, by either of the two.
_ROUNDING = 1e-6
# Where the run has no thresholds: cosines at which somebody might draw the line.
_CUTS = tuple(np.linspace(0.0, 0.9, 10).tolist())


@dataclass(frozen=True)
class Parity:
    """How alike two models' embeddings of the same images are.

    Fields:
        images: how many were compared.
        min_cosine: the least cosine between the two embeddings of an image.
        decisions: pairs of images, times thresholds, that both models decided.
        flips: decisions in which they differ.
    """

    images: int
    min_cosine: float
    decisions: int
    flips: int

    @property
    def holds(self) -> bool:
        """Whether the two may stand for each other."""
        return self.min_cosine >= LEAST_COSINE and self.flips == 0


def compare(first: Embeddings, second: Embeddings, thresholds: Sequence[float] = ()) -> Parity:
    """Compare unit embeddings (N, D) of the same images by two models.

    Every pair of images is decided at each threshold; where there is none, at ten cosines from 0 to
    0.9. Pairs that lie nearer to a threshold than float32 can tell are left out.

        >>> rows = np.float32([[1, 0], [0.6, 0.8]])
        >>> compare(rows, rows, [0.5])
        Parity(images=2, min_cosine=1.0, decisions=1, flips=0)
    """
    pairs = np.triu_indices(len(first), k=1)
    one, other = (_cosines(rows)[pairs] for rows in (first, second))
    decisions = flips = 0
    for threshold in thresholds or _CUTS:
        clear = np.abs(one - threshold) > _ROUNDING
        decisions += int(clear.sum())
        flips += int(((one >= threshold) != (other >= threshold))[clear].sum())
    rows = (_double(first) * _double(second)).sum(axis=1)
    return Parity(len(first), float(min(1.0, rows.min())), decisions, flips)


def _double(rows: Embeddings) -> npt.NDArray[np.float64]:
    wide = rows.astype(np.float64)
    unit: npt.NDArray[np.float64] = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return unit


def _cosines(rows: Embeddings) -> npt.NDArray[np.float64]:
    unit = _double(rows)
    found: npt.NDArray[np.float64] = unit @ unit.T
    return found
