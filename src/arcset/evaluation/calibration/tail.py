"""The upper tail of impostor cosines as a smooth curve: how rare an accident is that was not seen.

Above a cosine u, the share of impostor pairs beyond c is taken to fall like a generalized Pareto
distribution (Pickands, Statistical inference using extreme order statistics, 1975) of

    y = log((1 − u) / (1 − c)),

on which the tail of random directions is nearly exponential and no cosine lies beyond 1. Mean and
shape come from probability-weighted moments (Hosking and Wallis, 1987). A shape is hard to tell
from few pairs, so it is drawn towards 0, exponential, by as much as it is uncertain.

How far such a rate is off is told by influences: what the share beyond a cosine would gain,
relative to itself, if a pair counted more. Summed over all pairs of an identity (or of a group of
them, such as an alphabet) they tell how much depends on who happened to be in the set.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from arcset.evaluation.pairs import HALF_STEP, ImpostorPairs, Rows

Floats = npt.NDArray[np.float64]

_SHAPES = 0.2  # standard deviation of shapes, as far as is known before
_MOST_SHAPE = 0.25  # either way
_STEP = 1e-4  # of numerical slopes


@dataclass(frozen=True, eq=False)
class Tail:
    """A smooth tail, fitted to the pairs above one cosine.

    Fields:
        start: the cosine u where it begins.
        share: of all impostor pairs above it.
        mean: of their excesses y.
        shape: ξ; 0 is an exponential tail.
        on_mean, on_shape: (K,) influence of each pair above u on the mean and on the shape.
    """

    start: float
    share: float
    mean: float
    shape: float
    on_mean: Floats
    on_shape: Floats

    @classmethod
    def fit(cls, pairs: ImpostorPairs, accepted: int) -> "Tail":
        """To the first `accepted` pairs, one at least."""
        start = pairs.threshold(accepted)
        excess = np.log1p(-start) - np.log(
            np.maximum(1 - pairs.cosines[:accepted].astype(np.float64), HALF_STEP)
        )  # falling
        mean = float(excess.mean())
        # E min(y, y') of each y and another, of which half the mean is E y(1 − F(y)).
        rest = np.cumsum(excess[::-1])[::-1] - excess
        less = (excess * np.arange(1, accepted + 1) + rest) / accepted
        moment = float(less.mean()) / 2
        on_mean, on_moment = (excess - mean) / accepted, (less - 2 * moment) / accepted
        gap = mean - 2 * moment
        if accepted < 3 or gap <= 1e-9 * mean:
            return cls(start, accepted / pairs.count, mean, 0.0, on_mean, np.zeros(accepted))
        shape = 2 - mean / gap
        on_shape = (2 * moment * on_mean - 2 * mean * on_moment) / gap**2
        known = _SHAPES**2 / (_SHAPES**2 + variance_of(pairs, on_shape, total=0.0))
        drawn = float(np.clip(known * shape, -_MOST_SHAPE, _MOST_SHAPE))
        return cls(start, accepted / pairs.count, mean, drawn, on_mean, known * on_shape)

    def threshold(self, rate: float) -> float:
        """The cosine that a share `rate` of all impostor pairs lies beyond; rate ≤ `share`."""
        excess = _excess(rate / self.share, self.mean, self.shape)
        return float(1 - (1 - self.start) * np.exp(-excess))

    def influence(self, rate: float) -> Floats:
        """(K,) of each pair above u on the logarithm of the share beyond `threshold(rate)`."""
        excess = _excess(rate / self.share, self.mean, self.shape)

        def slope(by_mean: float, by_shape: float) -> float:
            high, low = (
                _log_share(excess, self.mean * (1 + sign * by_mean), self.shape + sign * by_shape)
                for sign in (_STEP, -_STEP)
            )
            return (high - low) / (2 * _STEP)

        each = 1 / len(self.on_mean)
        return each + slope(1, 0) / self.mean * self.on_mean + slope(0, 1) * self.on_shape


def _excess(share: float, mean: float, shape: float) -> float:
    """That a `share` of the excesses lies beyond."""
    scale = mean * (1 - shape)
    if abs(shape) < 1e-6:
        return float(-scale * np.log(share))
    return float(scale / shape * np.expm1(-shape * np.log(share)))


def _log_share(excess: float, mean: float, shape: float) -> float:
    """The logarithm of the share of excesses beyond one."""
    scale = mean * (1 - shape)
    if abs(shape) < 1e-6:
        return float(-excess / scale)
    return float(-np.log(max(1 + shape * excess / scale, 1e-300)) / shape)


def variance_of(
    pairs: ImpostorPairs, influence: Floats, groups: Rows | None = None, *, total: float = 1.0
) -> float:
    """The variance, between sets like this one, of what the first pairs have an `influence` on.

    Parameters:
        influence: (K,) of the first K pairs.
        groups: (N,) the group of each sample, for sets of whole groups; by default its identity.
        total: 1 for the logarithm of a share of *all* impostor pairs, of which each one counts
            against it as well; 0 for what depends on the first K only.

    A set is a draw of units, identities or groups, and the figure a mean over pairs of them. The
    influence of unit a holds all of the pair {a, b}, and so does that of b: what is counted twice
    is taken off, but at most half of the whole.
    """
    units = pairs.identity if groups is None else groups
    count, most = int(units.max()) + 1, len(influence)
    a, b = (units[rows[:most]].astype(np.intp) for rows in (pairs.first, pairs.second))
    keys, which = np.unique(np.minimum(a, b) * count + np.maximum(a, b), return_inverse=True)
    low, high = np.divmod(keys, count)
    sizes = np.bincount(units, minlength=count).astype(np.float64)
    shares = sizes[low] * sizes[high] * total / pairs.count
    joint = np.bincount(which, weights=influence)
    apart = low != high
    alone = np.bincount(low, joint, count) + np.bincount(high[apart], joint[apart], count)
    within = np.zeros(count)
    if groups is not None:
        owners = np.zeros(len(pairs.sizes), dtype=np.intp)
        owners[pairs.identity] = groups
        within = (sizes**2 - np.bincount(owners, pairs.sizes.astype(float) ** 2, count)) / 2
    alone -= total * (sizes * (sizes.sum() - sizes) + within) / pairs.count
    squares = ((sizes**2).sum() ** 2 - (sizes**4).sum()) / 2  # of the sizes of all pairs of units
    twice = squares * (total / pairs.count) ** 2
    twice += ((joint - shares)[apart] ** 2 - shares[apart] ** 2).sum()
    plain = (alone**2).sum() * count / max(count - 1, 1)
    return float(max(plain - twice, twice))
