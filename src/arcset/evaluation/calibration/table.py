"""Rates by threshold, so that one for any rate and gallery can be found without embeddings.

A row per threshold, from loose to strict. The first rows are measured: the FAR falls by a factor of
√2 from row to row, down to where ten pairs of identities are left. Between rows the logarithm of a
rate is nearly straight. The rows beyond are `rough`: they follow a smooth tail of the impostor
cosines (`Tail`), down to rates that no validation set could show.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Annotated, Self, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from arcset.checks import check_count, check_rate
from arcset.evaluation.arrays import Array
from arcset.evaluation.calibration.far import (
    Cosine,
    FarThreshold,
    PairSpread,
    VaryingRate,
    pair_spread,
)
from arcset.evaluation.calibration.fpir import (
    FpirThreshold,
    GalleryCurve,
    OpenSet,
    RoundedShare,
    gallery_limit,
    gallery_sizes,
    most_accepted,
)
from arcset.evaluation.calibration.tail import Tail, variance_of
from arcset.evaluation.pairs import FEWEST_IDENTITY_PAIRS, ImpostorPairs, Rows

LOOSEST = 0.25  # FAR of the first row
RAREST = 1e-12  # of the last
MOST_FOLLOWED = 2**19  # accepted pairs up to which galleries are followed
TAIL_IDENTITY_PAIRS = 30  # that a tail is fitted to, or as many as there are
#: Variance of the logarithm of a rate, an e-fold below what is measured, times the units.
MODEL_ERROR = 2.0
SpreadOfRate = TypeVar("SpreadOfRate", bound=VaryingRate)
_FIELDS = ("rate", *PairSpread.powers)


@dataclass(frozen=True)
class RateTable:
    """Rates and their spread at rising thresholds.

    Fields:
        samples_per_subject: how many samples a gallery holds of each subject.
        identities, samples: of the validation set.
        thresholds: rising.
        far: the fields of `PairSpread` by name, each at every threshold.
        curves: the FPIR by size of gallery; for the last thresholds only, as many as there are.
        measured: how many of the thresholds are not `rough`; None for all.
        groups: how many groups the identities come in, where other groups are asked about.
        design_effect: how many times larger variances are where whole groups are drawn.
    """

    samples_per_subject: Annotated[int, Field(ge=1)]
    identities: Annotated[int, Field(ge=2)]
    samples: Annotated[int, Field(ge=2)]
    thresholds: Annotated[tuple[Cosine, ...], Field(min_length=1)]
    far: Mapping[str, tuple[RoundedShare, ...]]
    curves: Annotated[tuple[GalleryCurve, ...], Field(alias="fpir")]
    measured: Annotated[int, Field(ge=0)] | None = None
    groups: Annotated[int, Field(ge=1)] | None = None
    design_effect: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0

    @classmethod
    def of(
        cls,
        pairs: ImpostorPairs,
        samples: int = 1,
        groups: Rows | None = None,
        *,
        is_coarse: bool = False,
    ) -> "RateTable":
        """From a validation set.

        groups: (N,) the group of each sample, see `make_thresholds`.
        is_coarse: whether fewer rows and sizes will do, and none of the loosest rates.
        """
        rows = _measured_rows(pairs, is_coarse)
        measured = len(rows)
        highest = int((pairs.cosines == pairs.cosines[0]).sum())
        rows = rows or [pairs.whole_ties(int(LOOSEST * len(pairs.cosines))) or highest]
        effect = 1.0 if groups is None else _design_effect(pairs, rows, groups)
        spreads = [pair_spread(pairs, accepted) for accepted in rows]
        spreads = [replace(one, validation=min(effect * one.validation, 1.0)) for one in spreads]
        sizes = gallery_sizes(gallery_limit(pairs, samples))
        sizes = [*sizes[:-1:2], sizes[-1]] if is_coarse else sizes
        curves = [
            GalleryCurve.of(OpenSet(pairs, accepted, samples), sizes, effect)
            for accepted in rows
            if accepted <= MOST_FOLLOWED or accepted == rows[-1]
        ]
        thresholds = [pairs.threshold(accepted) for accepted in rows]
        known = cls(
            samples_per_subject=samples,
            identities=len(pairs.sizes),
            samples=len(pairs.identity),
            thresholds=tuple(thresholds),
            far=_columns(spreads),
            curves=tuple(curves),
            measured=measured,
            groups=None if groups is None else len(np.unique(groups)),
            design_effect=effect,
        )
        return known._add_tail(pairs, rows, groups, 16 if is_coarse else 4)

    def _add_tail(
        self, pairs: ImpostorPairs, rows: Sequence[int], groups: Rows | None, step: float
    ) -> "RateTable":
        """With rough rows, whose rates fall by a factor of `step`."""
        start = next(
            (row for row in reversed(rows) if pairs.identity_pairs(row) >= TAIL_IDENTITY_PAIRS),
            rows[0],
        )
        tail = Tail.fit(pairs, start)
        # Up to there it is seen how many pass, and where many tie, no smooth tail tells.
        seen = bisect_left(range(1, rows[-1]), FEWEST_IDENTITY_PAIRS, key=pairs.support)
        least = pairs.cosines[seen]
        last, curve = self._spread(len(self.thresholds) - 1), self.curves[-1]
        thresholds, spreads, curves = list(self.thresholds), [], list(self.curves)
        rate = last.rate / step
        while rate >= RAREST:
            threshold = tail.threshold(rate)
            if max(thresholds[-1], least) < threshold <= 1:
                variance = variance_of(pairs, tail.influence(rate), groups)
                variance += MODEL_ERROR / max(self.units, 10) * math.log(last.rate / rate) ** 2
                spreads.append(last.rarer(rate, variance))
                curves.append(curve.rarer(rate, variance))
                thresholds.append(threshold)
            rate /= step
        far = _columns([*map(self._spread, range(len(self.thresholds))), *spreads])
        return replace(self, thresholds=tuple(thresholds), far=far, curves=tuple(curves))

    @model_validator(mode="after")
    def check(self) -> Self:
        """Of what is read from a file: thresholds rise, rates fall, and their numbers agree."""
        rows = {len(self.thresholds), *map(len, self.far.values())}
        if self.far.keys() != set(_FIELDS) or len(rows) > 1:
            raise ValueError("the rates are not as many as the thresholds")
        rising = all(low < high for low, high in pairwise(self.thresholds))
        falling = all(high > low for high, low in pairwise(self.far["rate"]))
        if not (rising and falling and 0 < len(self.curves) <= len(self.thresholds)):
            raise ValueError("the thresholds do not rise, or the false accept rates do not fall")
        return self

    @property
    def units(self) -> int:
        """How many there are of what a set is a draw of: identities, or groups."""
        return self.groups or self.identities

    @property
    def lowest_far(self) -> float | None:
        """The lowest FAR that can be pinned down; None where none can."""
        return self._lowest([self._spread(row) for row in range(len(self.thresholds))])

    def lowest_fpir(self, gallery: int) -> float | None:
        """The same for an FPIR with a gallery of this size."""
        return self._lowest([curve.at(gallery) for curve in self.curves])

    def _lowest(self, rows: Sequence[SpreadOfRate]) -> float | None:
        last = max((row for row, one in enumerate(rows) if one.is_pinned(self.units)), default=None)
        if last is None or last + 1 == len(rows):
            return None if last is None else rows[last].rate
        known = 0.0  # share of the way to the next row
        for step in range(1, 21):
            share = known + 0.5**step
            if rows[last].towards(rows[last + 1], share).is_pinned(self.units):
                known = share
        return rows[last].towards(rows[last + 1], known).rate

    def at(self, threshold: float) -> FarThreshold:
        """What to expect of a threshold that was chosen otherwise; none is looser than the first.

        Its `far` is the rate there.
        """
        row = int(np.clip(np.searchsorted(self.thresholds, threshold), 0, len(self.thresholds) - 1))
        first = self.thresholds[max(row - 1, 0)]
        share = (threshold - first) / (self.thresholds[row] - first) if row else 0.0
        spread = self._spread(max(row - 1, 0)).towards(self._spread(row), min(share, 1.0))
        return self._far_threshold(threshold, spread.rate, spread, row)

    def fpirs_at(
        self, thresholds: npt.NDArray[np.float64], gallery: int
    ) -> npt.NDArray[np.float64]:
        """The FPIR at each threshold; that of the first or last row beyond these."""
        rates = np.minimum.accumulate([curve.at(gallery).rate for curve in self.curves])
        known = self.thresholds[-len(self.curves) :]
        logs = np.log(np.maximum(rates, RAREST))
        return np.asarray(np.exp(np.interp(thresholds, known, logs)))

    def for_far(self, far: float) -> FarThreshold:
        """The threshold where the FAR is `far`, or the first or last one where there is none.

        Of these two, its `far` is the rate there.
        """
        rates = self.far["rate"]
        row, share = self._find(rates, far)
        far = min(max(far, rates[-1]), rates[0])
        spread = self._spread(max(row - 1, 0)).towards(self._spread(row), share)
        return self._far_threshold(_between(self.thresholds, row, share), far, spread, row)

    def _far_threshold(
        self, threshold: float, far: float, spread: PairSpread, row: int
    ) -> FarThreshold:
        return FarThreshold(
            threshold=threshold,
            far=far,
            seen=spread.rate,
            identities=self.identities,
            samples=self.samples,
            spread=spread,
            rough=row >= self._first_rough,
            groups=self.groups,
            design_effect=self.design_effect,
        )

    def for_fpir(self, fpir: float, gallery: int) -> FpirThreshold:
        """The same where the FPIR is `fpir` for a gallery of so many subjects."""
        rates = [curve.at(gallery).rate for curve in self.curves]
        row, share = self._find(rates, fpir)
        fpir = min(max(fpir, min(rates)), rates[0])
        lower, upper = self.curves[max(row - 1, 0)], self.curves[row]
        both = zip(lower.spreads, upper.spreads, strict=False)
        spreads = [loose.towards(strict, share) for loose, strict in both]
        curve = GalleryCurve.through(upper.galleries, spreads)
        unfollowed = len(self.thresholds) - len(self.curves)
        return FpirThreshold(
            threshold=_between(self.thresholds[unfollowed:], row, share),
            fpir=fpir,
            seen=curve.at(gallery).rate,
            gallery=gallery,
            samples_per_subject=self.samples_per_subject,
            extrapolated=gallery > upper.galleries[-1],
            identities=self.identities,
            samples=self.samples,
            curve=curve,
            rough=row + unfollowed >= self._first_rough,
            groups=self.groups,
            design_effect=self.design_effect,
        )

    @property
    def _first_rough(self) -> int:
        return len(self.thresholds) if self.measured is None else self.measured

    def _spread(self, row: int) -> PairSpread:
        return PairSpread(**{name: column[row] for name, column in self.far.items()})

    def _find(self, rates: Sequence[float], wanted: float) -> tuple[int, float]:
        """The first row whose rate is ≤ `wanted`, and how far it lies on the way from the last."""
        falling = np.minimum.accumulate(rates)
        if falling[-1] > wanted:
            return len(rates) - 1, 1.0
        row = int(np.argmax(falling <= wanted))
        if row == 0:
            return 0, 1.0
        before, after = falling[row - 1], falling[row]
        return row, math.log(before / wanted) / math.log(before / after)


def _measured_rows(pairs: ImpostorPairs, is_coarse: bool) -> list[int]:
    """How many pairs each row accepts, as far as these come from ten pairs of identities."""
    rows: list[int] = []
    wanted = LOOSEST * pairs.count
    if is_coarse:
        wanted = min(wanted, MOST_FOLLOWED / 2)
    while True:
        accepted = pairs.whole_ties(min(int(wanted), len(pairs.cosines)))
        wanted /= math.sqrt(2)
        if pairs.support(accepted) < FEWEST_IDENTITY_PAIRS:
            return rows[(len(rows) - 1) % 4 :: 4] if is_coarse else rows  # with the last
        if not rows or accepted < rows[-1]:
            rows.append(accepted)


def _design_effect(pairs: ImpostorPairs, rows: Sequence[int], groups: Rows) -> float:
    """How many times larger the variance of a rate is between sets of whole groups.

    The largest of those at the thresholds that are measured, as few groups tell little.
    """
    effects = [1.0]
    for accepted in rows:
        influence = np.full(accepted, 1 / accepted)
        by_identity = variance_of(pairs, influence)
        if by_identity > 0:
            effects.append(variance_of(pairs, influence, groups) / by_identity)
    return max(effects)


def _columns(spreads: Sequence[PairSpread]) -> dict[str, tuple[float, ...]]:
    rows = [asdict(spread) for spread in spreads]
    return {name: tuple(row[name] for row in rows) for name in _FIELDS}


def _between(thresholds: tuple[float, ...], row: int, share: float) -> float:
    """A `share` of the way from the threshold of the row before to that of `row`."""
    before = thresholds[max(row - 1, 0)]
    return before + share * (thresholds[row] - before)


def threshold_for_far(embeddings: Array, labels: Array, far: float) -> FarThreshold:
    """The lowest threshold that accepts at most a share `far` of the impostor pairs.

    To be made from *validation* identities: neither trained on, nor reported on afterwards.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers, at least two identities.
        far: the wanted rate, in (0, 1).

    Accepted are cosines ≥ threshold, which lies halfway between the lowest cosine that is accepted
    and the next, so that ties are accepted or rejected together. Of very large sets only the
    highest four million cosines are looked at; a threshold never lies below these. Where the
    accepted pairs would come from fewer than ten pairs of identities, the threshold is `rough`.

    Raises `InputError` for embeddings or labels as `verification` does, and `OptionError` for a
    rate out of range.

        >>> points = np.random.default_rng(0).normal(size=(120, 16))
        >>> result = threshold_for_far(points, np.arange(120) // 2, far=0.01)
        >>> round(result.threshold, 2), result.seen <= 0.01, result.rough
        (0.56, True, False)
        >>> low, high = result.expect(identities=500)
        >>> low < 0.01 < high
        True
    """
    far = check_rate("far", far)
    pairs = ImpostorPairs.of(embeddings, labels)
    return find_far_threshold(pairs, far) or RateTable.of(pairs).for_far(far)


def find_far_threshold(pairs: ImpostorPairs, far: float) -> FarThreshold | None:
    """As `threshold_for_far`, from impostor pairs; None where it would be rough."""
    allowed = math.floor(far * pairs.count * (1 + 1e-12))  # 0.29 · 100 is below 29 in float64
    accepted = pairs.whole_ties(min(allowed, len(pairs.cosines)))
    if pairs.support(accepted) < FEWEST_IDENTITY_PAIRS:
        return None
    spread = pair_spread(pairs, accepted)
    return FarThreshold(
        threshold=pairs.threshold(accepted),
        far=far,
        seen=spread.rate,
        identities=len(pairs.sizes),
        samples=len(pairs.identity),
        spread=spread,
    )


def threshold_for_fpir(
    embeddings: Array, labels: Array, fpir: float, gallery: int, *, samples: int = 1
) -> FpirThreshold:
    """The lowest threshold whose FPIR, for a gallery of that size, is at most `fpir`.

    To be made from *validation* identities: neither trained on, nor reported on afterwards.

    Every identity is used as probe and as gallery member. For a probe the rate is averaged exactly
    over all galleries of `gallery` other identities, with `samples` samples drawn from each; the
    FPIR is the mean over all probes. Beyond the number of other identities it is
    extrapolated (`extrapolated`): each probe is accepted by a fresh identity with a chance q of its
    own, q ~ Beta, with the two parameters chosen at each threshold such that the rates for
    galleries of 1 and of all other identities are those measured.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers, at least two identities.
        fpir: the wanted rate, in (0, 1).
        gallery: number of subjects in the gallery.
        samples: number of samples per subject. Identities that have fewer are used as probes only.

    Accepted are cosines ≥ threshold, as in `threshold_for_far`; where the accepted pairs would come
    from fewer than ten pairs of identities, the threshold is `rough`.

    Raises `InputError` for embeddings or labels as `verification` does, and `OptionError` for a
    rate or size out of range.

        >>> import numpy as np
        >>> points = np.random.default_rng(0).normal(size=(120, 16))
        >>> result = threshold_for_fpir(points, np.arange(120) // 2, fpir=0.1, gallery=20)
        >>> round(result.threshold, 2), result.extrapolated
        (0.61, False)
        >>> print(result.expect(unknown=200))
        [0.0500, 0.1600]
    """
    fpir = check_rate("fpir", fpir)
    gallery, samples = check_count("gallery", gallery), check_count("samples", samples)
    pairs = ImpostorPairs.of(embeddings, labels)
    found = find_fpir_threshold(pairs, fpir, gallery, samples)
    return found or RateTable.of(pairs, samples).for_fpir(fpir, gallery)


def find_fpir_threshold(
    pairs: ImpostorPairs, fpir: float, gallery: int, samples: int = 1
) -> FpirThreshold | None:
    """As `threshold_for_fpir`, from impostor pairs; None where it would be rough."""
    members = gallery_limit(pairs, samples)
    accepted = pairs.whole_ties(most_accepted(pairs, fpir, gallery, samples, members))
    if pairs.support(accepted) < FEWEST_IDENTITY_PAIRS:
        return None
    state = OpenSet(pairs, accepted, samples)
    curve = GalleryCurve.of(state, gallery_sizes(members, gallery))
    return FpirThreshold(
        threshold=pairs.threshold(accepted),
        fpir=fpir,
        seen=curve.at(gallery).rate,
        gallery=gallery,
        samples_per_subject=samples,
        extrapolated=gallery > members,
        identities=len(pairs.sizes),
        samples=len(pairs.identity),
        curve=curve,
    )
