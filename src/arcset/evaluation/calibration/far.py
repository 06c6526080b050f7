"""A threshold for a wanted FAR, also called false-positive or false match rate: how many pairs of
different identities are taken for the same.

From a rate on validation identities to the rates that fresh identities will show.
"""

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.special import betaincinv

from arcset.checks import check_count, check_rate
from arcset.errors import InputError
from arcset.evaluation.arrays import Array
from arcset.evaluation.pairs import FEWEST_IDENTITY_PAIRS, ImpostorPairs
from arcset.evaluation.results import LEVEL, Interval
from arcset.text import columns

#: What a number read from threshold.json may be: a threshold, a rate wanted, a share or variance.
Cosine = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True)
class VaryingRate:
    """A rate at one threshold, and what its variance is made of.

    Fields:
        rate: the rate on the validation set.
        validation: variance of `rate` between validation sets like this one.
    """

    #: The numbers beside the rate, and the power of the rate that each of them grows like.
    powers: ClassVar[dict[str, int]] = {}

    rate: Share
    validation: Share

    def predict(self, test: float, decisions: int) -> Interval:
        """The 95 % prediction interval of the rate that a fresh test will show.

        The threshold was put where the validation set shows `rate`, with the variance `validation`
        between such sets; a test at a fixed threshold has the variance `test`. The test's rate is
        taken as Beta distributed around `rate`, with both variances added. A threshold's error
        enters by a ratio, as the true rate is `rate` divided by the validation set's relative
        deviation, and a ratio varies more: by 1 + 4r where the deviation has the (small) variance
        r. The borders are rounded outward to what a test of so many `decisions` can show.

            >>> print(VaryingRate(0.05, validation=1e-4).predict(test=1e-4, decisions=1000))
            [0.0250, 0.0830]
        """
        rate, widest = self.rate, self.rate * (1 - self.rate)
        if widest <= 0:
            return Interval(rate, rate)
        variance = test + self.validation * (1 + 4 * self.validation / widest**2)
        if variance <= 0:
            return Interval(rate, rate)
        size = widest / min(variance, 0.999 * widest) - 1
        tails = (1 - LEVEL) / 2, (1 + LEVEL) / 2
        low, high = (betaincinv(rate * size, (1 - rate) * size, tail) * decisions for tail in tails)
        highest = min(math.ceil(high - 1e-9), decisions)
        return Interval(math.floor(low + 1e-9) / decisions, highest / decisions)

    def towards(self, other: Self, share: float) -> Self:
        """A `share` of the way to another: the rates by ratio, the rest relative to them.

        >>> start, end = PairSpread(0.01, 1e-6, 0, 0, 0, 0), PairSpread(0.04, 4e-6, 0, 0, 0, 0)
        >>> middle = start.towards(end, 0.5)
        >>> f"{middle.rate:.3g} {middle.validation:.3g}"
        '0.02 2e-06'
        """
        if not self.rate or not other.rate:
            rate = self.rate + share * (other.rate - self.rate)
            return type(self)(rate, **dict.fromkeys(self.powers, 0.0))
        rate = self.rate ** (1 - share) * other.rate**share
        rest = {}
        for name, power in self.powers.items():
            first, second = (getattr(end, name) / end.rate**power for end in (self, other))
            rest[name] = (first + share * (second - first)) * rate**power
        return type(self)(rate, **rest)


