"""Probabilities, and how far to trust them.

- `calibrate`: from a cosine to the probability that two embeddings are of the same identity.
- `reliability`: whether probabilities keep what they say: of the pairs given 0.8, are 80 % genuine?
"""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self, overload

import numpy as np
import numpy.typing as npt
from pydantic import model_validator
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, logit

from arcset.checks import check_choice, check_count, check_rate
from arcset.errors import InputError
from arcset.evaluation.arrays import Array, as_array
from arcset.evaluation.calibration.far import Rate
from arcset.evaluation.calibration.smooth import (
    SEGMENTS,
    SOFTER,
    STIFFNESS,
    STRAIGHT,
    Curve,
    choose_stiffness,
    gather_cells,
)
from arcset.evaluation.pairs import pair_cosines
from arcset.evaluation.results import Result
from arcset.text import columns

METHODS = ("smooth", "isotonic", "logistic")
MOST_KNOTS = 256
TARGET_PRIOR = 0.01
BINS = 15  # of a calibration's own pairs, which it must be true to
SURE = 2.576  # standard deviations of the 99 % interval around what each of them counted
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reliability(Result):
    """Probabilities beside frequencies, by bins of equal width.

    Fields:
        ece: expected calibration error, the mean over pairs of the difference between the mean
            probability and the frequency of their bin.
        brier: mean squared difference of probability and outcome (0 or 1).
        cllr: cost of the likelihood ratios that the probabilities stand for, in bits, the mean of
            genuine and impostor pairs (Brümmer and du Preez, 2006): 0 is perfect, 1 says nothing.
        min_dcf: the lowest cost of decisions, as NIST's speaker evaluations have it, for genuine
            pairs of prior 0.01: 1 is that of accepting nobody.
        edges: (bins + 1,) from 0 to 1; a bin holds its lower edge, the last one both.
        counts: (bins,) numbers of pairs.
        mean_probability, frequency: (bins,) the mean probability of the pairs in a bin, and the
            share of them that is genuine; NaN in an empty bin.
    """

    named: ClassVar[tuple[str, ...]] = ("ece", "brier", "cllr", "min_dcf")

    ece: float
    brier: float
    cllr: float
    min_dcf: float
    edges: npt.NDArray[np.float64]
    counts: npt.NDArray[np.intp]
    mean_probability: npt.NDArray[np.float64]
    frequency: npt.NDArray[np.float64]

    def _size(self) -> str:
        return f"{int(self.counts.sum()):,} pairs"

    def _notes(self) -> dict[str, str]:
        return {
            "ece": "expected calibration error",
            "cllr": "in bits",
            "min_dcf": f"at prior {TARGET_PRIOR:g}",
        }

    def table(self) -> str:
        """The measures and the bins as aligned plain text."""
        bins = zip(self.counts, self.mean_probability, self.frequency, strict=True)
        rows = [
            [
                f"{low:.2f} to {high:.2f}",
                f"{count:,}",
                *(f"{value:.3f}" if count else "–" for value in (mean, share)),
            ]
            for (low, high), (count, mean, share) in zip(pairwise(self.edges), bins, strict=True)
        ]
        heading = ["probability", "pairs", "mean", "genuine"]
        return f"{super().table()}\n\n{columns(heading, rows, right=(1, 2, 3))}"


def reliability(
    probabilities: Array, same: Array, bins: int = 10, *, weights: Array | None = None
) -> Reliability:
    """Compare probabilities with what happened, to be drawn as a reliability diagram.

    Parameters:
        probabilities: (P,) in [0, 1].
        same: (P,) booleans, whether a pair is genuine; both kinds must occur.
        bins: how many, of equal width.
        weights: (P,) positive. Probabilities at a prior other than the share of genuine pairs want
            weights that bring the pairs to that prior.

    To be asked on identities other than those that the calibration was fitted to.

    Raises `InputError` for other shapes or probabilities outside [0, 1], `OptionError` for bins
    that are not a whole number ≥ 1.

        >>> reliability([0.1, 0.1, 0.9, 0.9], [False, False, True, True]).ece
        0.09...
    """
    bins = check_count("bins", bins)
    values, genuine, weight = _checked_pairs(probabilities, same, weights, "probabilities")
    if values.min() < 0 or values.max() > 1:
        raise InputError(
            f"probabilities range from {values.min():g} to {values.max():g}, expected [0, 1]"
        )
    which = np.minimum((values * bins).astype(np.intp), bins - 1)
    total = np.bincount(which, weights=weight, minlength=bins)
    filled = np.where(total > 0, total, np.nan)
    mean = np.bincount(which, weights=weight * values, minlength=bins) / filled
    frequency = np.bincount(which, weights=weight * genuine, minlength=bins) / filled
    return Reliability(
        ece=float(np.nansum(total * np.abs(mean - frequency)) / total.sum()),
        brier=float((weight * (values - genuine) ** 2).sum() / total.sum()),
        cllr=_cllr(values, genuine, weight),
        min_dcf=_min_dcf(values, genuine, weight),
        edges=np.linspace(0, 1, bins + 1),
        counts=np.bincount(which, minlength=bins),
        mean_probability=mean,
        frequency=frequency,
    )


