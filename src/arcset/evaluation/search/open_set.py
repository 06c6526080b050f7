"""Rates of an open-set search, from what became of every probe; weighted, draw by draw.

A probe of an enrolled subject (mated) is found if its own subject is the best, alone, and scores
at least the threshold. Any other probe (non-mated) is a false positive if its best score does.

    FPIR(t) = share of non-mated probes whose best score ≥ t
    DIR(t)  = share of mated probes whose own subject has rank 1 and a score ≥ t
    FNIR(t) = 1 − DIR(t)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["IdentificationCurve", "Outcomes"]

POINTS = 500
BLOCK_WEIGHTS = 2**21  # weights summed up at once, 16 MB

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class IdentificationCurve:
    """False positives against misses, at falling thresholds; accept when score ≥ threshold.

    Every point is exact. Where the probes give more than 500 of them, those kept are spread
    evenly over the logarithms of both rates. Empty if all probes are mated, or none.

    Fields: threshold, fpir, fnir, each (T,).
    """

    threshold: Floats
    fpir: Floats
    fnir: Floats

    def json(self) -> dict[str, list[float]]:
        """The fields as lists."""
        return {
            "threshold": self.threshold.tolist(),
            "fpir": self.fpir.tolist(),
            "fnir": self.fnir.tolist(),
        }


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What became of each probe, and whose it is.

    rank, own: (M,), of the mated probes: the rank and the score of their own subject.
    best: (U,), of the non-mated probes: their highest score.
    mated, unmated: (M,) and (U,), the number of the probe's identity.

    `weights` (B, I) say below how often each identity is drawn, in B draws.
    """

    rank: Numbers
    own: Floats
    best: Floats
    mated: Numbers
    unmated: Numbers

    @cached_property
    def found(self) -> Floats:
        """The scores of the probes whose own subject has rank 1, ascending."""
        return np.sort(self.own[self.rank == 1])

    @cached_property
    def rejectable(self) -> Floats:
        """The distinct best scores of non-mated probes, falling."""
        return np.unique(self.best)[::-1]

    def share_within(self, rank: int, weights: Floats) -> Floats:
        """The share of mated probes whose own subject is among the `rank` best, (B,)."""
        identities = weights.shape[1]
        within = np.bincount(self.mated, weights=self.rank <= rank, minlength=identities)
        return _ratio(weights @ within, weights @ np.bincount(self.mated, minlength=identities))

    def dir_at(self, fpirs: Sequence[float], weights: Floats) -> list[Floats]:
        """For each rate the highest DIR over thresholds whose FPIR does not exceed it, (B,).

        NaN where `supports` says no, be it of the set or of a draw, and without mated probes.
        """
        rates = [np.full(len(weights), np.nan) for _ in fpirs]
        if not len(self.best) or not len(self.own):
            return rates
        falling = np.argsort(-self.best, kind="stable")
        last = np.append(np.flatnonzero(np.diff(self.best[falling])), len(self.best) - 1)
        positives = self.unmated[falling]
        hits = np.flatnonzero(self.rank == 1)
        found = self.mated[hits[np.argsort(-self.own[hits], kind="stable")]]
        above = self._found_above()
        totals = weights @ np.bincount(self.mated, minlength=weights.shape[1])
        step = max(1, BLOCK_WEIGHTS // (len(positives) + len(found)))
        for start in range(0, len(weights), step):
            block = weights[start : start + step]
            false = np.cumsum(block[:, positives], axis=1)[:, last]  # (b, K)
            true = np.zeros((len(block), len(found) + 1))
            np.cumsum(block[:, found], axis=1, out=true[:, 1:])
            for rate, fpir in zip(rates, fpirs, strict=True):
                allowed = _allowed(fpir, false[:, -1])
                accepted = (false <= allowed[:, None]).sum(axis=1)
                hit = true[np.arange(len(block)), above[accepted]]
                hit[(allowed < 1) | (not self.supports(fpir))] = np.nan
                rate[start : start + step] = _ratio(hit, totals[start : start + step])
        return rates

    def supports(self, fpir: float) -> bool:
        """Whether there are at least 1/fpir non-mated probes; no threshold shows it otherwise."""
        return bool(_allowed(fpir, np.array([float(len(self.best))]))[0] >= 1)

    def threshold_at(self, fpir: float) -> float:
        """A threshold of that DIR, all weights being 1; NaN where `supports` says no.

        Halfway between the highest score that must be rejected and the lowest that is accepted.
        """
        if not self.supports(fpir):
            return math.nan
        false = len(self.best) - np.searchsorted(np.sort(self.best), self.rejectable)
        allowed = _allowed(fpir, np.array([float(len(self.best))]))[0]
        accepted = int((false <= allowed).sum())
        if accepted == len(self.rejectable):
            return -1.0
        rejected = float(self.rejectable[accepted])
        above = self._found_above()[accepted]
        lowest = [float(score) for score in self.rejectable[max(0, accepted - 1) : accepted]]
        lowest += [float(score) for score in self.found[len(self.found) - above :][:1]]
        if lowest:
            return (rejected + min(lowest)) / 2
        return _just_above(rejected)

    def curve(self) -> IdentificationCurve:
        """FPIR and FNIR over all thresholds."""
        if not len(self.best) or not len(self.own):
            return IdentificationCurve(np.empty(0), np.empty(0), np.empty(0))
        scores = np.unique(np.concatenate((self.found, self.best)))[::-1]
        threshold = np.concatenate(([_just_above(float(scores[0]))], scores))
        false = len(self.best) - np.searchsorted(np.sort(self.best), threshold)
        missed = len(self.own) - len(self.found) + np.searchsorted(self.found, threshold)
        if len(threshold) > POINTS:
            half = (POINTS - 2) // 2
            few = np.rint(np.geomspace(1, len(self.best), half))
            fewest = np.rint(np.geomspace(max(1, missed[-1]), len(self.own), half))
            kept = np.unique(
                np.concatenate(
                    (
                        [0, len(threshold) - 1],
                        np.searchsorted(false, few, side="right") - 1,
                        len(missed) - np.searchsorted(missed[::-1], fewest, side="right"),
                    )
                )
            )
            threshold, false, missed = threshold[kept], false[kept], missed[kept]
        return IdentificationCurve(threshold, false / len(self.best), missed / len(self.own))

    def _found_above(self) -> Numbers:
        """How many probes are found above each rejectable score, and if none is rejected."""
        above = len(self.found) - np.searchsorted(self.found, self.rejectable, side="right")
        return np.append(above, len(self.found))


def _allowed(rate: float, totals: Floats) -> Floats:
    """The largest whole numbers whose share of `totals` does not exceed `rate`."""
    allowed: Floats = np.floor(rate * totals)
    over = np.maximum(totals, 1)
    allowed += (allowed + 1) / over <= rate  # 0.29 · 100 is below 29 in floating point
    allowed -= allowed / over > rate
    return np.minimum(allowed, totals)


def _just_above(score: float) -> float:
    """The next float32, so that scores computed in another precision stay below as well."""
    return float(np.nextafter(np.float32(score), np.float32(np.inf)))


def _ratio(part: Floats, whole: Floats) -> Floats:
    ratio: Floats = np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
    return ratio
