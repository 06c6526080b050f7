"""What thresholds from validation identities do on others: the rate promised, and the rate seen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from arcset.errors import ArcsetError
from arcset.evaluation.arrays import normalize_rows
from arcset.evaluation.calibration import Reliability, Thresholds, pair_cosines, reliability
from arcset.evaluation.results import Interval
from arcset.evaluation.search import Identification
from arcset.numerics import finite

__all__ = ["Realized", "pair_rates", "realized_far", "realized_fpir", "realized_reliability"]

_BLOCK = 2048  # rows of cosines at once

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Realized:
    """One threshold, used on identities of which it knows nothing.

    kind: FAR (pairs) or FPIR (search in a gallery). wanted: the rate it was made for.
    expected: the 95 % prediction interval of the rate on a set like this one.
    seen: the rate. accepted: the share of genuine pairs (TAR) or of enrolled probes (DIR) accepted.
    gallery: subjects in the gallery; None for FAR.
    extrapolated: whether the gallery is larger than the validation identities can fill.
    """

    kind: str
    wanted: float
    threshold: float
    expected: Interval
    seen: float
    accepted: float
    gallery: int | None = None
    extrapolated: bool = False

    @property
    def kept(self) -> bool:
        """Whether the rate seen lies in the interval."""
        return self.expected.low <= self.seen <= self.expected.high

    @staticmethod
    def heading() -> str:
        """What stands over `line`."""
        return f"{'wanted':<14}{'threshold':>9}  {'seen':>9}  {'expected':<24}{'accepted':>9}"

    def line(self) -> str:
        """In one line of text."""
        expected = f"[{self.expected.low:.2g}, {self.expected.high:.2g}]"
        mark = "" if self.kept else "  outside"
        mark += "  extrapolated" if self.extrapolated else ""
        return (
            f"{f'{self.kind} {self.wanted:g}':<14}{self.threshold:>9.4f}  {self.seen:>9.2g}  "
            f"{expected:<24}{self.accepted:>9.4f}{mark}"
        )

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        content = {**self.__dict__, "expected": list(self.expected), "kept": self.kept}
        return dict(finite(content))


def realized_far(
    thresholds: Thresholds, embeddings: npt.NDArray[Any], labels: npt.NDArray[np.intp]
) -> list[Realized]:
    """Every FAR that `thresholds` know, on all pairs of other identities."""
    made = thresholds.fars
    far, tar = pair_rates(embeddings, labels, np.array([item.threshold for item in made]))
    sizes = np.bincount(labels)
    each = max(1, round(len(labels) / len(sizes)))
    return [
        Realized(
            "FAR",
            item.far,
            item.threshold,
            item.expect(len(sizes), samples_per_identity=each),
            float(far[place]),
            float(tar[place]),
        )
        for place, item in enumerate(made)
    ]


def realized_fpir(thresholds: Thresholds, found: Identification) -> list[Realized]:
    """Every FPIR that `thresholds` know and can tell for the gallery of `found`."""
    results = []
    if not found.unmated or not found.mated:
        return []
    each = max(1, round(found.unmated / found.unmated_identities))
    for rate in dict.fromkeys(item.fpir for item in thresholds.fpirs):
        try:
            item = thresholds.for_fpir(rate, gallery=found.subjects)
        except ArcsetError:  # the validation identities do not support it at this size
            continue
        fpir, hits = found.rates_at(item.threshold)
        expected = item.expect(found.unmated_identities, probes_per_identity=each)
        results.append(
            Realized(
                "FPIR",
                rate,
                item.threshold,
                expected,
                fpir,
                hits,
                gallery=found.subjects,
                extrapolated=item.extrapolated,
            )
        )
    return results


def realized_reliability(
    thresholds: Thresholds, embeddings: npt.NDArray[Any], labels: npt.NDArray[np.intp]
) -> Reliability:
    """Whether the probabilities keep what they say, on pairs of other identities.

    Genuine and impostor pairs are weighted to the prior that the probabilities are for.
    """
    cosines, same, weights = pair_cosines(embeddings, labels)
    prior = thresholds.calibration.prior
    for kind, share in ((same, prior), (~same, 1 - prior)):
        weights[kind] *= share * len(weights) / weights[kind].sum()
    return reliability(thresholds.probability(cosines), same, weights=weights)


def pair_rates(
    embeddings: npt.NDArray[Any], labels: npt.NDArray[np.intp], thresholds: Floats
) -> tuple[Floats, Floats]:
    """FAR and TAR over all pairs at each threshold (T,); accept when cosine ≥ threshold.

    Cosines in float32, as those of large sets are; a pair within 1e-6 of a threshold may fall on
    either side.

        >>> rows = np.array([[1.0, 0], [1, 0.1], [0, 1]])
        >>> far, tar = pair_rates(rows, np.array([0, 0, 1]), np.array([0.5, 0.05]))
        >>> far.tolist(), tar.tolist()
        ([0.0, 0.5], [1.0, 1.0])
    """
    units = np.array(embeddings, dtype=np.float64)
    normalize_rows(units)
    order = np.argsort(labels, kind="stable")
    rows = torch.from_numpy(units[order].astype(np.float32))
    numbers = torch.from_numpy(labels[order])
    accepted = np.zeros((2, len(thresholds)))  # impostor, genuine
    for start in range(0, len(rows), _BLOCK):
        stop = start + _BLOCK
        cosines = rows[start:stop] @ rows[start:].T
        above = torch.ones(cosines.shape, dtype=torch.bool).triu_(1)
        same = (numbers[start:stop, None] == numbers[start:]) & above
        for place, threshold in enumerate(thresholds.tolist()):
            hit = cosines >= threshold
            genuine = int((hit & same).sum())
            accepted[1, place] += genuine
            accepted[0, place] += int((hit & above).sum()) - genuine
    sizes = np.bincount(labels)
    genuine = int((sizes * (sizes - 1) // 2).sum())
    impostor = len(rows) * (len(rows) - 1) // 2 - genuine
    return accepted[0] / max(impostor, 1), accepted[1] / max(genuine, 1)