@dataclass(frozen=True)
class PairSpread(VaryingRate):
    """The FAR at one threshold, and how alike the decisions on two impostor pairs are.

    Fields:
        rate: the share of impostor pairs accepted.
        identity: covariance of two pairs that share an identity, but no sample.
        sample: of two that share a sample, the others being of different identities.
        identities: of two pairs of the same two identities, without a shared sample.
        sample_identity: of two pairs of the same two identities that share one sample.
    """

    powers: ClassVar[dict[str, int]] = dict.fromkeys(
        ("validation", "identity", "sample", "identities", "sample_identity"), 1
    )

    identity: Share
    sample: Share
    identities: Share
    sample_identity: Share

    def test_variance(self, identities: int, samples: int) -> float:
        """Variance of the FAR over all impostor pairs of a test of that size."""
        more = samples - 1  # further samples of an identity
        others = identities - 2  # identities that share just one with a given pair
        per_pair = (
            2 * others * samples * (self.sample + more * self.identity)
            + 2 * more * self.sample_identity
            + more**2 * self.identities
            + self.rate * (1 - self.rate)
        )
        return per_pair / (identities * (identities - 1) / 2 * samples**2)


@dataclass(frozen=True, kw_only=True)
class FarThreshold:
    """A threshold for verification, and what to expect of it.

    Fields:
        threshold: two embeddings are taken for the same identity if their cosine is ≥ threshold.
        far: the false accept rate wanted.
        seen: the share of the validation set's impostor pairs that are accepted, ≤ `far`.
        identities, samples: of the validation set.
        spread: how the rate varies.
    """

    threshold: Cosine
    far: Rate
    seen: Share
    identities: int
    samples: int
    spread: PairSpread

    def expect(self, identities: int, samples_per_identity: int = 1) -> Interval:
        """The 95 % prediction interval of the FAR over all impostor pairs of fresh identities.

        It holds the error of the threshold and that of the test. Pairs that share an identity are
        alike, so it narrows with the number of identities rather than with that of pairs. It does
        not hold a change of data: fresh identities are meant to come from where the validation
        identities came from.

        Raises `OptionError` for fewer than two identities or less than one sample.
        """
        identities = check_count("identities", identities, least=2)
        samples = check_count("samples_per_identity", samples_per_identity)
        pairs = identities * (identities - 1) // 2 * samples**2
        return self.spread.predict(self.spread.test_variance(identities, samples), pairs)

    def table(self) -> str:
        """The threshold and what to expect, as aligned plain text."""
        low, high = self.expect(1000)
        rows = [
            ["FAR wanted", f"{self.far:.4g}"],
            ["FAR seen", f"{self.seen:.4g}"],
            ["fresh identities", f"{low:.3g} to {high:.3g}  (1000 identities, 95 %)"],
            ["made from", f"{self.identities:,} identities, {self.samples:,} samples"],
        ]
        return columns(["threshold", f"{self.threshold:.4f}"], rows)

    def json(self) -> dict[str, Any]:
        return asdict(self)


def threshold_for_far(embeddings: Array, labels: Array, far: float) -> FarThreshold:
    """The lowest threshold that accepts at most a share `far` of the impostor pairs.

    To be made from *validation* identities: neither trained on, nor reported on afterwards.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers, at least two identities.
        far: the wanted rate, in (0, 1).

    Accepted are cosines ≥ threshold, which lies halfway between the lowest cosine that is accepted
    and the next, so that ties are accepted or rejected together. Of very large sets only the
    highest four million cosines are looked at; a threshold never lies below these.

    Raises `InputError` for embeddings or labels as `verification` does, and where the validation
    set cannot support the rate, that is, where the accepted pairs come from fewer than ten pairs of
    identities. Raises `OptionError` for a rate out of range.

        >>> points = np.random.default_rng(0).normal(size=(120, 16))
        >>> result = threshold_for_far(points, np.arange(120) // 2, far=0.01)
        >>> round(result.threshold, 2), result.seen <= 0.01
        (0.56, True)
        >>> low, high = result.expect(identities=500)
        >>> low < 0.01 < high
        True
    """
    far = check_rate("far", far)
    return find_far_threshold(ImpostorPairs.of(embeddings, labels), far)


