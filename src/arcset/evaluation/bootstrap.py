"""How sure a measure is: the bootstrap over identities.

Samples of one identity are alike, so drawing samples or pairs anew would promise too much. Here
whole identities are drawn, with replacement, as many as there are. An identity drawn w times
weighs w: its genuine pairs w, its impostor pairs with an identity drawn v times w·v. Copies of one
identity never meet, as their pairs would be called impostors while showing the same person.

- `identity_weights` draws them; `Resampling` draws whole groups of them where asked to, such as
  alphabets or sites. A group drawn w times weighs w, and its copies never meet, either.
- `draw_curves` says what thresholds accept in each draw: every pair is weighted, or where there are
  many, a sample of them (`sample_pairs`).
- In a search an identity plays two parts: its queries may miss, and it may stand in the way of the
  queries of others. Draws of queries show the first only; `search_error` knows both.
- `paired` compares two models on the same draws, so that what makes a draw hard is hard for both.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from arcset.checks import check_count
from arcset.errors import InputError
from arcset.evaluation.arrays import Array, as_array
from arcset.evaluation.measures import measure_of
from arcset.evaluation.pairs import CELLS, STEPS, Rows, Scores, SortedRows, cell_numbers
from arcset.evaluation.rates import Floats, Roc
from arcset.evaluation.results import LEVEL, Interval, Replicates, Result, central, student

DRAWS = 1000
SEED = 0
#: Identities below which no difference is shown: the ends of an interval would be single draws.
FEWEST = 5
_FEWEST_ALIKE = 20  # where all draws show the same, which from fewer identities is chance
_UNDEFINED = 0.05  # share of draws without a value, beyond which the others tell too little
_NO_WIDTH = 1e-9  # of differences: beyond rounding
#: Distinct scores that are all made thresholds in draws, such as those of LFW's 6,000 pairs.
MOST_SCORES = 2**13
MOST_PAIRS = 2**20  # of each kind that are weighted in every draw
_DRAWS_AT_ONCE = 512
_PAIRS_AT_ONCE = 128  # whose weights in these draws a processor's own memory holds


def identity_weights(identities: int, draws: int = DRAWS, seed: int = SEED) -> Floats:
    """How often each identity is drawn, (draws, identities); every row sums to `identities`.

    >>> identity_weights(4, draws=2).sum(axis=1)
    array([4., 4.])
    """
    check_count("draws", draws)
    generator = np.random.default_rng(check_count("seed", seed, least=0))
    even = np.full(identities, 1 / identities)
    return generator.multinomial(identities, even, size=draws).astype(np.float64)


def groups_of(numbers: Rows, groups: Array | None) -> Rows | None:
    """The number of each identity's group (I,), where whole `groups` (N,) are to be drawn.

    numbers: the identity of each row (N,). Raises `InputError` where an identity lies in two.

        >>> groups_of(np.array([0, 1, 1]), ["Latin", "Greek", "Greek"])
        array([1, 0])
    """
    if groups is None:
        return None
    array = as_array(groups, "groups")
    if array.shape != numbers.shape:
        raise InputError(
            f"groups have shape {array.shape}, expected {numbers.shape}: one group per embedding"
        )
    names, each = np.unique(array, return_inverse=True)
    owners = np.zeros(int(numbers.max()) + 1, dtype=np.intp)
    owners[numbers] = each
    odd = np.flatnonzero(owners[numbers] != each)
    if len(odd):
        both = names[each[odd[0]]], names[owners[numbers[odd[0]]]]
        raise InputError(
            f"row {odd[0]} lies in the group {both[0]!s} and another of its identity in {both[1]!s}"
            ": whole groups can be drawn only where each identity lies in one"
        )
    return owners


@dataclass(frozen=True, eq=False)
class Resampling:
    """Who is drawn anew: each identity, or whole groups of them.

    units: for each identity the number of what it is drawn with (I,).
    weights: how often each of these is drawn (B, U).
    key: says which draws these are, see `draw_key`.
    """

    units: Rows
    weights: Floats
    key: str

    @classmethod
    def of(
        cls, labels: npt.NDArray[Any], groups: Rows | None, draws: int, seed: int
    ) -> "Resampling":
        """Of the distinct `labels` (I,), or the groups that they are in (I,)."""
        if groups is None:
            units, named = np.arange(len(labels)), labels
        else:
            units = np.unique(groups, return_inverse=True)[1]
            named = np.concatenate((labels, units))
        weights = identity_weights(int(units.max()) + 1, draws, seed)
        return cls(units, weights, draw_key(named, seed, draws))

    @property
    def of_identities(self) -> Floats:
        """How often each identity is drawn (B, I)."""
        return np.take(self.weights, self.units, axis=1)

    def replicates(
        self, values: Mapping[str, Floats], errors: Mapping[str, float] | None = None
    ) -> Replicates:
        """What measures come to in these draws."""
        return Replicates(values, self.weights.shape[1], self.key, errors or {})


def draw_key(labels: npt.NDArray[Any], seed: int = SEED, draws: int = DRAWS) -> str:
    """Says which draws these are: equal for equal sorted distinct `labels`, seed and number."""
    content = np.ascontiguousarray(labels, dtype=np.int64).tobytes() + f"/{seed}/{draws}".encode()
    return hashlib.sha256(content).hexdigest()[:16]


def draw_means(values: npt.NDArray[Any], whose: Rows, weights: Floats) -> Floats:
    """The mean of values (Q, K) in every draw (B, K); NaN in draws without any.

    whose: the identity of each of the Q (Q,); weights: how often each is drawn (B, I).

    >>> draw_means(np.array([[1.0], [0.0]]), np.array([0, 1]), np.array([[2, 0], [1, 1]]))
    array([[1. ],
           [0.5]])
    """
    identities = weights.shape[1]
    sums = np.zeros((identities, values.shape[1]))
    np.add.at(sums, whose, values)
    counts = np.bincount(whose, minlength=identities)
    with np.errstate(invalid="ignore"):
        return np.asarray((weights @ sums) / (weights @ counts)[:, None])


@dataclass(frozen=True, eq=False)
class WeightedPairs:
    """Genuine or impostor pairs, or a sample of them, in the order of their points.

    left, right: the identities (or groups, where these are drawn) of each (P,); −1 for one that
        always weighs 1. A pair within what is drawn, as genuine ones are, has it on the left only.
    point: the number of the first threshold of a curve that accepts it (P,), ascending.
    times: how many pairs there are of these identities at this point (P,).
    counts: how many pairs there are at each point of the curve, chosen or not (T,).
    """

    left: Rows
    right: Rows
    point: npt.NDArray[Any]
    times: npt.NDArray[Any]
    counts: npt.NDArray[Any]

    @classmethod
    def sort(
        cls, left: Rows, right: Rows, point: npt.NDArray[Any], counts: npt.NDArray[Any]
    ) -> "WeightedPairs":
        """Of pairs in any order; those of the same identities at one point are one, many times."""
        span = int(max(left.max(initial=0), right.max(initial=0))) + 2
        keys = (point.astype(np.int64) * span + left + 1) * span + right + 1
        keys, times = np.unique(keys, return_counts=True)
        keys, right = np.divmod(keys, span)
        point, left = np.divmod(keys, span)
        return cls(left - 1, right - 1, point, times.astype(np.float32), counts)

    @classmethod
    def of(
        cls, left: Rows, right: Rows | None, scores: npt.NDArray[Any], roc: Roc
    ) -> "WeightedPairs":
        """All pairs with these scores, at the points of a curve; genuine without a right side."""
        right = np.full(len(left), -1) if right is None else np.where(left == right, -1, right)
        point = points_of_cells(roc)[cell_numbers(scores.astype(np.float32))]
        return cls.sort(left, right, point, np.bincount(point, minlength=len(roc)))

    def accepted_weight(self, weights: Floats) -> Floats:
        """The weight of the pairs that each threshold accepts (B, T), with identities' (B, I)."""
        always = np.ones((1, len(weights)), dtype=np.float32)
        by_identity = np.concatenate((weights.T.astype(np.float32), always))  # (I + 1, B)
        edges = np.searchsorted(self.point, np.arange(len(self.counts) + 1))
        total = np.zeros((len(self.counts), len(weights)))
        for point in np.flatnonzero(np.diff(edges)):
            for start in range(edges[point], edges[point + 1], _PAIRS_AT_ONCE):
                part = slice(start, min(start + _PAIRS_AT_ONCE, edges[point + 1]))
                left, right = by_identity[self.left[part]], by_identity[self.right[part]]
                left *= self.times[part, None]
                total[point] += np.einsum("pb,pb->b", left, right)
        chosen = np.bincount(self.point, self.times, minlength=len(self.counts))
        stands_for = self.counts / np.maximum(chosen, 1)
        return np.cumsum(total.T * stands_for, axis=1)


