"""What every threshold would do: strangers mistaken for a subject, subjects missed.

A gallery's working point is the threshold for one rate. These two curves show what others would
mean, so that a person can see what is gained and what it costs before choosing one.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.evaluation.calibration import Thresholds
from arcset.evaluation.calibration.templates import Scoring
from arcset.recognition.decisions import Plain, split_gallery
from arcset.recognition.gallery.base import Gallery

STEP = 0.005  # between thresholds
MOST_SUBJECTS = 1000  # looked at for misses, evenly over all
MOST_OF_EACH = 20  # samples left out in turn
FEW = 30  # a share of fewer samples is rough

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OperatingCurves(Plain):
    """Two rates at rising thresholds.

    Fields:
        thresholds: cosines, rising in equal steps to 1.
        false_accept: at each, the share of strangers who would be mistaken for a subject, at the
            gallery's present size (FPIR); None where the calibration cannot tell, or is missing.
        false_reject: at each, the share of enrolled samples that the rest of their subject does not
            reach the threshold for, each left out in turn; None where no subject has two samples.
            Who else might score higher is not looked at.
        genuine: how many samples that share is of.
        subjects: of how many subjects these are.
        note: a sentence where something is missing or rough; else empty.
    """

    thresholds: tuple[float, ...]
    false_accept: tuple[float | None, ...]
    false_reject: tuple[float, ...] | None
    genuine: int
    subjects: int
    note: str


def operating_curves(gallery: Gallery) -> OperatingCurves:
    """The curves of a gallery as it is now; some milliseconds, however large it is.

    In galleries of more than a thousand subjects with two samples, a thousand of these are looked
    at, and of each at most twenty samples are left out in turn.
    """
    thresholds = gallery.thresholds
    matrix, owners = gallery.repeated(MOST_SUBJECTS)
    scores = scores_without_itself(matrix, owners, Scoring.of(gallery.scoring))
    lowest = min([0.0, *(thresholds.rates.thresholds[:1] if thresholds else ())])
    first = math.floor(lowest * 10) / 10
    grid = np.round(first + np.arange(round((1 - first) / STEP) + 1) * STEP, 6)
    missed = None
    if len(scores):
        below = np.searchsorted(np.sort(scores), grid, side="left")  # score < threshold
        missed = tuple((below / len(scores)).round(6).tolist())
    return OperatingCurves(
        thresholds=tuple(grid.tolist()),
        false_accept=_accepted(gallery, grid),
        false_reject=missed,
        genuine=len(scores),
        subjects=len(np.unique(owners)),
        note=_note(thresholds, len(scores)),
    )


def scores_without_itself(
    matrix: npt.NDArray[Any], owners: npt.NDArray[np.int64], scoring: Scoring
) -> Floats:
    """The score of each sample against the others of its subject: (n,).

    matrix: (N, D) unit rows; owners: (N,) the subject of each. Subjects with a single sample have
    none; of those with more than twenty, twenty are left out in turn, evenly.

        >>> points = np.array([[1.0, 0.0], [0.6, 0.8], [1.0, 0.0], [0.0, 1.0]])
        >>> scores_without_itself(points, np.array([1, 1, 1, 2]), Scoring.of("max")).tolist()
        [1.0, 0.6, 1.0]
    """
    scores: list[float] = []
    order = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        units, count = matrix[rows].astype(np.float64), len(rows)  # (n, D)
        if count < 2:
            continue
        even = np.linspace(0, count - 1, min(count, MOST_OF_EACH)).round().astype(int)
        cosines = units[even] @ units.T  # (probes, n)
        cosines[np.arange(len(even)), even] = -np.inf  # itself: last when sorted
        falling = -np.sort(-cosines, axis=1)[:, : count - 1]
        scores += falling[:, : scoring.best].mean(axis=1).tolist()
    return np.array(scores)


def _accepted(gallery: Gallery, grid: Floats) -> tuple[float | None, ...]:
    """FPIR at each threshold, as `RateTable.for_fpir` reads it the other way round."""
    if gallery.thresholds is None or not gallery.thresholds.rates.curves:
        return (None,) * len(grid)
    missed, known = np.ones(len(grid)), np.ones(len(grid), bool)
    for part, size in split_gallery(gallery.thresholds, **gallery.extent()):
        table = part.rates
        missed *= 1 - table.fpirs_at(grid, max(1, math.ceil(size)))
        known &= (grid >= table.thresholds[-len(table.curves)]) & (grid <= table.thresholds[-1])
    return tuple(
        float(f"{rate:.4g}") if is_known else None
        for rate, is_known in zip((1 - missed).tolist(), known.tolist(), strict=True)
    )


def _note(thresholds: Thresholds | None, genuine: int) -> str:
    sentences = []
    if thresholds is None:
        sentences.append(
            "Without a calibration there is no telling how many strangers a threshold lets in: run"
            " `arcset gallery calibrate GALLERY`."
        )
    elif not thresholds.rates.curves:
        sentences.append(
            f"{thresholds.rates.identities:,} identities are too few to tell how many strangers a"
            " threshold lets in: run `arcset gallery calibrate GALLERY FOLDER` with more."
        )
    if not genuine:
        sentences.append(
            "No subject has two samples yet, so there is no telling how many would be missed:"
            " enroll a second one of some."
        )
    elif genuine < FEW:
        sentences.append(f"The share of those missed is rough: it is from {genuine} samples only.")
    return " ".join(sentences)
