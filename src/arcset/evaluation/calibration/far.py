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
from scipy.special import betaincinv, expit, logit, stdtrit

from arcset.checks import check_count
from arcset.evaluation.pairs import ImpostorPairs
from arcset.evaluation.results import LEVEL, Interval
from arcset.text import columns

#: What a number read from threshold.json may be: a threshold, a rate wanted, a share or variance.
Cosine = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
#: A set with too low a rate shows too low a variance, too, so that intervals want some more room.
WIDER = 1.1
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

    def predict(self, decisions: int, units: int, test: float = 0.0) -> Interval:
        """The 95 % prediction interval of the rate that a fresh test will show.

        The threshold was put where the validation set shows `rate`, with the variance `validation`
        between such sets. A threshold's error multiplies rates: on the scale of the log odds the
        interval of what the threshold does is Student's, for a set of so many `units`, identities
        or groups of them. A test at a fixed threshold has the variance `test` and is taken as Beta
        distributed. Both errors' distances from the rate are added as squares: those below it by
        ratio, those above as they are. The borders are rounded outward to what a test of so many
        `decisions` can show.

            >>> print(VaryingRate(0.05, validation=1e-4).predict(1000, units=200, test=1e-4))
            [0.0260, 0.0850]
        """
        low, high = self._between(units)
        widest = self.rate * (1 - self.rate)
        if test > 0 and widest > 0:
            size = widest / min(test, 0.999 * widest) - 1
            tails = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            least, most = betaincinv(self.rate * size, (1 - self.rate) * size, tails)
            ratios = self.rate / np.array([low, max(least, 1e-300)])
            low = self.rate * math.exp(-math.hypot(*np.log(ratios)))
            high = self.rate + math.hypot(high - self.rate, most - self.rate)
        highest = min(math.ceil(high * decisions - 1e-9), decisions)
        return Interval(math.floor(low * decisions + 1e-9) / decisions, highest / decisions)

    def is_pinned(self, units: int) -> bool:
        """Whether the rate is known within a factor of 100, whatever the size of a test."""
        low, high = self._between(units)
        return bool(low < self.rate < high <= 100 * low)

    def _between(self, units: int) -> tuple[float, float]:
        if not 0 < self.rate < 1:
            return self.rate, self.rate
        error = math.sqrt(self.validation) / (self.rate * (1 - self.rate))
        half = WIDER * float(stdtrit(max(units - 1, 1), (1 + LEVEL) / 2)) * error
        low, high = expit(logit(self.rate) + np.array([-half, half]))
        return float(low), float(high)

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
            rest[name] = min((first + share * (second - first)) * rate**power, 1.0)
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

    def rarer(self, rate: float, variance: float) -> "PairSpread":
        """At a stricter threshold; variance: of the logarithm of its rate."""
        rest = {name: getattr(self, name) * rate / self.rate for name in self.powers}
        return PairSpread(rate, **{**rest, "validation": min(variance * rate**2, 1.0)})

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
        seen: the share of the validation set's impostor pairs that are accepted, ≤ `far`; where
            `rough`, by the smooth tail.
        identities, samples: of the validation set.
        spread: how the rate varies.
        rough: whether fewer than ten pairs of identities would be accepted, so that the threshold
            comes from a smooth tail of the impostor cosines.
        groups: how many groups the identities come in, where other groups are asked about.
        design_effect: how many times larger variances are where whole groups are drawn.
    """

    threshold: Cosine
    far: Share
    seen: Share
    identities: int
    samples: int
    spread: PairSpread
    rough: bool = False
    groups: int | None = None
    design_effect: float = 1.0

    @property
    def pinned(self) -> bool:
        """Whether the rate is known within a factor of 100."""
        return self.spread.is_pinned(self.groups or self.identities)

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
        test = self.design_effect * self.spread.test_variance(identities, samples)
        return self.spread.predict(pairs, self.groups or self.identities, test)

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
    # Not 1 where rows stand for sets, of which there are more or fewer than rows.
    density = (2 * pairs.count / float((n * rest).sum())) ** 2
    numbers = (
        float((again * apart).sum()) * density,
        float((n * apart).sum()) * density,
        float((again * (again.sum() - again)).sum()) * density,
        float((n * (again.sum() - again)).sum()) * density,
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