def points_of_cells(roc: Roc) -> npt.NDArray[np.int16]:
    """For each multiple of 2⁻²¹ the number of the first point that accepts it (CELLS,)."""
    lowest = np.ceil(roc.threshold * STEPS).astype(np.intp) + STEPS  # that each accepts
    accepting = np.cumsum(np.bincount(lowest.clip(max=CELLS), minlength=CELLS + 1)[:CELLS])
    return (len(roc) - accepting).astype(np.int16)


def sample_pairs(rows: SortedRows, roc: Roc, units: Rows) -> tuple[WeightedPairs, WeightedPairs]:
    """Genuine and impostor pairs of rows, at the points of a curve; `units` as of `Resampling`.

    All pairs of a kind up to `MOST_PAIRS`. Of more, at most as many, each of which stands for
    several: one half spread evenly over all pairs, so that there are many where most pairs lie, the
    other over the points, so that there are many at low rates as well. What the curve is in a draw
    is then known within about a hundredth of each rate, far less than draws differ by.
    """
    table, rng = points_of_cells(roc), np.random.default_rng(0)
    counts = [
        np.rint(np.diff(rates, prepend=0) * total)  # (T,)
        for rates, total in zip((roc.tar, roc.far), rows.pair_counts(), strict=True)
    ]
    chances = [_chances(each) for each in counts]
    chosen: list[list[Rows]] = [[], []]
    for block in rows.blocks():
        points = table[cell_numbers(block.cosines)]
        drawn = rng.random(points.shape, dtype=np.float32)
        for kind in (0, 1) if block.mixed else (1,):
            taken = drawn < chances[kind][points]
            if block.mixed:
                taken &= rows.kinds(block)[kind]
            i, j = np.nonzero(taken)
            left, right = units[rows.numbers[block.top + i]], units[rows.numbers[block.left + j]]
            right = np.where(left == right, -1, right)
            chosen[kind].append(np.stack((left, right, points[i, j])))
    genuine, impostor = (
        WeightedPairs.sort(left, right, point, each)
        for (left, right, point), each in zip(
            (np.concatenate(parts, axis=1) for parts in chosen), counts, strict=True
        )
    )
    return genuine, impostor


