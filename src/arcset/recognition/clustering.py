"""Groups of images that show the same identity, found without labels.

cluster(embeddings, threshold=…)          → Clustering, the group of each row
clustering_point(thresholds, embeddings)  → ClusteringPoint, the threshold for it
score_clusters(groups, labels)            → ClusterScores, where it is known who is who
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice, check_number
from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import Array, embedding_matrix, refuse_zero_rows
from arcset.evaluation.calibration import Thresholds
from arcset.evaluation.pairs import product_blocks, round_cosines, unit_rows
from arcset.recognition.decisions import (
    Plain,
    likelihood_ratios,
    published_note,
    rough_note,
    uncalibrated_note,
)
from arcset.recognition.inputs import Published

Floats = npt.NDArray[np.float64]
Units = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]

_BLOCK = 1 << 23  # cosines at once, 32 MB


@dataclass(frozen=True, eq=False)
class Clustering:
    """Which rows belong together.

    Fields:
        groups: (N,) the group of each row, numbered from 0, the largest first. A row that is like
            no other is a group of one.
        threshold: the cosine from which on groups were joined.
        method: how.
    """

    groups: Numbers
    threshold: float
    method: str

    @property
    def sizes(self) -> Numbers:
        """How many rows each group has, falling."""
        return np.bincount(self.groups)

    def __len__(self) -> int:
        return len(self.sizes)

    def by_typicality(self, embeddings: Array) -> list[Numbers]:
        """The rows of each group, the one nearest to the group's mean embedding first."""
        units = unit_rows(embedding_matrix(embeddings)).astype(np.float64)
        order = np.argsort(self.groups, kind="stable")
        falling = []
        for rows in np.split(order, np.cumsum(self.sizes)[:-1]):
            likeness = round_cosines(units[rows] @ units[rows].mean(0))  # two rows are even
            falling.append(rows[np.argsort(-likeness, kind="stable")])
        return falling


