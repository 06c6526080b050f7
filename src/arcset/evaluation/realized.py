"""What thresholds do on identities of which they know nothing: the rate promised and that seen.

These are other identities; or, where there are few, each fifth of them in turn: the thresholds are
made from all, and those of the other four fifths tell how well they do.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcset.evaluation.bootstrap import groups_of
from arcset.evaluation.calibration import (
    Reliability,
    Thresholds,
    make_thresholds,
    pair_cosines,
    reliability,
)
from arcset.evaluation.identification import Identification
from arcset.evaluation.pairs import SortedRows, count_all_pairs, score_pairs, unit_rows
from arcset.evaluation.rates import Roc
from arcset.evaluation.results import Interval
from arcset.files import finite

Floats = npt.NDArray[np.float64]
Kinds = npt.NDArray[np.bool_]

FOLDS = 5
MOST_OF_EACH = 50  # samples


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

    def cells(self) -> list[str]:
        """The cells of a table under `HEADING`."""
        low, high = self.expected
        remarks = ["" if self.kept else "outside", "extrapolated" if self.extrapolated else ""]
        return [
            f"{self.kind} {self.wanted:.3g}",
            f"{self.threshold:.4f}",
            f"{self.seen:.2g}",
            f"[{low:.2g}, {high:.2g}]",
            "–" if math.isnan(self.accepted) else f"{self.accepted:.4f}",
            ", ".join(filter(None, remarks)),
        ]

    def json(self) -> dict[str, Any]:
        content = {**self.__dict__, "expected": list(self.expected), "kept": self.kept}
        return dict(finite(content))


HEADING = ("wanted", "threshold", "seen", "expected", "accepted", "")


def measure_far(
    thresholds: Thresholds, embeddings: npt.NDArray[Any], labels: npt.NDArray[np.intp]
) -> list[Realized]:
    """Every FAR that `thresholds` know, on all pairs of other identities."""
    counts = count_all_pairs(SortedRows.build(embeddings, labels))
    roc, identities = Roc.of(counts), int(labels.max()) + 1
    each = max(1, round(len(labels) / identities))
    realized = []
    for item in thresholds.fars:
        accepted = len(counts.scores) - int(np.searchsorted(counts.scores, item.threshold))
        expected = item.expect(identities, samples_per_identity=each)
        rates = float(roc.far[accepted]), float(roc.tar[accepted])
        realized.append(Realized("FAR", item.far, item.threshold, expected, *rates))
    return realized


def measure_fpir(thresholds: Thresholds, searched: Identification) -> list[Realized]:
    """Every FPIR that `thresholds` know and can tell for a gallery of this size."""
    realized: list[Realized] = []
    if not searched.unmated or not searched.mated:
        return realized
    size, unknown = searched.subjects, searched.unmated_identities
    each = max(1, round(searched.unmated / unknown))
    for rate in dict.fromkeys(item.fpir for item in thresholds.fpirs):
        item = thresholds.for_fpir(rate, gallery=size)
        expected = item.expect(unknown, probes_per_identity=each)
        rates = searched.rates_at(item.threshold)
        realized.append(
            Realized("FPIR", rate, item.threshold, expected, *rates, size, item.extrapolated)
        )
    return realized


def measure_reliability(
    thresholds: Thresholds, embeddings: npt.NDArray[Any], labels: npt.NDArray[np.intp]
) -> Reliability:
    """Whether the probabilities keep what they say, on pairs of other identities."""
    cosines, same, weights = pair_cosines(embeddings, labels)
    chances = thresholds.probability(cosines)
    return _reliability_at(thresholds.calibration.prior, chances, same, weights)


def _reliability_at(prior: float, chances: Floats, same: Kinds, weights: Floats) -> Reliability:
    """Genuine and impostor pairs are weighted to the prior that the probabilities are for."""
    for kind, share in ((same, prior), (~same, 1 - prior)):
        weights[kind] *= share * len(weights) / weights[kind].sum()
    return reliability(chances, same, weights=weights)


def cross_fit(
    thresholds: Thresholds,
    embeddings: npt.NDArray[Any],
    labels: npt.NDArray[np.intp],
    groups: npt.NDArray[Any] | None = None,
) -> tuple[list[Realized], Reliability]:
    """What thresholds made from these very embeddings (N, D) and labels (N,) do on others.

    Each fifth of the identities is left out in turn, and thresholds and probabilities are made from
    the rest. Of pairs those count that show somebody left out; in a search, the left out are
    strangers to a gallery with one sample of everybody else. With groups (N,), whole ones are left
    out. Of large identities 50 samples are looked at.

    Raises `InputError` where the rest has no genuine or no impostor pair.
    """
    owners = groups_of(labels, groups)
    units, labels = _few_of_each(embeddings, labels)
    owners = np.arange(int(labels.max()) + 1) if owners is None else owners
    identities = int(labels.max()) + 1
    each = max(1, round(len(labels) / identities))
    fars = dict.fromkeys(item.far for item in thresholds.fars)
    fpirs = dict.fromkeys(item.fpir for item in thresholds.fpirs)
    folds = [
        _try_fold(units, labels, np.isin(owners[labels], fold), fars, fpirs)
        for fold in _draw_folds(int(owners.max()) + 1)
    ]
    far, tar, fpir = (
        np.mean(rates, axis=0) for rates in zip(*(fold.rates for fold in folds), strict=True)
    )
    realized = [
        Realized("FAR", item.far, item.threshold, item.expect(identities, each), *rates)
        for item, *rates in zip(thresholds.fars, far.tolist(), tar.tolist(), strict=True)
    ]
    size = identities - identities // len(folds)
    for rate, seen in zip(fpirs, fpir.tolist(), strict=True):
        item = thresholds.for_fpir(rate, size)
        expected = item.expect(identities, probes_per_identity=each)
        realized.append(Realized("FPIR", rate, item.threshold, expected, seen, math.nan, size))
    chances = np.concatenate([fold.chances for fold in folds])
    same = np.concatenate([fold.same for fold in folds])
    prior = thresholds.calibration.prior
    return realized, _reliability_at(prior, chances, same, np.ones(len(same)))


class _Fold(NamedTuple):
    """FAR, TAR and FPIR at each threshold; of pairs (P,) the probabilities and the kinds."""

    rates: tuple[list[float], list[float], list[float]]
    chances: Floats
    same: Kinds


def _try_fold(
    units: npt.NDArray[np.float32],
    labels: npt.NDArray[np.intp],
    out: npt.NDArray[np.bool_],
    fars: Iterable[float],
    fpirs: Iterable[float],
) -> _Fold:
    """Whose samples are `out`, as thresholds and probabilities from the rest see them."""
    made = make_thresholds(units[~out], labels[~out], fars=fars, fpirs=fpirs, galleries=[])
    first, second = np.triu_indices(len(labels), 1)
    shown = out[first] | out[second]
    cosines = score_pairs(units, first[shown], second[shown]).astype(np.float64)
    same = labels[first[shown]] == labels[second[shown]]
    limits = [made.for_far(far).threshold for far in fars]
    gallery = units[~out][np.unique(labels[~out], return_index=True)[1]]
    best = (units[out] @ gallery.T).max(axis=1)
    searched = [made.for_fpir(fpir, len(gallery)).threshold for fpir in fpirs]
    rates = (
        [float((cosines[~same] >= limit).mean()) for limit in limits],
        [float((cosines[same] >= limit).mean()) for limit in limits],
        [float((best >= limit).mean()) for limit in searched],
    )
    return _Fold(rates, made.probability(cosines), same)


def _draw_folds(count: int) -> list[npt.NDArray[np.intp]]:
    """A fifth of so many identities or groups each, at random but always the same."""
    order = np.random.default_rng(0).permutation(count)
    return np.array_split(order, min(FOLDS, count))


def _few_of_each(
    embeddings: npt.NDArray[Any], labels: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """Unit rows with their labels, evenly chosen from large identities."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    parts = np.split(order, np.cumsum(sizes)[:-1])
    rows = np.concatenate([part[:: -(-len(part) // MOST_OF_EACH)] for part in parts if len(part)])
    return unit_rows(embeddings, rows), np.unique(labels[rows], return_inverse=True)[1]