def _cllr(values: Floats, genuine: npt.NDArray[np.bool_], weight: Floats) -> float:
    """The prior, which is taken out of the probabilities, is the genuine pairs' share of weight."""
    shares = weight[genuine].sum() / weight.sum()
    with np.errstate(divide="ignore"):  # who is certain and wrong pays without end
        log_ratios = logit(values) - logit(shares)
    bits = np.logaddexp(0, np.where(genuine, -log_ratios, log_ratios)) / math.log(2)
    kinds = (np.average(bits[kind], weights=weight[kind]) for kind in (genuine, ~genuine))
    return float(sum(kinds) / 2)


def _min_dcf(values: Floats, genuine: npt.NDArray[np.bool_], weight: Floats) -> float:
    levels, which = np.unique(values, return_inverse=True)
    below = []  # of each kind, the share below each level
    for kind in (genuine, ~genuine):
        mass = np.bincount(which[kind], weights=weight[kind], minlength=len(levels))
        below.append((np.cumsum(mass) - mass) / mass.sum())
    costs = TARGET_PRIOR * below[0] + (1 - TARGET_PRIOR) * (1 - below[1])
    return min(float(costs.min()) / TARGET_PRIOR, 1.0)


@dataclass(frozen=True)
class Calibration:
    """A rising function from cosines to probabilities.

    Fields:
        method: `smooth`, whose log odds run straight between many knots; `isotonic`, whose
            probabilities do; or `logistic`, 1/(1 + e^−(a + b·cosine)).
        prior: the share of genuine pairs at which the probability holds. A pair that was equally
            likely to be genuine or not before its cosine was seen has prior 0.5.
        knots: rising cosines and their probabilities; for logistic (a, b).
    """

    method: str
    prior: Rate
    knots: tuple[tuple[float, ...], tuple[float, ...]] | tuple[float, float]

    @overload
    def probability(self, cosine: float) -> float: ...
    @overload
    def probability(self, cosine: npt.NDArray[Any]) -> Floats: ...
    def probability(self, cosine: Any) -> Any:
        """The probability that two embeddings of that cosine show the same identity.

        Takes a number or an array; the result lies in (0, 1) and never falls as cosines rise.
        """
        values = np.asarray(cosine, dtype=np.float64)
        if self.method == "smooth":
            cosines, heights = (np.asarray(part) for part in self.knots)
            chances = expit(np.interp(values, cosines, logit(heights)))
        elif self.method == "isotonic":
            chances = np.interp(values, *self.knots)
        else:
            intercept, slope = np.asarray(self.knots)
            chances = expit(np.clip(intercept + slope * values, -36.0, 36.0))
        return float(chances) if chances.ndim == 0 else chances

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @model_validator(mode="after")
    def check(self) -> Self:
        """Of what is read from a file: it is a rising function into (0, 1)."""
        first, second = (np.atleast_1d(part) for part in self.knots)
        rises = False
        if self.method == "logistic" and first.shape == second.shape == (1,):
            rises = bool(np.isfinite(self.knots).all() and (second >= 0).all())
        elif self.method in METHODS[:2] and first.shape == second.shape != (0,):
            rises = bool((np.diff(first) > 0).all() and (np.diff(second) >= 0).all())
            rises = rises and bool(second[0] > 0 and second[-1] < 1)
        if not rises:
            raise ValueError(f"the {self.method} calibration does not rise within (0, 1)")
        return self


