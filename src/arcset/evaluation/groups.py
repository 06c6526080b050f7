"""Does it work for everybody? False matches and false non-matches by group, at one threshold.

Each sample lies in a group: of age, sex, country, camera, alphabet.

- FMR of a group: the share of its impostor pairs, *both samples of the group*, that are accepted.
- FNMR of a group: the share of its genuine pairs, both samples of the group, that are rejected.

An impostor of one's own group looks most alike, so that is whom demographic reports count (P.
Grother, M. Ngan, K. Hanaoka: Face Recognition Vendor Test Part 3: Demographic Effects, NISTIR 8280,
2019; ISO/IEC 19795-10:2024). Pairs across two groups are a row of their own, with the genuine pairs
of identities whose samples lie in two groups.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcset.checks import check_number, check_rate
from arcset.errors import InputError
from arcset.evaluation.arrays import Array, as_array, read_labelled
from arcset.evaluation.bootstrap import DRAWS, SEED, Resampling, groups_of, sample_pairs
from arcset.evaluation.calibration.table import RateTable, find_far_threshold
from arcset.evaluation.pairs import ImpostorPairs, Rows, SortedRows, round_cosines
from arcset.evaluation.rates import Floats, Roc
from arcset.evaluation.results import LEVEL, Interval, share_interval
from arcset.files import finite
from arcset.text import columns

KINDS = ("FMR", "FNMR")
HEADING = ("group", "identities", "samples", "FMR", "× all", "FNMR", "× all")
MEANING = (
    "FMR: share of the pairs of different identities, both samples of the group, that are taken "
    "for the same; FNMR: share of the pairs of one identity that are not; all at one threshold. "
    "× all: how many times the rate of the whole set. With 95 % intervals."
)
MISLEADS = (
    "Of many groups one is the worst by chance: a difference counts as shown where its interval, "
    "widened for the choice of both groups, leaves out 1; and none shown does not say that there "
    "is none. A group differs in its images as well, in light, age or camera."
)
_MOST = 1000  # groups, beyond which a column names something else


class GroupRate(NamedTuple):
    """A share of so many pairs, and its standard error over draws of so many identities or groups.

    trials: how many independent ones each of these stands for, as of `Measure`.
    """

    share: float
    pairs: int
    trials: float
    error: float
    units: int

    def interval(self, level: float = LEVEL) -> Interval:
        """NaN where there is nothing to tell from."""
        if math.isnan(self.share + self.error) or self.units < 2:
            return Interval(math.nan, math.nan)
        return share_interval(self.share, self.error, self.units, self.trials, level)

    def times(self, other: "GroupRate", level: float = LEVEL) -> tuple[float, Interval]:
        """How many times as high as another it is, and the interval of that.

        From the intervals of both, as if they were independent; it has ends even where a share is
        0. A. Donner, G. Y. Zou: Closed-form confidence intervals for functions of the normal mean
        and standard deviation, Statistical Methods in Medical Research 21, 2012.

            >>> few, none = (GroupRate(x, 4950, 50, x / 4, 100) for x in (0.002, 0.0))
            >>> few.times(none)[0], round(few.times(none)[1].low, 1)
            (inf, 2.3)
        """
        p, q = self.share, other.share
        (p_low, p_high), (q_low, q_high) = self.interval(level), other.interval(level)
        value = p / q if q else math.inf if p > 0 else math.nan
        if math.isnan(p_low + q_low):
            return value, Interval(math.nan, math.nan)

        def root(p_end: float, q_end: float) -> float:
            product = p_end * (2 * p - p_end) * q_end * (2 * q - q_end)
            return p * q + math.sqrt(max((p * q) ** 2 - product, 0.0))

        low = p_low * (2 * p - p_low) / root(p_low, q_high) if p_low > 0 else 0.0
        return value, Interval(
            low, root(p_high, q_low) / (q_low * (2 * q - q_low)) if q_low > 0 else math.inf
        )


class GroupRates(NamedTuple):
    """Of one group."""

    identities: int
    samples: int
    fmr: GroupRate
    fnmr: GroupRate


@dataclass(frozen=True, eq=False)
class ByGroup:
    """What `by_group` found.

    threshold: that all pairs are judged by. basis: where it comes from, in words.
    whole: of all pairs. groups: by name. across: of pairs across groups.
    column: what the groups are called together.
    """

    threshold: float
    basis: str
    whole: GroupRates
    groups: Mapping[str, GroupRates]
    across: GroupRates
    column: str

    def extremes(self) -> dict[str, tuple[str, str, float, Interval]]:
        """For FMR and FNMR the groups with the highest and the lowest, their ratio, its interval.

        The interval is as wide as keeps the chance of any false difference between two groups at
        5 % (Bonferroni's correction), as the reader picks these two of all.
        """
        found = {}
        for kind in KINDS:
            every = {name: getattr(group, kind.lower()) for name, group in self.groups.items()}
            rates = {name: rate for name, rate in every.items() if not math.isnan(rate.share)}
            if len(rates) > 1:
                worst, best = (pick(rates, key=lambda n: rates[n].share) for pick in (max, min))
                level = 1 - (1 - LEVEL) / math.comb(len(rates), 2)
                found[kind] = worst, best, *rates[worst].times(rates[best], level)
        return found

    def sentences(self) -> list[str]:
        """What comes out: the worst group against the best."""
        return [
            f"{kind} in {worst} and {best}: {_words(ratio, interval)} times as high; "
            f"{'a' if interval.low > 1 else 'no'} difference is shown"
            for kind, (worst, best, ratio, interval) in self.extremes().items()
        ]

    def rows(self) -> list[list[str]]:
        """The cells of a table under `HEADING`."""
        lines = []
        for name, group in self._all():
            line = [name, f"{group.identities:,}", f"{group.samples:,}"]
            for rate, whole in zip(group[2:], self.whole[2:], strict=True):
                ends = Interval(*(100 * end for end in rate.interval()))
                ratio = "" if rate is whole else _words(*rate.times(whole))
                line += [_words(100 * rate.share, ends, " %"), ratio]
            lines.append(line)
        return lines

    def table(self) -> str:
        """Every group as aligned plain text, and the worst against the best."""
        head = f"at threshold {self.threshold:.4f}, {self.basis}"
        body = columns([self.column, *HEADING[1:]], self.rows(), right=(1, 2))
        return "\n".join([head, "", body, "", *self.sentences()])

    def json(self) -> dict[str, Any]:
        """As one object; what is not defined is None."""
        lines = []
        for name, group in self._all():
            line: dict[str, Any] = {"group": name, "identities": group.identities}
            line["samples"] = group.samples
            for kind, rate, whole in zip(KINDS, group[2:], self.whole[2:], strict=True):
                content = {"share": rate.share, "interval": rate.interval(), "pairs": rate.pairs}
                content["to_all"], content["to_all_interval"] = rate.times(whole)
                line[kind.lower()] = content
            lines.append(line)
        keys = ("worst", "best", "ratio", "interval")
        extremes = {
            kind.lower(): dict(zip(keys, found, strict=True))
            for kind, found in self.extremes().items()
        }
        about = {"column": self.column, "threshold": self.threshold, "basis": self.basis}
        return dict(finite({**about, "rates": lines, "worst_to_best": extremes}))

    def _all(self) -> list[tuple[str, GroupRates]]:
        return [("all", self.whole), *self.groups.items(), ("across groups", self.across)]


def _words(value: float, interval: Interval, unit: str = "") -> str:
    text, low, high = (f"{one:,.0f}" if one >= 99.5 else f"{one:.2g}" for one in (value, *interval))
    text, high = text.replace("inf", "∞"), high.replace("inf", "∞")
    if text == "nan":
        return "–"
    return f"{text}{unit}" + ("" if low == "nan" else f" [{low}, {high}]")


def by_group(
    embeddings: Array,
    labels: Array,
    by: Array,
    *,
    threshold: float | None = None,
    far: float = 1e-3,
    groups: Array | None = None,
    intervals: bool = True,
    draws: int = DRAWS,
    seed: int = SEED,
    basis: str = "as given",
    column: str = "group",
) -> ByGroup:
    """FMR and FNMR of each group at one threshold, with 95 % intervals, and their ratios.

    Parameters:
        embeddings, labels: (N, D) and (N,).
        by: (N,) the group of each *sample*, text or numbers. An identity may lie in two: its
            genuine pairs count in a group where both samples are of it, else across groups.
        threshold: pairs are accepted if cosine ≥ threshold. Left out, it is the one at which the
            whole set has the FAR `far`, or the lowest above it that ten pairs of identities show.
        groups: (N,) whole groups of identities to draw for intervals, instead of identities.
        intervals, draws, seed: see `bootstrap`.
        basis, column: what the result calls the threshold's origin, and the groups.

    Raises `InputError` for another shape, and for more than a thousand groups.

        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat(np.arange(40), 3)
        >>> rows = rng.normal(size=(40, 8))[labels] + rng.normal(size=(120, 8))
        >>> found = by_group(rows, labels, np.where(labels < 20, "old", "new"), far=0.05, draws=50)
        >>> list(found.groups), found.groups["new"].identities, found.across.fnmr.pairs
        (['new', 'old'], 20, 0)
    """
    matrix, distinct, numbers = read_labelled(embeddings, labels)
    values = as_array(by, "by")
    if values.shape != numbers.shape:
        raise InputError(f"by has shape {values.shape}, expected {numbers.shape}")
    names, which = np.unique(values, return_inverse=True)
    if len(names) > _MOST:
        raise InputError(f"{column} holds {len(names):,} groups, expected {_MOST:,} at most")
    if threshold is None:
        threshold, basis = _whole_threshold(matrix, numbers, check_rate("far", far))
    threshold = check_number("threshold", threshold, -1, 1, closed="both")
    drawn = Resampling.of(distinct, groups_of(numbers, groups), draws, seed)
    once = np.ones_like(drawn.weights[:1])  # the data itself
    weights = np.vstack((once, drawn.weights)) if intervals else once
    parts = [np.arange(len(numbers)), *(np.flatnonzero(which == k) for k in range(len(names)))]
    tallies = [
        _tally(matrix[rows], numbers[rows], threshold, drawn.units, weights) for rows in parts
    ]
    whole, *each, across = (
        _rates(tally, numbers[rows], drawn.units)
        for tally, rows in zip(
            [*tallies, tallies[0] - sum(tallies[1:])], [*parts, parts[0]], strict=True
        )
    )
    named = dict(zip(map(str, names.tolist()), each, strict=True))
    return ByGroup(threshold, basis, whole, named, across, column)


def _whole_threshold(matrix: npt.NDArray[Any], numbers: Rows, far: float) -> tuple[float, str]:
    """Where the whole set has this FAR, or the lowest above it that it supports; and in words."""
    pairs, rate = ImpostorPairs.of(matrix, numbers), far
    while (found := find_far_threshold(pairs, rate)) is None and rate < 0.25:
        rate *= 2**0.5
    few = "" if rate == far else ", the lowest that so few identities show"
    found = found or RateTable.of(pairs).for_far(rate)
    return found.threshold, f"where all pairs have a FAR of {rate:.2g}{few}"


def _tally(
    matrix: npt.NDArray[Any], numbers: Rows, threshold: float, units: Rows, weights: Floats
) -> Floats:
    """Pairs accepted, and all, genuine and impostor (2, 2, 1 + B): as they are, and as drawn."""
    rows = SortedRows.build(matrix, numbers)
    accepted = np.zeros(2)
    for block in rows.blocks():
        passing = round_cosines(block.cosines) >= threshold
        accepted += [np.count_nonzero(passing & kind) for kind in rows.kinds(block)]
    total = np.array(rows.pair_counts(), dtype=np.float64)
    tar, far = (np.array([share, 1.0]) for share in accepted / np.maximum(total, 1))
    kinds = sample_pairs(rows, Roc(np.array([threshold, -1.0]), far, tar), units[rows.labels])
    tally = np.array([kind.accepted_weight(weights).T for kind in kinds])
    tally[:, :, 0] = np.stack((accepted, total), axis=1)
    return tally


def _rates(tally: Floats, numbers: Rows, units: Rows) -> GroupRates:
    """Of the samples with such identities (n,), each of which is drawn with a unit (I,)."""
    sizes = np.bincount(numbers, minlength=len(units))
    with np.errstate(invalid="ignore", divide="ignore"):
        genuine, impostor = tally[:, 0] / tally[:, 1]
    found = []
    for shares, kind, least in ((impostor, 1, 0), (1 - genuine, 0, 1)):
        count, people = len(np.unique(units[sizes > least])), int((sizes > least).sum())
        drawn = shares[1:][~np.isnan(shares[1:])]
        error = drawn.std() * math.sqrt(count / max(count - 1, 1)) if len(drawn) > 1 else math.nan
        # Chosen by simulation: one for each pair of identities, and four for each identity.
        trials = people * (4.0 if least else (people - 1) / 2) / max(count, 1)
        pairs = int(tally[kind, 1, 0])
        found.append(GroupRate(float(shares[0]), pairs, trials, float(error), count))
    return GroupRates(int((sizes > 0).sum()), len(numbers), *found)
