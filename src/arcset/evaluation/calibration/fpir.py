"""A threshold for a wanted FPIR, the false-positive rate of identification: how many unknown probes
a gallery may take for its subjects.

**The rate.** A gallery holds G identities other than the probe's, with s samples each. Identity j
has n samples of which c are accepted with the probe; a random choice of s of them holds an accepted
one with chance e = 1 − C(n − c, s)/C(n, s). The chance that none of G identities drawn from M
accepts is

    S = Σ_r  H(r)·A_r,

where k of the M identities have e > 0, H(r) is the (hypergeometric) chance that r of these are
drawn, and A_r the mean, over choices of r of the k, of the product of (1 − e). Where every e is
0 or 1 this is C(M − k, G)/C(M, G). So the rate is averaged exactly over all galleries, for every
size up to the validation set's own; beyond, it follows a model (`BetaBinomial`).

**How it varies.** At a fixed threshold the rate f of a gallery of G identities is a mean over
probes and galleries. Its error has three sources, each estimated from the same identities:

- the validation identities, each in two roles: as probe, with its own rate h, and as member of
  galleries, which with it in them have the rate f + g;
- the gallery of a test, which all its probes share: variance G·Var(g);
- the unknown identities of a test, whose probes are alike: `both` is the chance that two probes of
  one unknown are both accepted by one gallery.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, PlainSerializer, TypeAdapter, model_validator
from scipy.sparse import csr_array
from scipy.special import betaln, gammaln

from arcset.checks import check_count
from arcset.errors import InputError
from arcset.evaluation.calibration.far import (
    Cosine,
    Share,
    VaryingRate,
)
from arcset.evaluation.pairs import ImpostorPairs, Rows
from arcset.evaluation.results import Interval
from arcset.text import columns

Floats = npt.NDArray[np.float64]
#: A share or variance of which a file holds six digits.
RoundedShare = Annotated[Share, PlainSerializer(lambda value: float(f"{value:.6g}"))]

CERTAIN = 40.0  # exp(−40) is nothing beside 1, and S ≤ exp(−G·Σe/M)
_SUMMED = 2**16  # identities of a gallery that are counted one by one
BLOCK = 2**21  # numbers held at once, 16 MB
OFFSETS = 3  # each probe is put beside so many others of its identity
MOST_TWIN_ENTRIES = 2**20
HOPELESS = 0.9  # a rate above this is not followed to larger galleries
HARDLY_ALL = 1 - 1e-6  # instead of 1, which says nothing about lower rates


@dataclass(frozen=True, eq=False)
class Matches:
    """Which identities accept which probe: one entry per probe and identity with e > 0.

    Fields:
        probe: (K,) rising; which probe.
        subject: (K,) which identity.
        chance: (K,) its e, in (0, 1].
        members: (N,) for each probe the number M of identities a gallery can be drawn from.
    """

    probe: Rows
    subject: Rows
    chance: Floats
    members: Rows

    def miss_chance(self, gallery: int) -> Floats:
        """(N,) S: the chance that no identity of a random gallery accepts the probe.

        `gallery` is at most the lowest number of members.
        """
        survival = np.ones(len(self.members))
        counts = np.bincount(self.probe, minlength=len(self.members))
        hopeless = gallery * self._sums(self.chance) > CERTAIN * self.members
        survival[hopeless] = 0.0
        starts = np.cumsum(counts) - counts
        open_ = np.flatnonzero((counts > 0) & ~hopeless)
        open_ = open_[np.argsort(-counts[open_], kind="stable")]
        while len(open_):
            width = min(int(counts[open_[0]]), gallery) + 1
            now, open_ = np.split(open_, [max(1, BLOCK // width)])
            survival[now] = self._miss_chances(now, starts[now], counts[now], gallery, width)
        return survival

    def about_missed(self, gallery: int) -> Floats:
        """(N,) nearly S, in time linear in the entries: Π(1 − πe) with π about G/M.

        Where no more than half of the identities accept a probe it is within 0.03.
        """
        misses = self._misses(gallery, self.members)
        return np.exp(self._sums(np.log(misses)))

    def acceptance_gain(self, gallery: int) -> Floats:
        """(K,) what the identity adds to the chance that a gallery of G with it accepts the probe:
        e, where the other G − 1 miss, nearly.
        """
        misses = self._misses(gallery - 1, np.maximum(self.members - 1, 1))
        return self.chance * np.exp(self._sums(np.log(misses))[self.probe] - np.log(misses))

    def _misses(self, gallery: int, members: Rows) -> Floats:
        """(K,) 1 − πe; never quite 0, so that it can be divided out.

        π is the chance that the identity is drawn after about half of the other accepting ones were
        not; with e of 0 and 1 the product is then near C(M − x, G)/C(M, G), whichever of x and G is
        the smaller, and exact for G = M.
        """
        expected, square = self._sums(self.chance), self._sums(self.chance**2)
        half = (expected - square / np.maximum(expected, 1e-300)) / 2
        share = gallery / members
        drawn = np.minimum(gallery / (members - (1 - share) * half), 1.0)
        return np.maximum(1 - drawn[self.probe] * self.chance, 1e-15)

    def _sums(self, values: Floats) -> Floats:
        """(N,) sums of `values` (K,) by probe."""
        sums = np.bincount(self.probe, weights=values, minlength=len(self.members))
        return np.asarray(sums, dtype=np.float64)

    def _miss_chances(
        self, rows: Rows, starts: Rows, counts: Rows, gallery: int, width: int
    ) -> Floats:
        """S of the probes `rows`, which have `counts` entries, falling, from `starts` on."""
        drawn = np.arange(width)
        means = np.zeros((len(rows), width))  # A_r of the entries so far
        means[:, 0] = 1.0
        for done in range(int(counts[0])):
            live = int(np.searchsorted(-counts, -done, side="left"))  # those with more entries
            keep = 1 - self.chance[starts[:live] + done]
            top = min(done + 2, width)
            part = means[:live, :top]
            with_it = part[:, :-1] * keep[:, None]
            part *= (done + 1 - drawn[:top]) / (done + 1)
            part[:, 1:] += with_it * (drawn[1:top] / (done + 1))
        log_chance = _log_hypergeometric(drawn, self.members[rows], counts, gallery)
        survival: Floats = np.einsum("nr,nr->n", np.exp(log_chance), means)
        return np.minimum(survival, 1.0)


def group(pairs: ImpostorPairs, probe: Rows, other: Rows, owners: Rows, samples: int) -> Matches:
    """Matches from entries (probe, accepted row), no entry twice.

    `owners` has for each probe a row of its identity. Identities with fewer than `samples` samples
    are in no gallery.
    """
    large = pairs.sizes >= samples
    subject = pairs.identity[other]
    probe, subject = probe[large[subject]], subject[large[subject]]
    keys, hits = np.unique(probe * len(large) + subject, return_counts=True)
    probe, subject = np.divmod(keys, len(large))
    chance = pairs.chance(subject, hits, samples)
    members = int(large.sum()) - large[pairs.identity[owners]].astype(np.intp)
    return Matches(probe, subject, chance, members)


def _log_hypergeometric(drawn: Rows, members: Rows, marked: Rows, gallery: int) -> Floats:
    """(N, R) log chance that `drawn` (R,) of `marked` (N,) are among `gallery` of `members`."""
    factorials = gammaln(np.arange(int(members.max()) + 1) + 1)  # logarithms of

    def binomial(n: Rows, k: Rows) -> Floats:
        inside = np.clip(k, 0, n)
        logs = factorials[n] - factorials[inside] - factorials[n - inside]
        return np.where(inside == k, logs, -np.inf)

    members, marked = members[:, None], marked[:, None]
    return (
        binomial(marked, drawn)
        + binomial(members - marked, gallery - drawn)
        - binomial(members, np.array(gallery))
    )


@dataclass(frozen=True)
class RateSpread(VaryingRate):
    """The FPIR at one threshold and gallery size, and what its variance is made of.

    Fields:
        rate: the mean over all probes and galleries of the validation set.
        both: chance that two probes of one unknown identity are both accepted.
        gallery: variance of a test's rate due to the draw of its gallery.
    """

    powers: ClassVar[dict[str, int]] = {"validation": 2, "both": 1, "gallery": 2}

    both: Share
    gallery: Share

    def at_rate(self, rate: float, validation: float, gallery: float) -> "RateSpread":
        """At another rate, where two probes of one identity are as much alike."""
        alike = (self.both - self.rate**2) / (self.rate * (1 - self.rate))
        both = min(max(rate**2 + alike * rate * (1 - rate), 0.0), rate)
        return RateSpread(rate, min(validation, 1.0), both, min(gallery, 1.0))

    def test_variance(self, unknown: int, probes: int) -> float:
        """Variance of the rate in a test with `unknown` identities of `probes` probes each."""
        # Given the gallery, identities are independent: the mean square of an identity's share of
        # accepted probes, less the mean square of a gallery's rate, is their variance.
        square = self.rate / probes + (1 - 1 / probes) * self.both
        each = max(square - self.rate**2 - self.gallery, 0.0)
        return self.gallery + each / unknown


class OpenSet:
    """Rates and their spread where the first `accepted` impostor pairs are accepted.

    Parameters:
        pairs: the impostor pairs of the validation set.
        accepted: how many of them the threshold accepts.
        samples: how many samples a gallery holds of each identity.
    """

    def __init__(self, pairs: ImpostorPairs, accepted: int, samples: int = 1) -> None:
        self.pairs = pairs
        self.samples = samples
        self.probe, self.other = pairs.by_probe(accepted)
        everybody = np.arange(len(pairs.identity))
        self.matches = group(pairs, self.probe, self.other, everybody, samples)

    def rate(self, gallery: int) -> float:
        """FPIR: the mean over probes of the exact mean over galleries."""
        return float(np.mean(1 - self.matches.miss_chance(gallery)))

    def spread(self, gallery: int) -> RateSpread:
        """The rate, and the parts of its variance."""
        missed = self.matches.miss_chance(gallery)
        rate = float(np.mean(1 - missed))
        validation, drawn = self._variances(1 - missed, rate, gallery)
        return RateSpread(rate, validation, self._both(rate, gallery), drawn)

    def _variances(self, hit: Floats, rate: float, gallery: int) -> tuple[float, float]:
        """Variance of the rate between validation sets, and between galleries of a test."""
        pairs, added = self.pairs, self.matches.acceptance_gain(gallery)
        count, total = len(pairs.sizes), len(pairs.identity)
        large = pairs.sizes >= self.samples
        k, of_match, unordered = self._identity_pairs
        part = np.bincount(of_match, weights=added) / total  # of identity a, by member k
        member = np.bincount(k, weights=part, minlength=count)
        member[large] -= member[large].mean()
        members = int(large.sum())
        noise = float((part**2).sum()) / members  # of few probes, not of the members
        of_member = max(float((member[large] ** 2).sum()) / (members - 1) - noise, 0.0)

        of_probe = np.bincount(pairs.identity, weights=hit - rate, minlength=count)
        influence = of_probe / total
        influence[large] += gallery * member[large] / members
        plain = float((influence**2).sum()) * count / (count - 1)
        # The influence of a holds what the pair {a, b} adds, and so does that of b: counted twice.
        shared = np.bincount(unordered, weights=part * gallery / members)
        twice = float((shared**2).sum())
        return max(plain - twice, twice), gallery * of_member

    @cached_property
    def _identity_pairs(self) -> tuple[Rows, Rows, Rows]:
        """The pairs (identity a of a probe, member k that matches it), joined over its probes.

        For each pair the k; for each match the number of its pair; and for each pair the number
        of {a, k}, the same in either order.
        """
        count = len(self.pairs.sizes)
        owner = self.pairs.identity[self.matches.probe]
        keys, of_match = np.unique(owner * count + self.matches.subject, return_inverse=True)
        a, k = np.divmod(keys, count)
        unordered = np.minimum(a, k) * count + np.maximum(a, k)
        return k, of_match, np.unique(unordered, return_inverse=True)[1]

    def _both(self, rate: float, gallery: int) -> float:
        """Chance that two probes of one identity are accepted by the same gallery."""
        matches, first, second, number = self._twins
        if not number:
            return rate  # one sample per identity: for all we know its probes are all alike
        missed, neither = self.matches.about_missed(gallery), matches.about_missed(gallery)
        both = 1 - missed[first] - missed[second] + neither
        return float(np.clip(both.sum() / number, 0.0, rate))

    @cached_property
    def _twins(self) -> tuple[Matches, Rows, Rows, float]:
        """Pairs of probes of one identity, as probes that are accepted where either is.

        Of the pairs only those are listed in which both are accepted by someone; the number is
        that of all.
        """
        first, second = _probe_pairs(self.pairs)
        number = float(len(first))
        size = len(self.pairs.identity)
        entries = np.ones(len(self.probe), dtype=np.int8), (self.probe, self.other)
        accepted = csr_array(entries, shape=(size, size))
        counts = np.diff(accepted.indptr)
        live = (counts[first] > 0) & (counts[second] > 0)
        first, second = first[live], second[live]
        step = 1 + int(counts[first].sum() + counts[second].sum()) // MOST_TWIN_ENTRIES
        first, second, number = first[::step], second[::step], number / step
        twin, rows = (accepted[first] + accepted[second]).nonzero()
        twins = group(self.pairs, twin.astype(np.intp), rows, first, self.samples)
        return twins, first, second, number


def _probe_pairs(pairs: ImpostorPairs) -> tuple[Rows, Rows]:
    """Rows of one identity, two and two: each beside the next few, in a circle."""
    order = np.argsort(pairs.identity, kind="stable")
    identity = pairs.identity[order]
    starts, size = (np.cumsum(pairs.sizes) - pairs.sizes)[identity], pairs.sizes[identity]
    number = np.arange(len(order)) - starts  # within the identity
    firsts, seconds = [], []
    for offset in range(1, OFFSETS + 1):
        # Half way round a circle of even size, each pair would be met from both ends.
        here = (size > 2 * offset) | ((size == 2 * offset) & (number < offset))
        firsts.append(order[here])
        seconds.append(order[(starts + (number + offset) % size)[here]])
    return np.concatenate(firsts), np.concatenate(seconds)


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
        if members < 2 or not 0 < single < 1 or most >= 1:
            return cls(single, math.inf)
        if most >= -math.expm1(members * math.log1p(-single)):  # drawn from few, none comes twice
            return cls(-math.expm1(math.log1p(-most) / members), math.inf)
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
        return -math.expm1(_log_ratio(a, b, gallery))

    def rarer(self, mean: float) -> "BetaBinomial":
        """At a stricter threshold, where `mean` is lower.

        How much probes differ, the variance of q beside its squared mean, grows like the root of
        1/mean: so it does, nearly, in simulated populations with families.
        """
        if math.isinf(self.size):
            return BetaBinomial(mean, math.inf)
        differing = (1 - self.mean) / (self.mean * (self.size + 1)) * math.sqrt(self.mean / mean)
        return BetaBinomial(mean, (1 - mean) / (mean * differing) - 1)

    def slope(self, gallery: int) -> float:
        """What the last identity of a gallery adds to the rate: E q(1 − q)^(G − 1), for rates > 0.

        Not the difference of two rates, which rounding would make 0.
        """
        if math.isinf(self.size):
            return self.mean * math.exp((gallery - 1) * math.log1p(-self.mean))
        a, b = self.mean * self.size, (1 - self.mean) * self.size
        return self.mean * math.exp(_log_ratio(a + 1, b, gallery - 1))


def _log_ratio(a: float, b: float, count: int) -> float:
    """log(B(a, b + count) / B(a, b)), as a sum: of large a + b the logarithms of B cancel out.

    >>> round(_log_ratio(1e9, 1e12, 6), 6), round(_log_ratio(2.0, 3.0, 1), 6)  # the latter: log 3/5
    (-0.005997, -0.510826)
    """
    if count > _SUMMED:
        return float(betaln(a, b + count) - betaln(a, b))
    return float(np.log1p(-a / (a + b + np.arange(count))).sum())


@dataclass(frozen=True)
class GalleryCurve:
    """Rate and spread by size of the gallery, at one threshold.

    Fields:
        galleries: rising sizes, from 1 to the validation set's own (all identities but one).
        rate, validation, both, gallery: the fields of `RateSpread` at each of them; they end early
            where nearly every probe is accepted.
    """

    galleries: tuple[int, ...]
    rate: tuple[RoundedShare, ...]
    validation: tuple[RoundedShare, ...]
    both: tuple[RoundedShare, ...]
    gallery: tuple[RoundedShare, ...]

    @classmethod
    def of(
        cls, state: OpenSet, galleries: Sequence[int], design_effect: float = 1.0
    ) -> "GalleryCurve":
        """Measured on the validation set."""
        spreads = []
        for gallery in galleries:
            spread = state.spread(gallery)
            spreads.append(replace(spread, validation=min(design_effect * spread.validation, 1.0)))
            if spreads[-1].rate > HOPELESS:
                break
        return cls.through(galleries, spreads)

    @classmethod
    def through(cls, galleries: Sequence[int], spreads: Sequence[RateSpread]) -> "GalleryCurve":
        """From the rate and its spread at each size."""
        names = ("rate", "validation", "both", "gallery")
        columns = {name: tuple(getattr(spread, name) for spread in spreads) for name in names}
        return cls(tuple(galleries), **columns)

    @property
    def spreads(self) -> list[RateSpread]:
        """The rate and its spread at each size."""
        columns = zip(self.rate, self.validation, self.both, self.gallery, strict=True)
        return [RateSpread(*values) for values in columns]

    @model_validator(mode="after")
    def check(self) -> Self:
        """Of what is read from a file: sizes rise, and there are rates for the first of them."""
        known = len(self.spreads)  # raises ValueError for columns of different length
        if np.any(np.diff((0, *self.galleries)) <= 0) or not 0 < known <= len(self.galleries):
            raise ValueError("the gallery sizes do not rise, or are not as many as the rates")
        return self

    def at(self, gallery: int) -> RateSpread:
        """The rate and its spread for a gallery of so many identities.

        As measured, between measured sizes interpolated, and beyond by the beta-binomial model
        through the rates of the smallest and the largest size; there the spread keeps its relative
        size.
        """
        spreads = self.spreads
        if gallery > self.galleries[len(spreads) - 1]:
            if len(spreads) < len(self.galleries):
                return RateSpread(1.0, 0.0, 1.0, 0.0)
            return self._beyond(gallery)
        upper = int(np.searchsorted(self.galleries, gallery))
        if self.galleries[upper] == gallery:
            return spreads[upper]
        near, far = self.galleries[upper - 1], self.galleries[upper]
        share = math.log(gallery / near) / math.log(far / near)
        return spreads[upper - 1].towards(spreads[upper], share)

    def rarer(self, rate: float, variance: float) -> "GalleryCurve":
        """At a stricter threshold, where the rate for a gallery of one is `rate`.

        variance: of the logarithm of that rate. What galleries make of a single comparison follows
        the beta-binomial model; errors add on the scale of −log(1 − rate).
        """
        known = [replace(one, rate=min(one.rate, HARDLY_ALL)) for one in self.spreads]
        first, last = known[0], known[-1]
        model = BetaBinomial.through(first.rate, last.rate, self.galleries[len(known) - 1])
        then = model.rarer(rate * model.mean / first.rate)
        more = max(variance - first.validation / first.rate**2, 0.0)
        spreads = []
        for gallery, spread in zip(self.galleries, known, strict=False):
            growth = math.log1p(-then.rate(gallery)) / math.log1p(-model.rate(gallery))
            new = -math.expm1(growth * math.log1p(-spread.rate))
            scale = (1 - new) * math.log1p(-new)
            relative = scale / ((1 - spread.rate) * math.log1p(-spread.rate))
            spreads.append(
                spread.at_rate(
                    new,
                    validation=spread.validation * relative**2 + more * scale**2,
                    gallery=spread.gallery * relative**2 * math.sqrt(first.rate / rate),
                )
            )
        return GalleryCurve.through(self.galleries[: len(spreads)], spreads)

    def _beyond(self, gallery: int) -> RateSpread:
        last, members = self.spreads[-1], self.galleries[-1]
        model = BetaBinomial.through(self.rate[0], last.rate, members)
        rate = model.rate(gallery)
        if not 0 < last.rate < 1 or not 0 < rate < 1:
            return RateSpread(rate, 0.0, rate, 0.0)
        # On the scale of −log(1 − rate), which grows like G, relative errors stay.
        growth = (1 - rate) * math.log1p(-rate) / ((1 - last.rate) * math.log1p(-last.rate))
        member = gallery / members * (model.slope(gallery) / model.slope(members)) ** 2
        return last.at_rate(rate, last.validation * growth**2, last.gallery * member)


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
        rough, groups, design_effect: as of `FarThreshold`.
    """

    threshold: Cosine
    fpir: Share
    seen: Share
    gallery: Annotated[int, Field(ge=1)]
    samples_per_subject: int
    extrapolated: bool
    identities: int
    samples: int
    curve: GalleryCurve
    rough: bool = False
    groups: int | None = None
    design_effect: float = 1.0

    @property
    def pinned(self) -> bool:
        """Whether the rate is known within a factor of 100."""
        return self.curve.at(self.gallery).is_pinned(self.groups or self.identities)

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
        test = self.design_effect * spread.test_variance(unknown, probes)
        return spread.predict(unknown * probes, self.groups or self.identities, test)

    def table(self) -> str:
        """The threshold and what to expect, as aligned plain text."""
        rows = [
            ["gallery", f"{self.gallery:,}{'  (extrapolated)' if self.extrapolated else ''}"],
            ["FPIR wanted", f"{self.fpir:.4g}"],
            ["FPIR seen", f"{self.seen:.4g}"],
            ["fresh identities", f"{self.expect(1000)}  (1000 unknown, 95 %)"],
            ["made from", f"{self.identities:,} identities, {self.samples:,} samples"],
        ]
        return columns(["threshold", f"{self.threshold:.4f}"], rows)

    def json(self) -> dict[str, Any]:
        return dict(TypeAdapter(FpirThreshold).dump_python(self, mode="json"))


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


def most_accepted(
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