def cluster(embeddings: Array, *, threshold: float, method: str = "average") -> Clustering:
    """Put together what looks the same.

    Parameters:
        embeddings: (N, D), numpy or torch, of any length but no row all zero.
        threshold: a cosine in [−1, 1]; `clustering_point` finds one from a calibration.
        method: "average" joins two groups while the mean cosine over all pairs between them is at
            least the threshold. "connected" puts together whatever a chain of cosines of at least
            the threshold connects: good for finding copies, too eager for anything else.

    Both compare everything with everything: time grows with N², memory does not. The result does
    not depend on the order of the rows, except where cosines are equal.

    Raises `InputError` for malformed embeddings, `OptionError` for options out of range.

        >>> points = np.array([[1, 0.0], [1, 0.1], [0, 1], [0.1, 1], [0, 1.1], [-1, -1]])
        >>> cluster(points, threshold=0.9).groups.tolist()
        [1, 1, 0, 0, 0, 2]
    """
    check_choice("method", method, METHODS)
    threshold = check_number("threshold", threshold, -1, 1, closed="both")
    groups = METHODS[method](_units(embeddings), threshold)
    # Numbers from 0, the largest group first; of equally large ones, the one that begins first.
    _, first, inverse, sizes = np.unique(
        groups, return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.empty(len(first), np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(len(first))
    return Clustering(rank[inverse], threshold, method)


def _units(embeddings: Array) -> Units:
    matrix = embedding_matrix(embeddings)
    refuse_zero_rows(matrix)
    return unit_rows(matrix)


def _parts(start: Numbers, end: Numbers, count: int) -> Numbers:
    """Of points 0 … count − 1 and links between them, the number of each one's connected part."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    links = coo_matrix((np.ones(len(start), bool), (start, end)), shape=(count, count))
    return np.asarray(connected_components(links, directed=False)[1], np.int64)


def _connected(units: Units, threshold: float) -> Numbers:
    """Whatever a chain of cosines ≥ threshold connects."""
    part = np.arange(len(units))
    for block, cosines in product_blocks(units, units, _BLOCK):
        rows, columns = np.nonzero(cosines >= threshold)
        # After each block the parts stand for all links so far, so that memory stays bounded.
        part = _parts(part[block.start + rows], part[columns], len(units))[part]
    return part


#: Cosines from here on are of copies of one sample: whole stars of them are joined in one round,
#: where joining pair by pair would take as many rounds as there are copies.
_COPY = 1 - 1e-6


def _average_linkage(units: Units, threshold: float) -> Numbers:
    """Average linkage on cosines, exact, without ever holding all pairs.

    It joins the two groups whose mean cosine over all pairs between them is highest, again and
    again, while it is at least the threshold. For unit embeddings that mean is a product of two
    vectors: with m_A and m_B the mean embeddings of the groups,

        mean over a in A, b in B of cos(a, b)  =  m_A · m_B,

    so that a group is one row and no table of pairs is needed. And a joined group is never closer
    to a third than the closer of its parts was ("reducible"), so that all pairs of groups that are
    each other's nearest can be joined at once without changing the result, and a group that has no
    neighbour at the threshold will never have one and can be set aside.

    Müllner: Modern hierarchical, agglomerative clustering algorithms (2011); Murtagh: A survey of
    recent advances in hierarchical clustering algorithms (1983), on reciprocal nearest neighbours.
    Time grows with N²·D, memory with N·D.

        >>> turned = np.radians([0, 10, 20, 90], dtype=np.float32)
        >>> _average_linkage(np.stack([np.cos(turned), np.sin(turned)], 1), 0.9).tolist()
        [0, 0, 0, 3]
    """
    group = np.arange(len(units))  # of each row, by its first row
    # Those that may still be joined: their first rows, the sums of their embeddings, their sizes.
    rows, sums = group.copy(), units.astype(np.float64)
    sizes: Floats = np.ones(len(units))
    nearest, cosine = np.full(len(units), -1), np.full(len(units), -np.inf, np.float32)
    while len(rows):
        means = (sums / sizes[:, None]).astype(np.float32)
        _find_nearest(means, nearest, cosine)
        near = cosine >= threshold
        if not near.any():
            break
        index = np.arange(len(rows))
        joined = near & ((nearest[nearest] == index) | (cosine >= _COPY))
        if not joined.any():  # cosines that are equal but for rounding, in a ring
            joined[cosine.argmax()] = True
        part = _parts(index[joined], nearest[joined], len(rows))
        first = np.unique(part, return_index=True)[1]
        group[rows] = rows[first][part]
        changed = np.bincount(part)[part] > 1
        # What stays: one group for each part, unless it has no neighbour at the threshold.
        remaining = np.unique(part[near])
        total = np.zeros((len(first), units.shape[1]))
        np.add.at(total, part, sums)
        number = np.full(len(first), -1)
        number[remaining] = np.arange(len(remaining))
        nearest = np.where(changed | changed[nearest], -1, number[part[nearest]])[first][remaining]
        rows, cosine = rows[first][remaining], cosine[first][remaining]
        sums = total[remaining]
        sizes = np.bincount(part, weights=sizes)[remaining].astype(np.float64)
    while not np.array_equal(group, group[group]):  # follow the joins to the end
        group = group[group]
    return group


def _find_nearest(means: Units, nearest: Numbers, cosine: npt.NDArray[np.float32]) -> None:
    """For each group whose nearest other one is not known, −1, its index and the mean cosine."""
    unknown = np.flatnonzero(nearest < 0)
    for part, cosines in product_blocks(means[unknown], means, _BLOCK):
        groups, index = unknown[part], np.arange(part.stop - part.start)
        cosines[index, groups] = -np.inf
        nearest[groups] = cosines.argmax(1)
        cosine[groups] = cosines[index, nearest[groups]]


#: From unit embeddings and a threshold to the group of each row, by any numbers.
METHODS: dict[str, Callable[[Units, float], Numbers]] = {
    "average": _average_linkage,
    "connected": _connected,
}


# The threshold

#: A higher share of pairs that are the same is not believed: what looks all alike is more often
#: unlike anything that the model was made for than all of one identity.
MOST = 0.2
#: For calibrations that know little of high cosines: of those who are on one image only, as many
#: may look like another.
FPIR = 0.05

_BINS = 8192  # of cosines from −1 to 1
_PAIRS = 1 << 26  # that are looked at
_ROUNDS = 1000


@dataclass(frozen=True)
class ClusteringPoint(Plain):
    """Where "the same" begins among these images.

    Fields:
        threshold: a cosine.
        others: how many others of its own identity an image seems to have, on average; None where
            the threshold was not found that way.
        note: a sentence for people where something is not as they may expect; else empty.
        published: where the threshold stands, if it is its makers' and was not measured here.
    """

    threshold: float
    others: float | None = None
    note: str = ""
    published: str | None = None

    def __str__(self) -> str:
        if self.others is None:
            return f"threshold {self.threshold:.4f}{', published' if self.published else ''}"
        return f"threshold {self.threshold:.4f}: about {self.others:.2g} further images per person"


def clustering_point(
    thresholds: Thresholds | None,
    embeddings: Array,
    *,
    far: float | None = None,
    threshold: float | None = None,
    published: Published | None = None,
) -> ClusteringPoint:
    """The threshold for `cluster`, from a model's calibration and the images to be grouped.

    A cosine that convinces between two images does not between thousands: nearly all pairs are of
    different identities, and some of them look alike. How many pairs are the same is not known, but
    can be told from all their cosines: with LR the likelihood ratio of a cosine, from the
    calibration,

        share  =  mean over pairs of  share · LR / (share · LR + 1 − share),

    which is solved by putting the share in on the right until it stays (Saerens, Latinne,
    Decaestecker: Adjusting the outputs of a classifier to new a priori probabilities, 2002). What
    stands within the mean is then the chance that a pair is the same. The threshold is the one at
    which "the same" for all pairs from there on would agree best with the truth, that is, with the
    highest expected

        F  =  2 · sum of chances from the threshold on / (pairs from there on + sum of all chances);

    it lies where the chance is F / 2 (Lipton, Elkan, Naryanaswamy: Optimal thresholding of
    classifiers to maximize F1 measure, 2014).

    Parameters:
        thresholds: the calibration; None is refused with how to get one.
        embeddings: (N, D) of the images, of any length but no row all zero.
        far: take the calibration's threshold for this rate instead. threshold: take this cosine.

    A calibration from few identities, or a logistic one, follows the bulk of the cosines and says
    little about high ones. With it the threshold is at most the one at which one in twenty images
    of a stranger would look like one of the N.

    Of more than some ten thousand images, some are drawn and compared with all.
    Raises `OptionError` without thresholds, and `InputError` for malformed embeddings.
    """
    if threshold is not None:
        return ClusteringPoint(check_number("threshold", threshold, -1, 1, closed="both"))
    if thresholds is None and published is not None and far is None:
        note = published_note(published)
        return ClusteringPoint(published.threshold, note=note, published=published.source)
    if thresholds is None:
        raise OptionError(uncalibrated_note())
    if far is not None:
        return ClusteringPoint(thresholds.for_far(far).threshold)
    units = _units(embeddings)
    counts = _histogram(units)
    odds = likelihood_ratios(thresholds, (np.arange(_BINS) + 0.5) * 2 / _BINS - 1)
    share = _share_of_same(odds, counts)
    chances = share * odds / (share * odds + 1 - share)
    best = _best_bin(chances, counts) if share else int(np.argmax(odds == odds[-1]))
    threshold = best * 2 / _BINS - 1
    if thresholds.rough or thresholds.calibration.method == "logistic":
        bound = _for_strangers(thresholds, len(units))
        if bound < threshold:
            return ClusteringPoint(bound, note=rough_note(thresholds) * thresholds.rough)
    note = _note(thresholds, share, chances[-1])
    return ClusteringPoint(threshold, share * (len(units) - 1), note)


def _note(thresholds: Thresholds, share: float, highest: float) -> str:
    if thresholds.rough:
        return rough_note(thresholds)
    if share == MOST:
        return (
            "a fifth of all pairs look the same: they show few identities, or are unlike what the "
            "model was calibrated on; look at the groups, or name a higher threshold"
        )
    if share and highest < 0.5:
        return (
            f"so many images take more than a calibration on {thresholds.rates.identities:,} "
            "identities can tell: the groups may be less pure than others"
        )
    return ""


def _share_of_same(odds: Floats, counts: Floats) -> float:
    """The share of pairs that are the same, as `clustering_point` explains it."""
    total = counts.sum()
    if not total:
        return 0.0
    share = 0.01
    for _ in range(_ROUNDS):
        before = share
        share = float((counts * (share * odds / (share * odds + 1 - share))).sum() / total)
        if abs(share - before) <= 1e-7 * before:
            break
    # Less than half a pair counts as no pair.
    return min(share, MOST) if share * total >= 0.5 else 0.0


def _best_bin(chances: Floats, counts: Floats) -> int:
    """Where the expected F is highest; unlike F, chances rise where there are no pairs."""
    same = np.cumsum((chances * counts)[::-1])[::-1]  # from each bin on
    taken = np.cumsum(counts[::-1])[::-1]
    highest = float((2 * same / (taken + same[0])).max())
    return int(np.argmax(chances >= min(highest / 2, chances[-1])))


def _histogram(units: Units) -> Floats:
    """How many pairs have which cosine; each image with itself left out."""
    count = len(units)
    rows = np.arange(count)
    if count * count > _PAIRS:
        rows = np.sort(np.random.default_rng(0).permutation(count)[: max(1, _PAIRS // count)])
    counts = np.zeros(_BINS)
    for part, cosines in product_blocks(units[rows], units, _BLOCK // 2):
        bins = np.clip((cosines + 1) * (_BINS / 2), 0, _BINS - 1).astype(np.int32)
        counts += np.bincount(bins.ravel(), minlength=_BINS)
        itself = bins[np.arange(len(bins)), rows[part]]
        counts -= np.bincount(itself, minlength=_BINS)
    return counts


def _for_strangers(thresholds: Thresholds, images: int) -> float:
    """Where one in twenty strangers would look like one of the images, or the strictest known."""
    if thresholds.equal_error is not None:
        return thresholds.equal_error.threshold
    return thresholds.for_fpir(FPIR, images).threshold


# How well groups agree with who is really shown


@dataclass(frozen=True)
class ClusterScores(Plain):
    """Agreement between groups and identities; all of it in 0 … 1, more is better.

    Fields:
        samples, identities, groups: how many there are.
        precision, recall, f: over pairs of samples. Of the pairs in one group, the share that is of
            one identity; of the pairs of one identity, the share that is in one group; and their
            harmonic mean. Large groups and identities decide: they have the most pairs.
        bcubed_precision, bcubed_recall, bcubed_f: the same seen from each sample, itself included,
            then averaged, so that every sample counts the same.
        nmi: mutual information of groups and identities over the mean of their entropies. It
            favours many small groups; do not read it alone.
        pure: the share of groups of several samples that hold one identity only.

    A share of nothing, as the precision where every group is a single sample, is NaN.
    """

    samples: int
    identities: int
    groups: int
    precision: float
    recall: float
    f: float
    bcubed_precision: float
    bcubed_recall: float
    bcubed_f: float
    nmi: float
    pure: float

    def __str__(self) -> str:
        f, precision, recall = (
            "–" if np.isnan(value) else f"{value:.3f}"
            for value in (self.f, self.precision, self.recall)
        )
        return (
            f"pairs F {f} (precision {precision}, recall {recall}), B³ F {self.bcubed_f:.3f}, "
            f"NMI {self.nmi:.3f}\n{self.groups:,} groups for {self.identities:,} identities"
        )


def score_clusters(groups: npt.ArrayLike, labels: npt.ArrayLike) -> ClusterScores:
    """Compare the group of each sample (N,) with its identity (N,); numbers or names.

    Raises `InputError` unless there are equally many of both, at least one.

        >>> print(score_clusters([0, 0, 0, 1, 2], ["a", "a", "b", "b", "c"]))
        pairs F 0.400 (precision 0.333, recall 0.500), B³ F 0.765, NMI 0.671
        3 groups for 3 identities
    """
    first, second = np.asarray(groups), np.asarray(labels)
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        raise InputError(
            f"groups have shape {first.shape} and labels {second.shape}, expected one of each per "
            "sample"
        )
    group, identity = (np.unique(each, return_inverse=True)[1] for each in (first, second))
    in_group, of_identity = np.bincount(group), np.bincount(identity)
    # How many are in group `row` and of identity `column`, for those pairs that occur.
    (row, column), counts = np.unique([group, identity], axis=1, return_counts=True)
    together, in_groups, of_identities = (
        (sizes * (sizes - 1) // 2).sum() for sizes in (counts, in_group, of_identity)
    )
    precision, recall = _share(together, in_groups), _share(together, of_identities)
    b_precision = float((counts / in_group[row] * counts).sum() / len(group))
    b_recall = float((counts / of_identity[column] * counts).sum() / len(group))
    both, one, other = (
        -float((sizes / len(group) * np.log(sizes / len(group))).sum())
        for sizes in (counts, in_group, of_identity)
    )  # entropies; the mutual information is one + other − both
    is_pure = np.bincount(row)[in_group > 1] == 1
    return ClusterScores(
        samples=len(group),
        identities=len(of_identity),
        groups=len(in_group),
        precision=precision,
        recall=recall,
        f=_harmonic(precision, recall),
        bcubed_precision=b_precision,
        bcubed_recall=b_recall,
        bcubed_f=_harmonic(b_precision, b_recall),
        nmi=min(1.0, max(0.0, 2 * (one + other - both) / (one + other))) if one + other else 1.0,
        pure=_share(is_pure.sum(), len(is_pure)),
    )


def _share(part: int, whole: int) -> float:
    return float(part / whole) if whole else float("nan")


def _harmonic(one: float, other: float) -> float:
    """The harmonic mean; 0 where both are, NaN where one is not known."""
    return 2 * one * other / (one + other) if one + other else one + other
