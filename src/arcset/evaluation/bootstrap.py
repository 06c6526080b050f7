"""How sure a measure is: the bootstrap over identities.

Samples of one identity are alike, so drawing samples or pairs anew would promise too much. Here
whole identities are drawn, with replacement, as many as there are. An identity drawn w times
weighs w: its genuine pairs w, its impostor pairs with an identity drawn v times w·v. Copies of one
identity never meet, as their pairs would be called impostors while showing the same person.

Two models are compared on the same draws, so that what makes a draw hard is hard for both.

In a search an identity plays two parts: its queries may miss, and it may stand in the way of the
queries of others. Draws of queries show the first only; `search_error` knows both.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from arcset.errors import InputError, OptionError
from arcset.evaluation.results import LEVEL, Interval, Result, central, student

__all__ = [
    "DRAWS",
    "FEWEST",
    "SEED",
    "Difference",
    "draw_key",
    "identity_weights",
    "paired",
    "search_error",
]

DRAWS = 1000
SEED = 0
#: Identities below which no difference is shown: the ends of an interval would be single draws.
FEWEST = 5
_FEWEST_ALIKE = 20  # where all draws show the same, which from fewer identities is chance
_UNDEFINED = 0.05  # share of draws without a value, beyond which the others tell too little
_NO_WIDTH = 1e-9  # of differences: beyond rounding


def identity_weights(
    identities: int, draws: int = DRAWS, seed: int = SEED
) -> npt.NDArray[np.float64]:
    """How often each identity is drawn, (draws, identities); every row sums to `identities`.

    >>> identity_weights(4, draws=2).sum(axis=1)
    array([4., 4.])
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(f"seed={seed!r}, expected a whole number of at least 0")
    generator = np.random.default_rng(seed)
    even = np.full(identities, 1 / identities)
    return generator.multinomial(identities, even, size=draws).astype(np.float64)


def draw_key(labels: npt.NDArray[Any], seed: int = SEED, draws: int = DRAWS) -> str:
    """Says which draws these are: equal for equal sorted distinct `labels`, seed and number."""
    content = np.ascontiguousarray(labels, dtype=np.int64).tobytes() + f"/{seed}/{draws}".encode()
    return hashlib.sha256(content).hexdigest()[:16]


def search_error(
    missed: npt.NDArray[np.bool_],
    whose: npt.NDArray[np.intp],
    blocked: npt.NDArray[np.intp],
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
        """The fields as JSON knows them."""
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
    base = full.partition("[")[0]
    sign = -1.0 if base in ours[0].lower_is_better else 1.0
    both = list(zip(ours, theirs, strict=True))
    drawn = sign * np.mean([_gains(one, two, full) for one, two in both], axis=0)  # (B,)
    gains = sign * np.array([one.measures()[full] - two.measures()[full] for one, two in both])
    degrees = base in ours[0].in_degrees
    if why := _untold(drawn, ours[0]):
        nothing = Interval(np.nan, np.nan)
        return Difference(full, float(gains.mean()), nothing, degrees, why)
    level = 1 - (1 - LEVEL) / comparisons
    drawn = gains.mean() + _widening(ours[0], level) * (drawn - gains.mean())
    if len(both) > 1:
        error, freedom = luck or (gains.std(ddof=1) / len(both) ** 0.5, len(both) - 1)
        wider = stdtrit(freedom, (1 + level) / 2) / ndtri((1 + level) / 2)
        drawn = drawn + np.random.default_rng(SEED).normal(size=len(drawn)) * error * wider
    return Difference(full, float(gains.mean()), central(drawn, level), degrees)


def _widening(result: Result, level: float) -> float:
    """By how much draws of few identities vary too little, as in the intervals of results."""
    identities = result.replicates.identities if result.replicates is not None else 0
    few = identities / (identities - 1)
    return float(few**0.5 * student(identities, level) / ndtri((1 + level) / 2))


def _untold(drawn: npt.NDArray[np.float64], result: Result) -> str:
    """Why draws (B,) of a difference cannot tell how far it varies; empty where they can."""
    identities = result.replicates.identities if result.replicates is not None else 0
    defined = drawn[~np.isnan(drawn)]
    said = f"{identities} {'identity is' if identities == 1 else 'identities are'} too few to tell"
    if identities < FEWEST or len(defined) < (1 - _UNDEFINED) * len(drawn):
        return said
    alike = np.ptp(defined) < _NO_WIDTH and abs(defined[0]) > _NO_WIDTH
    return said if alike and identities < _FEWEST_ALIKE else ""


def _gains(first: Result, second: Result, full: str) -> npt.NDArray[np.float64]:
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
    gains: npt.NDArray[np.float64] = first.replicates.values[full] - second.replicates.values[full]
    return gains
