"""The rate at one threshold for every size of gallery: measured up to the validation set's own
size, by a model beyond.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln

from arcset.errors import InputError
from arcset.evaluation.calibration.spread import OpenSet, RateSpread

__all__ = ["BetaBinomial", "GalleryCurve", "gallery_sizes"]

HOPELESS = 0.9  # a rate above this is not followed to larger galleries


@dataclass(frozen=True)
class BetaBinomial:
    """Probes differ: each is accepted by a fresh identity with a chance q of its own, q ~ Beta.

    FPIR(G) = 1 − E(1 − q)^G = 1 − B(a, b + G)/B(a, b), with a = mean·size, b = (1 − mean)·size.
    An infinite `size` gives every probe the same q.
    """

    mean: float
    size: float

    @classmethod
    def through(cls, single: float, most: float, members: int) -> "BetaBinomial":
        """The curve with FPIR(1) = `single` and FPIR(members) = `most`.

        >>> BetaBinomial.through(0.01, 0.3, 50).rate(50)
        0.3000...
        >>> BetaBinomial.through(0.01, 1 - 0.99**50, 50).size  # all probes are alike
        inf
        """
        if members < 2 or not 0 < single < 1 or most >= -math.expm1(members * math.log1p(-single)):
            return cls(single, math.inf)
        low, high = -40.0, 40.0  # the logarithm of the size; the rate rises with it
        for _ in range(80):
            middle = (low + high) / 2
            if cls(single, math.exp(middle)).rate(members) < most:
                low = middle
            else:
                high = middle
        return cls(single, math.exp(high)) if high < 39.0 else cls(single, math.inf)

    def rate(self, gallery: int) -> float:
        """FPIR for a gallery of so many identities."""
        if self.mean <= 0 or self.mean >= 1:
            return self.mean
        if math.isinf(self.size):
            return -math.expm1(gallery * math.log1p(-self.mean))
        a, b = self.mean * self.size, (1 - self.mean) * self.size
        return -math.expm1(float(betaln(a, b + gallery) - betaln(a, b)))

    def slope(self, gallery: int) -> float:
        """What the last identity of a gallery adds to the rate: E q(1 − q)^(G − 1)."""
        if self.mean <= 0 or self.mean >= 1:
            return 0.0
        if math.isinf(self.size):
            return self.mean * math.exp((gallery - 1) * math.log1p(-self.mean))
        a, b = self.mean * self.size, (1 - self.mean) * self.size
        return math.exp(float(betaln(a + 1, b + gallery - 1) - betaln(a, b)))


@dataclass(frozen=True)
class GalleryCurve:
    """Rate and spread by size of the gallery, at one threshold.

    Fields:
        galleries: rising sizes, from 1 to the validation set's own (all identities but one).
        spreads: the rate and its spread at each of them; the list ends early where nearly every
            probe is accepted.
    """

    galleries: tuple[int, ...]
    spreads: tuple[RateSpread, ...]

    @classmethod
    def of(cls, state: OpenSet, galleries: Sequence[int]) -> "GalleryCurve":
        """Measured on the validation set."""
        spreads = []
        for gallery in galleries:
            spreads.append(state.spread(gallery))
            if spreads[-1].rate > HOPELESS:
                break
        return cls(tuple(galleries), tuple(spreads))

    def at(self, gallery: int) -> RateSpread:
        """The rate and its spread for a gallery of so many identities.

        As measured, between measured sizes interpolated, and beyond by the beta-binomial model
        through the rates of the smallest and the largest size; there the spread keeps its relative
        size.
        """
        known = len(self.spreads)
        if gallery > self.galleries[known - 1]:
            if known < len(self.galleries):
                return RateSpread(1.0, 0.0, 1.0, 0.0)
            return self._beyond(gallery)
        place = int(np.searchsorted(self.galleries[:known], gallery))
        upper = self.spreads[place]
        if self.galleries[place] == gallery:
            return upper
        lower = self.spreads[place - 1]
        near, far = self.galleries[place - 1], self.galleries[place]
        return between(lower, upper, math.log(gallery / near) / math.log(far / near))

    def _beyond(self, gallery: int) -> RateSpread:
        first, last, members = self.spreads[0], self.spreads[-1], self.galleries[-1]
        model = BetaBinomial.through(first.rate, last.rate, members)
        rate = model.rate(gallery)
        if not 0 < last.rate < 1 or not 0 < rate < 1:
            return RateSpread(rate, 0.0, rate, 0.0)
        # On the scale of −log(1 − rate), which grows like G, relative errors stay.
        growth = (1 - rate) * math.log1p(-rate) / ((1 - last.rate) * math.log1p(-last.rate))
        member = gallery / members * (model.slope(gallery) / model.slope(members)) ** 2
        alike = (last.both - last.rate**2) / (last.rate * (1 - last.rate))
        return RateSpread(
            rate=rate,
            validation=last.validation * growth**2,
            both=rate**2 + alike * rate * (1 - rate),
            gallery=last.gallery * member,
        )

    def json(self) -> dict[str, Any]:
        """As JSON knows it: a list per quantity."""
        return {
            "galleries": list(self.galleries),
            **{
                name: [float(f"{getattr(spread, name):.6g}") for spread in self.spreads]
                for name in ("rate", "validation", "both", "gallery")
            },
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "GalleryCurve":
        """What `json` gave; raises `InputError` where the numbers make no sense."""
        columns = (content[name] for name in ("rate", "validation", "both", "gallery"))
        spreads = tuple(
            RateSpread(*(float(value) for value in values)) for values in zip(*columns, strict=True)
        )
        galleries = tuple(int(size) for size in content["galleries"])
        if np.any(np.diff((0, *galleries)) <= 0) or not 0 < len(spreads) <= len(galleries):
            raise InputError("the gallery sizes do not rise, or are not as many as the rates")
        if not all(0 <= value <= 1 for spread in spreads for value in vars(spread).values()):
            raise InputError("a rate or variance by gallery size does not lie in [0, 1]")
        return cls(galleries, spreads)


def between(lower: RateSpread, upper: RateSpread, share: float) -> RateSpread:
    """A `share` of the way from one rate to another; the rates by ratio, spreads relative to them.

    >>> middle = between(RateSpread(0.01, 1e-6, 0, 0), RateSpread(0.04, 1.6e-5, 0, 0), 0.5)
    >>> f"{middle.rate:.3g} {middle.validation:.3g}"
    '0.02 4e-06'
    """
    if not lower.rate or not upper.rate:
        rate = lower.rate + share * (upper.rate - lower.rate)
        return RateSpread(rate, 0.0, 0.0, 0.0)
    rate = lower.rate ** (1 - share) * upper.rate**share

    def mixed(name: str, power: int) -> float:
        ends = (getattr(spread, name) / spread.rate**power for spread in (lower, upper))
        first, second = ends
        return float((first + share * (second - first)) * rate**power)

    return RateSpread(rate, mixed("validation", 2), mixed("both", 1), mixed("gallery", 2))


def gallery_sizes(members: int, *wanted: int) -> list[int]:
    """Sizes from 1 to `members`, one to an octave, with those `wanted` that are not larger.

    >>> gallery_sizes(20, 10)
    [1, 2, 4, 8, 10, 16, 20]
    """
    sizes = {2**step for step in range(members.bit_length())}
    return sorted(sizes | {members} | {size for size in wanted if size <= members})