def _chances(counts: Floats) -> Scores:
    """The chance that a pair is chosen, by its point (T,)."""
    total = counts.sum()
    if total <= MOST_PAIRS:
        return np.ones(len(counts), dtype=np.float32)
    share = MOST_PAIRS / 2 * (1 / total + 1 / (len(counts) * np.maximum(counts, 1)))
    return np.asarray(share.clip(max=1), dtype=np.float32)


def draw_curves(
    genuine: WeightedPairs, impostor: WeightedPairs, weights: Floats, missed: Rows | None = None
) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
    """What thresholds accept in every draw, some draws at a time.

    Yields which draws, FAR and TAR (b, T), NaN where there are no pairs of that kind, and how many
    impostor pairs there are (b,).

    weights: how often each identity is drawn (B, I).
    missed: how many of each identity's genuine ones no threshold accepts (I,).
    """
    for start in range(0, len(weights), _DRAWS_AT_ONCE):
        part = slice(start, min(start + _DRAWS_AT_ONCE, len(weights)))
        true, false = (
            genuine.accepted_weight(weights[part]),
            impostor.accepted_weight(weights[part]),
        )
        all_true = true[:, -1] + (0 if missed is None else weights[part] @ missed)
        with np.errstate(invalid="ignore"):
            yield part, false / false[:, -1:], true / all_true[:, None], false[:, -1]


