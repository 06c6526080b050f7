"""How a false positive identification rate (FPIR) varies, between validation sets and tests.

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

from arcset.evaluation.calibration.galleries import Matches, find_matches, group
from arcset.evaluation.calibration.impostors import ImpostorPairs, Rows

__all__ = ["OpenSet", "RateSpread"]

Floats = npt.NDArray[np.float64]

OFFSETS = 3  # each probe is put beside so many others of its identity
MOST_TWIN_ENTRIES = 2**20


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