def calibrate(
    cosines: Array,
    same: Array,
    method: str = "smooth",
    weights: Array | None = None,
    *,
    prior: float | None = 0.5,
    stiffness: float = STRAIGHT,
) -> Calibration:
    """Fit the probability that a pair is genuine to the cosines of validation pairs.

    Parameters:
        cosines: (P,), as from `pair_cosines`.
        same: (P,) booleans, whether a pair is genuine; both kinds must occur.
        method: `smooth`, a rising spline of the log odds that pays for bending; `isotonic`, any
            rising function, which wants some hundreds of genuine pairs and has steps; or `logistic`
            (Platt), a straight line of the log odds, with Platt's targets (n + 1)/(n + 2) instead
            of 1, so that no number of pairs is proof.
        weights: (P,), how many pairs each stands for, by default one.
        stiffness: what bending costs a smooth curve. With the default it is nearly straight, which
            suits few identities; `choose_stiffness` asks the data.
        prior: nearly all pairs of a set are impostors, so at the set's own share of genuine pairs
            hardly any cosine is convincing. By default both kinds are weighted to be equally
            likely; another prior likewise; None keeps the share of genuine pairs, with `weights`.

    Smooth and isotonic probabilities stay away from 0 and 1 by as much as one further pair of the
    other kind would tell: with m impostor pairs the odds never exceed m + 1 times those of the
    prior, with n genuine pairs they never fall below the (n + 1)th part.

    Raises `InputError` for other shapes, and `OptionError` for an unknown method or a bad prior.

        >>> result = calibrate([0.1, 0.2, 0.7, 0.8], [False, False, True, True])
        >>> round(result.probability(0.15), 2), round(result.probability(0.75), 2)
        (0.34, 0.66)
    """
    check_choice("method", method, METHODS)
    scores, genuine, weight = _checked_pairs(cosines, same, weights, "cosines")
    totals = weight[~genuine].sum(), weight[genuine].sum()
    if min(totals) < 1:
        raise InputError(
            f"weights of one kind of pairs sum to {min(totals):g}, expected how many pairs each"
            " stands for, not shares of a whole"
        )
    prior = totals[1] / sum(totals) if prior is None else check_rate("prior", prior)
    # Each kind sums to its share of the prior, in a total of as many as there are pairs.
    share = np.array([1 - prior, prior]) * len(scores)
    even = weight * np.where(genuine, share[1] / totals[1], share[0] / totals[0])
    if method == "logistic":
        return Calibration(method, float(prior), _logistic(scores, genuine, even, totals))
    odds = prior / (1 - prior)
    ends = odds / (totals[1] + 1), odds * (totals[0] + 1)
    lowest, highest = (end / (1 + end) for end in ends)
    if method == "isotonic":
        knots, chances = _isotonic(scores, genuine, even)
    else:
        curve = Curve.fit(gather_cells(scores, genuine, weight), stiffness)
        low, high = curve.ends
        parts = ((-1.0, low, 10), (low, high, 4 * SEGMENTS + 1), (high, 1.0, 10))
        knots = np.unique(np.concatenate([np.linspace(*part) for part in parts]))
        chances = expit(curve.log_ratios(knots) + logit(prior))
    chances = np.maximum.accumulate(np.clip(chances, lowest, highest))
    return Calibration(method, float(prior), (tuple(knots.tolist()), tuple(chances.tolist())))


def calibrate_identities(
    embeddings: Array, labels: Array, method: str = "smooth", *, prior: float | None = 0.5
) -> Calibration:
    """As `calibrate`, from all pairs of validation embeddings, with the stiffness that suits them.

    That is the one that `choose_stiffness` finds, or where the curve then is not true to the counts
    of these pairs (`untrue_bins`), the next lower one that lets it be, as far as any does.

    Parameters:
        embeddings: (N, D), no row all zero.
        labels: (N,) integers, with genuine and impostor pairs.
    """
    cosines, same, weights = pair_cosines(embeddings, labels)
    chosen = choose_stiffness(embeddings, labels) if method == "smooth" else 0.0
    fewest = BINS + 1
    for stiffness in (chosen, *(lower for lower in (*STIFFNESS, *SOFTER) if lower < chosen)):
        found = calibrate(cosines, same, method, weights, prior=prior, stiffness=stiffness)
        untrue = int(untrue_bins(found, cosines, same, weights).sum())
        if untrue < fewest:
            best, fewest = found, untrue
        if not untrue:
            break
    return best


