"""A threshold for a wanted FPIR: how many unknown probes a gallery may take for its subjects.

The rate at one threshold for every size of gallery: measured up to the validation set's own
size, by a model beyond.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln

from arcset.checks import check_count, check_rate
from arcset.errors import InputError
from arcset.evaluation.arrays import Array
from arcset.evaluation.calibration.far import predicted_rates
from arcset.evaluation.calibration.galleries import OpenSet, RateSpread
from arcset.evaluation.pairs import FEWEST_IDENTITY_PAIRS, ImpostorPairs
from arcset.evaluation.results import Interval

__all__ = [
    "BetaBinomial",
    "FpirThreshold",
    "GalleryCurve",
    "find_fpir_threshold",
    "gallery_limit",
    "gallery_sizes",
    "threshold_for_fpir",
]

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


@dataclass(frozen=True, kw_only=True)
class FpirThreshold:
    """A threshold for identification in an open set, and what to expect of it.

    Fields:
        threshold: an unknown probe is taken for the subject of highest cosine if that cosine is
            ≥ threshold. A subject's cosine is the highest over its samples.
        fpir: the false positive identification rate wanted: the share of probes of unknown
            identities that are taken for someone.
        seen: the rate at the threshold on the validation identities, ≤ `fpir`: the mean over all
            probes and all galleries of that size; where `extrapolated`, by the model.
        gallery: how many subjects the gallery holds.
        samples_per_subject: how many samples it holds of each.
        extrapolated: whether the gallery is larger than one of the validation identities can be.
        identities, samples: of the validation set.
        curve: rate and spread at the threshold for other sizes of gallery.
    """

    threshold: float
    fpir: float
    seen: float
    gallery: int
    samples_per_subject: int
    extrapolated: bool
    identities: int
    samples: int
    curve: GalleryCurve

    def expect(
        self, unknown: int, *, probes_per_identity: int = 1, gallery: int | None = None
    ) -> Interval:
        """The 95 % prediction interval of the FPIR in a test on fresh identities.

        Parameters:
            unknown: how many unknown identities are probed.
            probes_per_identity: with how many probes each.
            gallery: how many fresh subjects the gallery holds, by default as many as the threshold
                is for.

        It holds the error of the threshold itself, the draw of the test's gallery and the draw of
        the unknown identities, whose probes are alike. It does not hold the error of the model
        where the gallery is `extrapolated`, nor a change of data: fresh identities are meant to
        come from where the validation identities came from.

        Raises `OptionError` unless all are whole numbers of at least 1.
        """
        unknown = check_count("unknown", unknown)
        probes = check_count("probes_per_identity", probes_per_identity)
        size = self.gallery if gallery is None else check_count("gallery", gallery)
        spread = self.curve.at(size)
        return predicted_rates(
            spread.rate,
            spread.validation,
            spread.test_variance(unknown, probes),
            unknown * probes,
        )

    def table(self) -> str:
        """The threshold and what to expect, as aligned plain text."""
        mark = "  (extrapolated)" if self.extrapolated else ""
        return "\n".join(
            [
                f"threshold           {self.threshold:>9.4f}",
                f"gallery             {self.gallery:>9,}{mark}",
                f"FPIR wanted         {self.fpir:>9.4g}",
                f"FPIR seen           {self.seen:>9.4g}",
                f"fresh identities    {self.expect(1000)}  (1000 unknown, 95 %)",
                f"made from           {self.identities:>9,} identities, {self.samples:,} samples",
            ]
        )

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**vars(self), "curve": self.curve.json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "FpirThreshold":
        """What `json` gave."""
        return cls(**{**content, "curve": GalleryCurve.from_json(content["curve"])})


def threshold_for_fpir(
    embeddings: Array, labels: Array, fpir: float, gallery: int, *, samples: int = 1
) -> FpirThreshold:
    """The lowest threshold whose FPIR, for a gallery of that size, is at most `fpir`.

    To be made from *validation* identities: neither trained on, nor reported on afterwards.

    Every identity is used as probe and as gallery member. For a probe the rate is averaged exactly
    over all galleries of `gallery` other identities, with `samples` samples drawn from each (see
    `galleries`); the FPIR is the mean over all probes. Beyond the number of other identities it is
    extrapolated (`extrapolated`): each probe is accepted by a fresh identity with a chance q of its
    own, q ~ Beta, with the two parameters chosen at each threshold such that the rates for
    galleries of 1 and of all other identities are those measured.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers, at least two identities.
        fpir: the wanted rate, in (0, 1).
        gallery: number of subjects in the gallery.
        samples: number of samples per subject. Identities that have fewer are used as probes only.

    Accepted are cosines ≥ threshold, which lies halfway between the lowest cosine that is accepted
    and the next, so that ties are accepted or rejected together. Of very large sets only the
    highest four million cosines are looked at; a threshold never lies below these.

    Raises `InputError` for embeddings or labels as `verification` does, and where the validation
    set cannot support the rate, that is, where the accepted pairs come from fewer than ten pairs of
    identities. Raises `OptionError` for a rate or size out of range.

        >>> import numpy as np
        >>> points = np.random.default_rng(0).normal(size=(120, 16))
        >>> found = threshold_for_fpir(points, np.arange(120) // 2, fpir=0.1, gallery=20)
        >>> round(found.threshold, 2), found.extrapolated
        (0.61, False)
        >>> print(found.expect(unknown=200))
        [0.0500, 0.1600]
    """
    fpir = check_rate("fpir", fpir)
    gallery, samples = check_count("gallery", gallery), check_count("samples", samples)
    return find_fpir_threshold(ImpostorPairs.of(embeddings, labels), fpir, gallery, samples)


def find_fpir_threshold(
    pairs: ImpostorPairs, fpir: float, gallery: int, samples: int = 1
) -> FpirThreshold:
    """As `threshold_for_fpir`, from impostor pairs."""
    members = gallery_limit(pairs, samples)
    accepted = pairs.whole_ties(_most_accepted(pairs, fpir, gallery, samples, members))
    support = pairs.support(accepted)
    if support < FEWEST_IDENTITY_PAIRS:
        raise InputError(
            f"{len(pairs.sizes):,} validation identities do not support FPIR {fpir:g} with a"
            f" gallery of {gallery:,}: the threshold would rest on {support} pairs of identities,"
            f" expected at least {FEWEST_IDENTITY_PAIRS}"
        )
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


def gallery_limit(pairs: ImpostorPairs, samples: int) -> int:
    """The largest gallery that leaves every probe's own identity out.

    Raises `InputError` where there is none.
    """
    large = int((pairs.sizes >= samples).sum())
    if large < 2:
        raise InputError(
            f"{large} identities have at least {samples} samples, expected two or more for a"
            f" gallery with {samples} samples per subject"
        )
    return large - 1


def _most_accepted(
    pairs: ImpostorPairs, fpir: float, gallery: int, samples: int, members: int
) -> int:
    """The highest number of first pairs that may be accepted; it may split ties."""

    def holds(accepted: int) -> bool:
        state = OpenSet(pairs, accepted, samples)
        if gallery <= members:
            return state.rate(gallery) <= fpir
        model = BetaBinomial.through(state.rate(1), state.rate(members), members)
        return model.rate(gallery) <= fpir

    # The rate is at most G times that of a single identity, so this many are rarely too many.
    low, high = 0, max(1, int(fpir / (gallery * samples) * pairs.count))
    high = min(high, len(pairs.cosines))
    while holds(high):
        if high == len(pairs.cosines):
            return high
        low, high = high, min(2 * high, len(pairs.cosines))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