def search_error(
    missed: npt.NDArray[np.bool_],
    whose: Rows,
    blocked: Rows,
    identities: int,
) -> float:
    """The standard error of the share of queries that miss, over sets of as many identities.

    Parameters:
        missed: which queries miss (Q,).
        whose: the identity of each (Q,), from 0.
        blocked: for every query that would not miss without one identity, its own identity and
            that one (P, 2).
        identities: how many there are, I.

    The influence of identity i on the number of misses is that of its queries, Σ (missed − share),
    and of those it blocks. The sum of their squares counts a miss between i and j for both, as two
    misses; so that for each pair of identities the square of their misses is subtracted once.
    (P. M. Aronow, C. Samii, V. A. Assenova: Cluster-robust variance estimation for dyadic data,
    Political Analysis 2015.) The error of the queries alone is the least that is told.

    >>> missed, whose = np.array([True, False, False, False, True, False]), np.repeat([0, 1, 2], 2)
    >>> round(search_error(missed, whose, np.array([[0, 1], [2, 1]]), 3), 3)
    0.167
    """
    sizes = np.bincount(whose, minlength=identities)  # (I,)
    misses = np.bincount(whose, missed - missed.mean(), identities)
    blocks = np.bincount(blocked[:, 1], minlength=identities)
    influence = misses + blocks - blocks.sum() * sizes / len(whose)
    low, high = np.sort(blocked, axis=1).T
    shared = np.unique(low * identities + high, return_counts=True)[1]
    squares = ((influence - influence.mean()) ** 2).sum() - (shared**2).sum()
    few = identities / max(identities - 1, 1)
    return float(np.sqrt(max(squares, (misses**2).sum()) * few) / len(whose))


def find_blocked(
    searches: Iterable[tuple[Rows, npt.NDArray[Any]]], identities: Rows, depths: Iterable[int]
) -> dict[int, Rows]:
    """For each depth k the queries that one identity alone keeps from a hit within the first k.

    Parameters:
        searches: some queries at a time: the identity of each (b,), and how many entries of each of
            C classes come before its first hit (b, C).
        identities: what each class is drawn with, its identity or group (C,), or −1 for one that
            is never drawn.

    As pairs (P, 2) of the query's identity and that one, as `search_error` wants them.
    """
    blocked: dict[int, list[Rows]] = {k: [np.empty((0, 2), np.intp)] for k in depths}
    for whose, ahead in searches:
        total = ahead.sum(axis=1, keepdims=True)
        for k, pairs in blocked.items():
            row, column = np.nonzero((total >= k) & (total - ahead < k))
            both = np.stack((whose[row], identities[column]), axis=1)
            pairs.append(both[(both[:, 1] >= 0) & (both[:, 0] != both[:, 1])])
    return {k: np.concatenate(pairs) for k, pairs in blocked.items()}


@dataclass(frozen=True)
class Difference:
    """How much better the first of two models is in a measure, over the same draws.

    gain: positive where the first is better, whichever way the measure runs.
    interval: 95 % of the draws of it; NaN where they cannot tell.
    degrees: whether the measure is an angle; otherwise it is a share.
    why: why the draws cannot tell how far the gain varies, in a few words; empty where they can.
    """

    name: str
    gain: float
    interval: Interval
    degrees: bool = False
    why: str = ""

    @property
    def shown(self) -> bool:
        """Whether the interval leaves out 0; never where there is none."""
        return bool(self.interval.low > 0 or self.interval.high < 0)

    def sentence(self) -> str:
        """In words.

        >>> Difference("eer", 0.012, Interval(0.004, 0.02)).sentence()
        'better by 1.2 points [0.4, 2.0]'
        >>> Difference("eer", 0.003, Interval(-0.002, 0.008)).sentence()
        'no difference shown: 0.3 points [-0.2, 0.8]'
        >>> nothing = Interval(np.nan, np.nan)
        >>> Difference("eer", 0.03, nothing, why="2 identities are too few to tell").sentence()
        'no difference shown: 3.0 points, and 2 identities are too few to tell'
        """
        factor, unit = (1, "°") if self.degrees else (100, " points")
        sign = -1 if self.shown and self.gain < 0 else 1
        low, high = sorted(sign * factor * bound for bound in self.interval)
        amount = f"{sign * factor * self.gain:.1f}{unit}"
        if np.isnan(self.gain):
            return "not defined here"
        if self.why:
            return f"no difference shown: {amount}, and {self.why}"
        amount += f" [{low:.1f}, {high:.1f}]"
        if not self.shown:
            return f"no difference shown: {amount}"
        return f"{'worse' if sign < 0 else 'better'} by {amount}"

    def json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "gain": self.gain,
            "interval": list(self.interval),
            "shown": self.shown,
            "why": self.why,
            "sentence": self.sentence(),
        }