def untrue_bins(
    calibration: Calibration, cosines: Floats, same: npt.NDArray[np.bool_], weights: Floats
) -> npt.NDArray[np.bool_]:
    """Where a calibration is not true to pairs (P,), of 15 bins of them along the cosine (15,).

    In each bin both kinds of pairs together have the same mass, at even prior odds. There the mean
    probability, at the pairs' own share of genuine ones, should lie in the 99 % Wilson interval of
    what was counted.
    """
    totals = np.array([weights[~same].sum(), weights[same].sum()])
    which = np.unique(cosines, return_inverse=True)[1]
    passed = np.cumsum(np.bincount(which, weights / totals[same.astype(np.intp)]))
    which = np.minimum(passed / passed[-1] * BINS, BINS - 1).astype(np.intp)[which]
    log_odds = logit(calibration.probability(cosines)) - logit(calibration.prior)
    chances = expit(log_odds + np.log(totals[1] / totals[0]))
    counts, genuine, expected = (
        np.bincount(which, weights * part, BINS) for part in (1.0, same, chances)
    )
    variance = expected * (1 - expected / np.maximum(counts, 1))
    return np.asarray((genuine - expected) ** 2 > SURE**2 * variance)  # Wilson's, solved for it


def _isotonic(
    scores: Floats, genuine: npt.NDArray[np.bool_], weight: Floats
) -> tuple[Floats, Floats]:
    cosines, which = np.unique(scores, return_inverse=True)
    totals = np.bincount(which, weights=weight)
    shares = np.bincount(which, weights=weight * genuine) / totals
    chances = isotonic_regression(shares, weights=totals).x
    bends = np.ones(len(chances), dtype=np.bool_)  # between others of its value a knot says nothing
    bends[1:-1] = (chances[1:-1] != chances[:-2]) | (chances[1:-1] != chances[2:])
    cosines, chances = cosines[bends], chances[bends]
    if len(cosines) > MOST_KNOTS:
        chosen = np.unique(np.linspace(0, len(cosines) - 1, MOST_KNOTS).round().astype(int))
        cosines, chances = cosines[chosen], chances[chosen]
    return cosines, chances


def _logistic(
    scores: Floats, genuine: npt.NDArray[np.bool_], weight: Floats, numbers: tuple[float, float]
) -> tuple[float, float]:
    # Platt's targets: each pair counts a little for the other kind, so that even kinds which a
    # threshold tells apart without error get a finite slope.
    alike = np.where(genuine, numbers[1], numbers[0])  # pairs of the same kind
    certain = (alike + 1) / (alike + 2)
    targets = np.where(genuine, certain, 1 - certain)
    center, scale = float(scores.mean()), float(scores.std()) or 1.0
    values = (scores - center) / scale
    weight = weight / weight.sum()
    genuine_weight = weight * targets

    def loss(parameters: Floats) -> tuple[float, Floats]:
        """−Σ genuine·log p + (weight − genuine)·log(1 − p) with p = 1/(1 + e^−(a + b·value))."""
        logits = parameters[0] + parameters[1] * values
        excess = weight * expit(logits) - genuine_weight
        slope = np.array([excess.sum(), excess @ values])
        return float(weight @ np.logaddexp(0, logits) - genuine_weight @ logits), slope

    best = minimize(loss, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    intercept, slope = float(best[0]), float(best[1]) / scale
    if slope <= 0:  # cosines say nothing, or the contrary: no rising function beats a constant
        share = float((weight * genuine).sum())
        return float(np.log(share / (1 - share))), 0.0
    return intercept - slope * center, slope


def _checked_pairs(
    values: Array, same: Array, weights: Array | None, name: str
) -> tuple[Floats, npt.NDArray[np.bool_], Floats]:
    """Values, answers and weights of pairs as arrays (P,); raises `InputError` for others."""
    numbers, genuine = as_array(values, name), as_array(same, "same")
    if numbers.ndim != 1 or not len(numbers) or numbers.dtype.kind not in "fiu":
        raise InputError(f"{name} have shape {numbers.shape}, expected (P,) real numbers, P ≥ 1")
    if not np.isfinite(numbers).all():
        raise InputError(f"{name} hold NaN or inf, expected finite numbers")
    if genuine.shape != numbers.shape or genuine.dtype != np.bool_:
        raise InputError(
            f"same has shape {genuine.shape} and type {genuine.dtype}, expected"
            f" ({len(numbers)},) bool: one answer per pair"
        )
    if genuine.all() or not genuine.any():
        raise InputError(
            f"{int(genuine.sum())} of {len(genuine)} pairs are genuine, expected both kinds"
        )
    weight = np.ones(len(numbers)) if weights is None else as_array(weights, "weights")
    if weight.shape != numbers.shape or not (np.isfinite(weight).all() and (weight > 0).all()):
        raise InputError(f"weights are not ({len(numbers)},) positive finite numbers")
    return numbers.astype(np.float64), genuine, weight.astype(np.float64)
