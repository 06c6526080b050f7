"""How often a gallery accepts an unknown probe, averaged exactly over all galleries.

A gallery holds G identities other than the probe's, with s samples each. Identity j has n samples
of which c are accepted with the probe; a random choice of s of them holds an accepted one with
chance e = 1 − C(n − c, s)/C(n, s). The chance that none of G identities drawn from M accepts is

    S = Σ_r  H(r)·A_r,

where k of the M identities have e > 0, H(r) is the (hypergeometric) chance that r of these are
drawn, and A_r the mean, over choices of r of the k, of the product of (1 − e). Where every e is
0 or 1 this is C(M − k, G)/C(M, G).

How a false positive identification rate (FPIR) varies, between validation sets and tests.

At a fixed threshold the rate f of a gallery of G identities is a mean over probes and galleries.
Its error has three sources, each estimated from the same validation identities:

- the validation identities, each in two roles: as probe, with its own rate h, and as member of
  galleries, which with it in them have the rate f + g;
- the gallery of a test, which all its probes share: variance G·Var(g);
- the unknown identities of a test, whose probes are alike: `both` is the chance that two probes of
  one unknown are both accepted by one gallery.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from arcset.evaluation.pairs import ImpostorPairs, Rows

__all__ = ["Matches", "OpenSet", "RateSpread", "find_matches", "group"]

Floats = npt.NDArray[np.float64]
CERTAIN = 40.0  # exp(−40) is nothing beside 1, and S ≤ exp(−G·Σe/M)
BLOCK = 2**21  # numbers held at once, 16 MB
OFFSETS = 3  # each probe is put beside so many others of its identity
MOST_TWIN_ENTRIES = 2**20


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

    def expected(self) -> Floats:
        """(N,) how many of all M identities accept each probe on average: Σe."""
        return self._sums(self.chance)

    def missed(self, gallery: int) -> Floats:
        """(N,) S: the chance that no identity of a random gallery accepts the probe.

        `gallery` is at most the lowest number of members.
        """
        survival = np.ones(len(self.members))
        expected = self.expected()
        counts = np.bincount(self.probe, minlength=len(self.members))
        hopeless = gallery * expected > CERTAIN * self.members
        survival[hopeless] = 0.0
        survival[counts == 1] = 1 - (gallery * expected / self.members)[counts == 1]
        starts = np.cumsum(counts) - counts
        several = np.flatnonzero((counts > 1) & ~hopeless)
        several = several[np.argsort(-counts[several], kind="stable")]
        while len(several):
            top = several[0]
            width = _most_drawn(int(counts[top]), int(self.members[top]), gallery) + 1
            now, several = np.split(several, [max(1, BLOCK // width)])
            survival[now] = self._missed(now, starts[now], counts[now], gallery, width)
        return survival

    def about_missed(self, gallery: int) -> Floats:
        """(N,) nearly S, in time linear in the entries: Π(1 − πe) with π about G/M.

        Where no more than half of the identities accept a probe it is within 0.03.
        """
        misses = self._misses(gallery, self.members)
        return np.exp(self._sums(np.log(misses)))

    def added(self, gallery: int) -> Floats:
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
        expected, square = self.expected(), self._sums(self.chance**2)
        half = (expected - square / np.maximum(expected, 1e-300)) / 2
        share = gallery / members
        drawn = np.minimum(gallery / (members - (1 - share) * half), 1.0)
        return np.maximum(1 - drawn[self.probe] * self.chance, 1e-15)

    def _sums(self, values: Floats) -> Floats:
        """(N,) sums of `values` (K,) by probe."""
        sums = np.bincount(self.probe, weights=values, minlength=len(self.members))
        return np.asarray(sums, dtype=np.float64)

    def _missed(self, rows: Rows, starts: Rows, counts: Rows, gallery: int, width: int) -> Floats:
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


def find_matches(pairs: ImpostorPairs, accepted: int, samples: int) -> Matches:
    """Matches where the first `accepted` pairs are accepted; every row is a probe.

    Identities with fewer than `samples` samples are in no gallery.
    """
    first, second = pairs.first[:accepted], pairs.second[:accepted]
    probe = np.concatenate((first, second)).astype(np.intp)
    other = np.concatenate((second, first)).astype(np.intp)
    return group(pairs, probe, other, np.arange(len(pairs.identity)), samples)


def group(pairs: ImpostorPairs, probe: Rows, other: Rows, owners: Rows, samples: int) -> Matches:
    """Matches from entries (probe, accepted row), no entry twice.

    `owners` has for each probe a row of its identity.
    """
    large = pairs.sizes >= samples
    subject = pairs.identity[other]
    probe, subject = probe[large[subject]], subject[large[subject]]
    keys, hits = np.unique(probe * len(large) + subject, return_counts=True)
    probe, subject = np.divmod(keys, len(large))
    missed = np.ones(len(keys))
    for taken in range(samples):  # C(n − c, s)/C(n, s), factor by factor
        missed *= np.maximum(pairs.sizes[subject] - hits - taken, 0) / (
            pairs.sizes[subject] - taken
        )
    members = int(large.sum()) - large[pairs.identity[owners]].astype(np.intp)
    return Matches(probe, subject, 1 - missed, members)


def _most_drawn(marked: int, members: int, gallery: int) -> int:
    """The most of `marked` that are drawn, but for a chance of exp(−40)."""
    drawn = np.arange(min(marked, gallery) + 1)
    log = _log_hypergeometric(drawn, np.array([members]), np.array([marked]), gallery)[0]
    more = np.cumsum(np.exp(log[::-1]))[::-1]  # chance of so many or more
    return int(np.flatnonzero(more > np.exp(-CERTAIN))[-1])


def _log_hypergeometric(drawn: Rows, members: Rows, marked: Rows, gallery: int) -> Floats:
    """(N, R) log chance that `drawn` (R,) of `marked` (N,) are among `gallery` of `members`."""
    factorial = gammaln(np.arange(int(members.max()) + 1) + 1)  # logarithms of
    members, marked = members[:, None], marked[:, None]
    possible = (drawn <= marked) & (gallery - drawn <= members - marked)
    safe = np.clip(drawn, gallery - members + marked, np.minimum(marked, gallery))
    log = -factorial[safe]
    log -= factorial[marked - safe]
    log -= factorial[gallery - safe]
    log -= factorial[members - marked - gallery + safe]
    log += (
        factorial[marked]
        + factorial[members - marked]
        - factorial[members]
        + factorial[gallery]
        + factorial[members - gallery]
    )
    return np.where(possible, log, -np.inf)


@dataclass(frozen=True)
class RateSpread:
    """The rate at one threshold and gallery size, and what its variance is made of.

    Fields:
        rate: FPIR, the mean over all probes and galleries of the validation set.
        validation: variance of `rate` between validation sets like this one.
        both: chance that two probes of one unknown identity are both accepted.
        gallery: variance of a test's rate due to the draw of its gallery.
    """

    rate: float
    validation: float
    both: float
    gallery: float

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
        self.accepted = accepted
        self.matches = find_matches(pairs, accepted, samples)

    def rate(self, gallery: int) -> float:
        """FPIR: the mean over probes of the exact mean over galleries."""
        return float(np.mean(1 - self.matches.missed(gallery)))

    def spread(self, gallery: int) -> RateSpread:
        """The rate, and the parts of its variance."""
        missed = self.matches.missed(gallery)
        rate = float(np.mean(1 - missed))
        validation, drawn = self._variances(1 - missed, rate, gallery)
        return RateSpread(rate, validation, self._both(rate, gallery), drawn)

    def _variances(self, hit: Floats, rate: float, gallery: int) -> tuple[float, float]:
        """Variance of the rate between validation sets, and between galleries of a test."""
        pairs, matches = self.pairs, self.matches
        count, total = len(pairs.sizes), len(pairs.identity)
        large = pairs.sizes >= self.samples
        added = matches.added(gallery)

        # Joined over the probes of one identity, as these are alike.
        (_, k), places = self._joined
        part = np.bincount(places, weights=added) / total  # of identity a, by member k
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
        shared = np.bincount(self._both_ways, weights=part * gallery / members)
        twice = float((shared**2).sum())
        return max(plain - twice, twice), gallery * of_member

    @cached_property
    def _joined(self) -> tuple[tuple[Rows, Rows], Rows]:
        """The pairs (identity of a probe, member that matches it), and of which each match is."""
        count = len(self.pairs.sizes)
        owner = self.pairs.identity[self.matches.probe]
        keys, places = np.unique(owner * count + self.matches.subject, return_inverse=True)
        a, k = np.divmod(keys, count)
        return (a, k), places

    @cached_property
    def _both_ways(self) -> Rows:
        """For each of these the number of the pair in either order."""
        (a, k), _ = self._joined
        keys = np.minimum(a, k) * len(self.pairs.sizes) + np.maximum(a, k)
        return np.unique(keys, return_inverse=True)[1]

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
        pairs = self.pairs
        order = np.argsort(pairs.identity, kind="stable")
        starts = np.cumsum(pairs.sizes) - pairs.sizes
        place = np.arange(len(order)) - starts[pairs.identity[order]]
        size = pairs.sizes[pairs.identity[order]]
        firsts, seconds = [], []
        for offset in range(1, OFFSETS + 1):  # around the circle of an identity's samples
            here = (size > 2 * offset) | ((size == 2 * offset) & (place < offset))
            firsts.append(order[here])
            following = starts[pairs.identity[order]] + (place + offset) % size
            seconds.append(order[following[here]])
        first, second = np.concatenate(firsts), np.concatenate(seconds)
        number = float(len(first))

        accepted = slice(self.accepted)
        probe = np.concatenate((pairs.first[accepted], pairs.second[accepted])).astype(np.intp)
        other = np.concatenate((pairs.second[accepted], pairs.first[accepted])).astype(np.intp)
        by_probe = np.argsort(probe, kind="stable")
        other = other[by_probe]
        counts = np.bincount(probe, minlength=len(order))
        begin = np.cumsum(counts) - counts
        live = (counts[first] > 0) & (counts[second] > 0)
        first, second = first[live], second[live]
        step = 1 + int(counts[first].sum() + counts[second].sum()) // MOST_TWIN_ENTRIES
        first, second, number = first[::step], second[::step], number / step
        entries = [_gather(begin[rows], counts[rows]) for rows in (first, second)]
        twin = np.concatenate([which for which, _ in entries])
        rows = np.concatenate([other[at] for _, at in entries])
        keys = np.sort(twin * len(order) + rows)
        keys = keys[np.diff(keys, prepend=-1) > 0]  # a row that both match counts once
        twin, rows = np.divmod(keys, len(order))
        return group(pairs, twin, rows, first, self.samples), first, second, number


def _gather(begin: Rows, counts: Rows) -> tuple[Rows, Rows]:
    """The numbers begin, begin + 1, …, `counts` of them for each, and for which each is."""
    which = np.repeat(np.arange(len(begin)), counts)
    ends = np.cumsum(counts)
    return which, np.arange(len(which)) - np.repeat(ends - counts - begin, counts)