def paired(
    first: Result | Sequence[Result],
    second: Result | Sequence[Result],
    name: str,
    at: float | None = None,
    *,
    comparisons: int = 1,
    luck: tuple[float, int] | None = None,
) -> Difference:
    """Compare two models in one measure, draw by draw.

    Each is one result, or several of runs that differ in their seed only, equally many on both
    sides: then the mean over runs is compared, and the interval covers the luck of training as
    well, by Student's t, as far as so few runs can tell. With one run each it is about these two
    runs and no others. From fewer than 5 identities nothing is shown, nor from fewer than 20 where
    all draws show the same: `why` says so, and there is no interval.

    comparisons: how many the reader will choose from; the interval is as wide as keeps the chance
        of any false difference among them at 5 % (Bonferroni's correction).
    luck: the standard error of the mean gain by the luck of training, and its degrees of freedom,
        where more is known of it than the runs' own differences tell.

    Raises `InputError` unless all were made with intervals, on the same identities and seed.
    """
    ours = [first] if isinstance(first, Result) else list(first)
    theirs = [second] if isinstance(second, Result) else list(second)
    if not ours or len(ours) != len(theirs):
        raise InputError(
            f"{len(ours)} results and {len(theirs)} were given, expected equally many, and one at"
            " least"
        )
    full = ours[0].name_of(name, at)
    measure = measure_of(full)
    sign = -1.0 if measure.lower_is_better else 1.0
    both = list(zip(ours, theirs, strict=True))
    drawn = sign * np.mean([_gains(one, two, full) for one, two in both], axis=0)  # (B,)
    gains = sign * np.array([one.measures()[full] - two.measures()[full] for one, two in both])
    degrees = measure.unit == "degrees"
    identities = ours[0].replicates.identities if ours[0].replicates is not None else 0
    if why := _why_unclear(drawn, identities):
        nothing = Interval(np.nan, np.nan)
        return Difference(full, float(gains.mean()), nothing, degrees, why)
    level = 1 - (1 - LEVEL) / comparisons
    drawn = gains.mean() + _widening(identities, level) * (drawn - gains.mean())
    if len(both) > 1:
        error, freedom = luck or (gains.std(ddof=1) / len(both) ** 0.5, len(both) - 1)
        wider = stdtrit(freedom, (1 + level) / 2) / ndtri((1 + level) / 2)
        drawn = drawn + np.random.default_rng(SEED).normal(size=len(drawn)) * error * wider
    return Difference(full, float(gains.mean()), central(drawn, level), degrees)


def _widening(identities: int, level: float) -> float:
    """By how much draws of few identities vary too little, as in the intervals of results."""
    few = identities / (identities - 1)
    return float(few**0.5 * student(identities, level) / ndtri((1 + level) / 2))


def _why_unclear(drawn: Floats, identities: int) -> str:
    """Why draws (B,) of a difference cannot tell how far it varies; empty where they can."""
    defined = drawn[~np.isnan(drawn)]
    few = f"{identities} {'identity is' if identities == 1 else 'identities are'} too few to tell"
    if identities < FEWEST or len(defined) < (1 - _UNDEFINED) * len(drawn):
        return few
    alike = np.ptp(defined) < _NO_WIDTH and abs(defined[0]) > _NO_WIDTH
    return few if alike and identities < _FEWEST_ALIKE else ""


def _gains(first: Result, second: Result, full: str) -> Floats:
    """The measure `full` of the first less that of the second, in each draw (B,)."""
    second.name_of(full)
    if first.replicates is None or second.replicates is None:
        raise InputError("to be compared, all results must be made with intervals=True")
    if first.replicates.key != second.replicates.key:
        raise InputError(
            "the results were made on other identities, or with other seeds; a paired comparison"
            " needs the same"
        )
    if full not in first.replicates.values or full not in second.replicates.values:
        raise InputError(f"{full} does not depend on which identities are drawn")
    gains: Floats = first.replicates.values[full] - second.replicates.values[full]
    return gains