def find_far_threshold(pairs: ImpostorPairs, far: float) -> FarThreshold:
    """As `threshold_for_far`, from impostor pairs."""
    allowed = math.floor(far * pairs.count * (1 + 1e-12))  # 0.29 · 100 is below 29 in float64
    accepted = pairs.whole_ties(min(allowed, len(pairs.cosines)))
    check_support(pairs, accepted, f"FAR {far:g}")
    spread = pair_spread(pairs, accepted)
    return FarThreshold(
        threshold=pairs.threshold(accepted),
        far=far,
        seen=spread.rate,
        identities=len(pairs.sizes),
        samples=len(pairs.identity),
        spread=spread,
    )


def check_support(pairs: ImpostorPairs, accepted: int, rate: str) -> None:
    """Raise `InputError` where a threshold for `rate` would rest on too few pairs of identities."""
    support = pairs.support(accepted)
    if support < FEWEST_IDENTITY_PAIRS:
        raise InputError(
            f"{len(pairs.sizes):,} validation identities do not support {rate}: the threshold"
            f" would rest on {support} pairs of identities, expected at least"
            f" {FEWEST_IDENTITY_PAIRS}"
        )


def pair_spread(pairs: ImpostorPairs, accepted: int) -> PairSpread:
    """How the FAR varies where the first `accepted` pairs are accepted.

    The FAR is a mean over pairs (a U-statistic of order 2, or at the level of samples, nested in
    identities, of order 2 in both). Its variance is a sum of the covariances of pairs that share
    something, each times how often that occurs; each covariance is a mean over all such pairs of
    pairs in the validation set. Without further samples of an identity, these count as copies.
    """
    count = len(pairs.sizes)
    first, second = (rows[:accepted].astype(np.intp) for rows in (pairs.first, pairs.second))
    sample = np.concatenate((first, second))
    other = pairs.identity[np.concatenate((second, first))]
    keys, hits = np.unique(sample * count + other, return_counts=True)  # sample, other identity
    sample, other = np.divmod(keys, count)
    joint, which = np.unique(pairs.identity[sample] * count + other, return_inverse=True)
    met = np.bincount(which, weights=hits)  # between two identities, in either order
    owner = joint // count
    by_sample = np.bincount(sample, weights=hits)
    by_identity = np.bincount(owner, weights=met)

    # Sums of products of two decisions, by what the two pairs share; and how many there are.
    hits = hits.astype(np.float64)
    one_sample = (by_sample**2).sum() - (hits**2).sum()
    one_identity = (by_identity**2).sum() - (met**2).sum() - one_sample
    two_with_sample = (hits**2 - hits).sum()
    two = (met**2).sum() - 2 * (hits**2).sum() + hits.sum()

    n = pairs.sizes.astype(np.float64)
    rest = n.sum() - n
    apart = rest**2 - ((n**2).sum() - n**2)  # two others of different identities
    again = n**2 - n
    numbers = (
        float((again * apart).sum()),
        float((n * apart).sum()),
        float((again * (again.sum() - again)).sum()),
        float((n * (again.sum() - again)).sum()),
    )
    rate = accepted / pairs.count
    single = rate * (1 - rate)
    shared_sample = _covariance(one_sample, numbers[1], rate, 0.0)
    covariances = (
        _covariance(one_identity, numbers[0], rate, shared_sample),
        shared_sample,
        _covariance(two, numbers[2], rate, single),
        _covariance(two_with_sample, numbers[3], rate, single),
    )
    # Two pairs of the same identities without a shared sample are met in both orders.
    times = (numbers[0], numbers[1], numbers[2] / 2, numbers[3])
    total = sum(c * t for c, t in zip(covariances, times, strict=True)) + pairs.count * single
    return PairSpread(rate, total / float(pairs.count) ** 2, *covariances)


def _covariance(
    products: np.float64 | npt.NDArray[np.float64], number: float, rate: float, unknown: float
) -> float:
    """The mean product less the squared rate; `unknown` where there are no such pairs of pairs."""
    return max(float(products) / number - rate**2, 0.0) if number else unknown
