"""Which cosine means "the same" when many images are compared with each other.

A cosine that convinces between two images does not between thousands: nearly all pairs are of
different identities, and some of them look alike. How many pairs are the same is not known, but can
be told from all their cosines: with LR the likelihood ratio of a cosine, from the calibration,

    share  =  mean over pairs of  share · LR / (share · LR + 1 − share),

which is solved by putting the share in on the right until it stays. What stands within the mean is
then the chance that a pair is the same. The threshold is the one at which "the same" for all pairs
from there on would agree best with the truth, that is, with the highest expected

    F  =  2 · sum of chances from the threshold on / (pairs from there on + sum of all chances);

it lies where the chance is F / 2 (Lipton, Elkan, Naryanaswamy: Optimal thresholding of classifiers
to maximize F1 measure, 2014).

Saerens, Latinne, Decaestecker: Adjusting the outputs of a classifier to new a priori probabilities
(2002).
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.checks import check_number
from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import Array, embedding_matrix, normalize_rows, refuse_zero_rows
from arcset.evaluation.calibration import Thresholds
from arcset.files import finite
from arcset.recognition.decisions import rough_note, uncalibrated_note

__all__ = ["ClusteringPoint", "check_calibrated", "clustering_point"]

Floats = npt.NDArray[np.float64]

#: A higher share of pairs that are the same is not believed: what looks all alike is more often
#: unlike anything that the model was made for than all of one identity.
MOST = 0.2
#: For calibrations that know little of high cosines: of those who are on one image only, as many
#: may look like another.
FPIR = 0.05

_BINS = 8192  # of cosines from −1 to 1
_PAIRS = 1 << 26  # that are looked at
_BLOCK = 1 << 22  # cosines at once
_ROUNDS = 1000


@dataclass(frozen=True)
class ClusteringPoint:
    """Where "the same" begins among these images.

    Fields:
        threshold: a cosine.
        others: how many others of its own identity an image seems to have, on average; None where
            the threshold was not found that way.
        note: a sentence for people where something is not as they may expect; else empty.
    """

    threshold: float
    others: float | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.others is None:
            return f"threshold {self.threshold:.4f}"
        return f"threshold {self.threshold:.4f}: about {self.others:.2g} further images per person"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return dict(finite(asdict(self)))


def check_calibrated(thresholds: Thresholds | None) -> Thresholds:
    """The thresholds, if there are any; else raises `OptionError` with how to get some."""
    if thresholds is None:
        raise OptionError(uncalibrated_note())
    return thresholds


def clustering_point(
    thresholds: Thresholds | None,
    embeddings: Array,
    *,
    far: float | None = None,
    threshold: float | None = None,
) -> ClusteringPoint:
    """The threshold for `cluster`, from a model's calibration and the images to be grouped.

    Parameters:
        thresholds: the calibration; None is refused with how to get one.
        embeddings: (N, D) of the images, of any length but no row all zero.
        far: take the calibration's threshold for this rate instead. threshold: take this cosine.

    A logistic calibration, which is made where there are few genuine pairs, follows the bulk of the
    cosines and says little about high ones. With it the threshold is at most the one at which one
    in twenty images of a stranger would look like one of the N.

    Of more than some ten thousand images, some are drawn and compared with all.
    Raises `OptionError` without thresholds, and `InputError` for embeddings that are none.
    """
    if threshold is not None:
        return ClusteringPoint(check_number("threshold", threshold, -1, 1, closed="both"))
    thresholds = check_calibrated(thresholds)
    if far is not None:
        return ClusteringPoint(thresholds.for_far(far).threshold)
    matrix = embedding_matrix(embeddings)
    refuse_zero_rows(matrix)
    unit = matrix.astype(np.float64)
    normalize_rows(unit)
    counts = _histogram(unit.astype(np.float32))
    odds = _odds(thresholds, (np.arange(_BINS) + 0.5) * 2 / _BINS - 1)
    share = _share(odds, counts)
    chances = share * odds / (share * odds + 1 - share)
    threshold = _best(chances, counts) if share else _edge(int(np.argmax(odds == odds[-1])))
    note = ""
    if share and chances[-1] < 0.5:
        note = (
            f"so many images take more than a calibration on {thresholds.rates.identities:,} "
            "identities can tell: the groups may be less pure than others"
        )
    if share == MOST:
        note = (
            "a fifth of all pairs look the same: they show few identities, or are unlike what the "
            "model was calibrated on; look at the groups, or name a higher threshold"
        )
    if thresholds.rough:
        note = rough_note(thresholds)
    if thresholds.calibration.method == "logistic":
        bound = _for_strangers(thresholds, len(unit))
        if bound < threshold:
            return ClusteringPoint(bound, note=note if thresholds.rough else "")
    return ClusteringPoint(threshold, share * (len(unit) - 1), note)


def _odds(thresholds: Thresholds, cosines: Floats) -> Floats:
    """The likelihood ratio of cosines: how much likelier they are for the same than for others."""
    chance = thresholds.probability(cosines)
    prior = thresholds.calibration.prior
    return chance / (1 - chance) * (1 - prior) / prior


def _share(odds: Floats, counts: Floats) -> float:
    """The share of pairs that are the same; see above."""
    total = counts.sum()
    if not total:
        return 0.0
    share = 0.01
    for _ in range(_ROUNDS):
        before = share
        share = float((counts * (share * odds / (share * odds + 1 - share))).sum() / total)
        if abs(share - before) <= 1e-7 * before:
            break
    # Less than half a pair is none.
    return min(share, MOST) if share * total >= 0.5 else 0.0


def _best(chances: Floats, counts: Floats) -> float:
    """The threshold of the highest expected F; unlike F, chances rise where there are no pairs."""
    same = np.cumsum((chances * counts)[::-1])[::-1]  # from each bin on
    taken = np.cumsum(counts[::-1])[::-1]
    highest = float((2 * same / (taken + same[0])).max())
    return _edge(int(np.argmax(chances >= min(highest / 2, chances[-1]))))


def _edge(bin_: int) -> float:
    """Where a bin begins."""
    return bin_ * 2 / _BINS - 1


def _histogram(unit: npt.NDArray[np.float32]) -> Floats:
    """How many pairs have which cosine; each image with itself left out."""
    count = len(unit)
    rows = np.arange(count)
    if count * count > _PAIRS:
        rows = np.sort(np.random.default_rng(0).permutation(count)[: max(1, _PAIRS // count)])
    counts = np.zeros(_BINS)
    step = max(1, _BLOCK // count)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        cosines = unit[some] @ unit.T  # (b, N)
        bins = np.clip((cosines + 1) * (_BINS / 2), 0, _BINS - 1).astype(np.int32)
        counts += np.bincount(bins.ravel(), minlength=_BINS)
        own = bins[np.arange(len(some)), some]
        counts -= np.bincount(own, minlength=_BINS)
    return counts


def _for_strangers(thresholds: Thresholds, images: int) -> float:
    """Where one in twenty strangers would look like one of the images, or the strictest known."""
    if thresholds.rough and thresholds.equal_error is not None:
        return thresholds.equal_error.threshold
    try:
        return thresholds.for_fpir(FPIR, images).threshold
    except InputError:
        return thresholds.rates.thresholds[-1]
