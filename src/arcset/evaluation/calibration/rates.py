"""Rates by threshold, so that a threshold for any rate and gallery can be found without embeddings.

A row per threshold, from loose to strict: the FAR falls by a factor of √2 from row to row, down to
where ten pairs of identities are left. Between rows the logarithm of a rate is nearly straight.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from arcset.errors import InputError
from arcset.evaluation.calibration.curve import GalleryCurve, between, gallery_sizes
from arcset.evaluation.calibration.far import FarThreshold, PairSpread, pair_spread
from arcset.evaluation.calibration.fpir import FpirThreshold, gallery_limit
from arcset.evaluation.calibration.impostors import FEWEST_IDENTITY_PAIRS, ImpostorPairs
from arcset.evaluation.calibration.spread import OpenSet

__all__ = ["RateTable", "rounded_up"]

LOOSEST = 0.25  # FAR of the first row
MOST_FOLLOWED = 2**19  # accepted pairs up to which galleries are followed
COVARIANCES = ("identity", "sample", "identities", "sample_identity")


@dataclass(frozen=True)
class RateTable:
    """Rates and their spread at rising thresholds.

    Fields:
        thresholds: rising.
        pairs: by threshold, the FAR.
        curves: the FPIR by size of gallery; for the last thresholds only, as many as there are.
        samples_per_subject: how many samples a gallery holds of each subject.
        identities, samples: of the validation set.
    """

    thresholds: tuple[float, ...]
    pairs: tuple[PairSpread, ...]
    curves: tuple[GalleryCurve, ...]
    samples_per_subject: int
    identities: int
    samples: int

    @classmethod
    def of(cls, pairs: ImpostorPairs, samples: int = 1) -> "RateTable":
        """Measured on the validation set; without rows where it supports no rate at all."""
        sizes = gallery_sizes(gallery_limit(pairs, samples))
        rows: list[int] = []
        step = 0
        while True:
            wanted = int(LOOSEST * 2 ** (-step / 2) * pairs.count)
            step += 1
            accepted = pairs.whole_ties(min(wanted, len(pairs.cosines)))
            if pairs.support(accepted) < FEWEST_IDENTITY_PAIRS:
                break
            if not rows or accepted < rows[-1]:
                rows.append(accepted)
        followed = [accepted for accepted in rows if accepted <= MOST_FOLLOWED]
        return cls(
            thresholds=tuple(pairs.threshold(accepted) for accepted in rows),
            pairs=tuple(pair_spread(pairs, accepted) for accepted in rows),
            curves=tuple(
                GalleryCurve.of(OpenSet(pairs, accepted, samples), sizes) for accepted in followed
            ),
            samples_per_subject=samples,
            identities=len(pairs.sizes),
            samples=len(pairs.identity),
        )

    @classmethod
    def empty(cls, identities: int, samples: int) -> "RateTable":
        """A table without rows: no rate is supported."""
        return cls((), (), (), 1, identities, samples)

    @property
    def lowest_far(self) -> float | None:
        """The lowest FAR that the validation set supports; None where it supports none."""
        return self.pairs[-1].rate if self.pairs else None

    def lowest_fpir(self, gallery: int) -> float | None:
        """The same for an FPIR with a gallery of this size."""
        return min((curve.at(gallery).rate for curve in self.curves), default=None)

    def for_far(self, far: float) -> FarThreshold:
        """The threshold where the FAR is `far`, or the first one where even that accepts less.

        Raises `InputError` where the last row accepts more.
        """
        place, share = self._find([spread.rate for spread in self.pairs], far, "FAR")
        upper = self.pairs[place]
        lower = self.pairs[max(place - 1, 0)]
        spread = _pair_between(lower, upper, share)
        return FarThreshold(
            threshold=self._threshold(self.thresholds, place, share),
            far=far,
            seen=spread.rate,
            identities=self.identities,
            samples=self.samples,
            spread=spread,
        )

    def for_fpir(self, fpir: float, gallery: int) -> FpirThreshold:
        """The threshold where the FPIR is `fpir`, or the first one where even that accepts less.

        Raises `InputError` where the last row accepts more.
        """
        rates = [curve.at(gallery).rate for curve in self.curves]
        place, share = self._find(rates, fpir, "FPIR", f" with a gallery of {gallery:,}")
        return self._fpir_at(fpir, gallery, place, share)

    def strictest(self, gallery: int) -> FpirThreshold:
        """The threshold of the lowest FPIR there is, which may be a high one for a large gallery.

        Raises `InputError` where no FPIR is supported.
        """
        rates = [curve.at(gallery).rate for curve in self.curves]
        if not rates:
            self._find(rates, 0.0, "FPIR")
        return self._fpir_at(min(rates), gallery, int(np.argmin(rates)), 1.0)

    def _fpir_at(self, fpir: float, gallery: int, place: int, share: float) -> FpirThreshold:
        lower, upper = self.curves[max(place - 1, 0)], self.curves[place]
        curve = GalleryCurve(
            upper.galleries,
            tuple(
                between(loose, strict, share)
                for loose, strict in zip(lower.spreads, upper.spreads, strict=False)
            ),
        )
        return FpirThreshold(
            threshold=self._threshold(self.thresholds[-len(self.curves) :], place, share),
            fpir=fpir,
            seen=curve.at(gallery).rate,
            gallery=gallery,
            samples_per_subject=self.samples_per_subject,
            extrapolated=gallery > upper.galleries[-1],
            identities=self.identities,
            samples=self.samples,
            curve=curve,
        )

    def _find(
        self, rates: list[float], wanted: float, kind: str, where: str = ""
    ) -> tuple[int, float]:
        """The first row whose rate is ≤ `wanted`, and how far it lies on the way from the last."""
        falling = np.minimum.accumulate(rates) if rates else np.ones(1)
        if falling[-1] > wanted:
            article = "a" if kind == "FAR" else "an"
            best = f"{article} {kind} of {rounded_up(falling[-1]):g} at best"
            best = best if rates else f"no {kind}"
            raise InputError(
                f"{self.identities:,} validation identities support {best}{where}: {kind}"
                f" {wanted:g} takes a calibration on more"
            )
        place = int(np.argmax(falling <= wanted))
        if place == 0:
            return 0, 1.0
        before, after = falling[place - 1], falling[place]
        return place, math.log(before / wanted) / math.log(before / after)

    @staticmethod
    def _threshold(thresholds: tuple[float, ...], place: int, share: float) -> float:
        before = thresholds[max(place - 1, 0)]
        return before + share * (thresholds[place] - before)

    def json(self) -> dict[str, Any]:
        """As JSON knows it: a list per quantity."""
        names = ("rate", "validation", *COVARIANCES)
        return {
            "samples_per_subject": self.samples_per_subject,
            "identities": self.identities,
            "samples": self.samples,
            "thresholds": list(self.thresholds),
            "far": {
                name: [float(f"{getattr(spread, name):.6g}") for spread in self.pairs]
                for name in names
            },
            "fpir": [curve.json() for curve in self.curves],
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "RateTable":
        """What `json` gave; raises `InputError` where the numbers make no sense."""
        names = ("rate", "validation", *COVARIANCES)
        columns = [content["far"][name] for name in names]
        table = cls(
            thresholds=tuple(float(value) for value in content["thresholds"]),
            pairs=tuple(
                PairSpread.from_json(dict(zip(names, row, strict=True)))
                for row in zip(*columns, strict=True)
            ),
            curves=tuple(GalleryCurve.from_json(curve) for curve in content["fpir"]),
            samples_per_subject=int(content["samples_per_subject"]),
            identities=int(content["identities"]),
            samples=int(content["samples"]),
        )
        table.check()
        return table

    def check(self) -> None:
        """Raise `InputError` unless thresholds rise, rates fall, and their numbers agree."""
        rates = [spread.rate for spread in self.pairs]
        if not len(self.thresholds) == len(rates) >= len(self.curves):
            raise InputError("the rates are not as many as the thresholds")
        rising = all(low < high for low, high in pairwise(self.thresholds))
        if not (rising and all(-1 <= threshold <= 1 for threshold in self.thresholds)):
            raise InputError("the thresholds do not rise within [−1, 1]")
        if np.any(np.diff(rates) >= 0):
            raise InputError("the false accept rates do not fall")
        if min(self.identities - 1, self.samples - 1, self.samples_per_subject) < 1:
            raise InputError("there are too few identities or samples")


def rounded_up(rate: float) -> float:
    """To two digits, so that it can be asked for.

    >>> rounded_up(0.01234), rounded_up(0.5), rounded_up(0.999)
    (0.013, 0.5, 1.0)
    """
    step = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return float(f"{math.ceil(rate / step - 1e-9) * step:.2g}")


def _pair_between(lower: PairSpread, upper: PairSpread, share: float) -> PairSpread:
    rate = lower.rate ** (1 - share) * upper.rate**share
    relative = [
        (1 - share) * getattr(lower, name) / lower.rate + share * getattr(upper, name) / upper.rate
        for name in ("validation", *COVARIANCES)
    ]
    return PairSpread(rate, *(value * rate for value in relative))
