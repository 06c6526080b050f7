"""How well groups agree with who is really shown."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.files import finite

__all__ = ["ClusterScores", "score_clusters"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ClusterScores:
    """Agreement between groups and identities; all of it in 0 … 1, more is better.

    Fields:
        samples, identities, groups: how many there are.
        precision, recall, f: over pairs of samples. Of the pairs in one group, the share that is of
            one identity; of the pairs of one identity, the share that is in one group; and their
            harmonic mean. Large groups and identities decide: they have the most pairs.
        bcubed_precision, bcubed_recall, bcubed_f: the same seen from each sample, itself included,
            then averaged, so that every sample counts the same.
        nmi: mutual information of groups and identities over the mean of their entropies. It
            favours many small groups; do not read it alone.
        pure: the share of groups of several samples that hold one identity only.

    A share of nothing, as the precision where every group is a single sample, is NaN.
    """

    samples: int
    identities: int
    groups: int
    precision: float
    recall: float
    f: float
    bcubed_precision: float
    bcubed_recall: float
    bcubed_f: float
    nmi: float
    pure: float

    def __str__(self) -> str:
        return (
            f"pairs F {_shown(self.f)} (precision {_shown(self.precision)}, recall "
            f"{_shown(self.recall)}), B³ F {_shown(self.bcubed_f)}, NMI {_shown(self.nmi)}\n"
            f"{self.groups:,} groups for {self.identities:,} identities"
        )

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them, NaN as None."""
        return dict(finite(asdict(self)))


def score_clusters(groups: npt.ArrayLike, labels: npt.ArrayLike) -> ClusterScores:
    """Compare the group of each sample (N,) with its identity (N,); numbers or names.

    Raises `InputError` unless there are equally many of both, at least one.

        >>> found = score_clusters([0, 0, 0, 1, 2], ["a", "a", "b", "b", "c"])
        >>> print(found)
        pairs F 0.400 (precision 0.333, recall 0.500), B³ F 0.765, NMI 0.671
        3 groups for 3 identities
    """
    first, second = np.asarray(groups), np.asarray(labels)
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        raise InputError(
            f"groups have shape {first.shape} and labels {second.shape}, expected one of each per "
            "sample"
        )
    _, group = np.unique(first, return_inverse=True)
    _, identity = np.unique(second, return_inverse=True)
    in_group, of_identity = np.bincount(group), np.bincount(identity)
    # Whoever is in group g and of identity i, for those that occur.
    cells, counts = np.unique(
        group.astype(np.int64) * len(of_identity) + identity, return_counts=True
    )
    row, column = np.divmod(cells, len(of_identity))
    together = _pairs(counts)
    samples = len(group)
    precision, recall = (
        _share(together, _pairs(in_group)),
        _share(together, _pairs(of_identity)),
    )
    squares = counts.astype(np.float64) ** 2
    b_precision = float((squares / in_group[row]).sum() / samples)
    b_recall = float((squares / of_identity[column]).sum() / samples)
    several = in_group > 1
    kinds = np.bincount(row, minlength=len(in_group))  # identities in each group
    return ClusterScores(
        samples=samples,
        identities=len(of_identity),
        groups=len(in_group),
        precision=precision,
        recall=recall,
        f=_harmonic(precision, recall),
        bcubed_precision=b_precision,
        bcubed_recall=b_recall,
        bcubed_f=_harmonic(b_precision, b_recall),
        nmi=_mutual_information(counts / samples, in_group / samples, of_identity / samples),
        pure=_share(int((kinds[several] == 1).sum()), int(several.sum())),
    )


def _pairs(counts: npt.NDArray[np.integer[Any]]) -> int:
    """How many pairs there are within parts of these sizes."""
    wide = counts.astype(np.int64)
    return int((wide * (wide - 1) // 2).sum())


def _mutual_information(joint: Floats, groups: Floats, identities: Floats) -> float:
    """Normalized by the mean of the two entropies, from shares of the samples; 1 where both are 0.

    With their entropies H(g) and H(i), and H of both together: 2 (H(g) + H(i) − H) / (H(g) + H(i)).
    """
    both, first, second = (-float((p * np.log(p)).sum()) for p in (joint, groups, identities))
    if not first + second:
        return 1.0
    return min(1.0, max(0.0, 2 * (first + second - both) / (first + second)))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _harmonic(one: float, other: float) -> float:
    """The harmonic mean; 0 where both are, NaN where one is not known."""
    return 2 * one * other / (one + other) if one + other else one + other


def _shown(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"
