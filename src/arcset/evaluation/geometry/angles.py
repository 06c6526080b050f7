"""The angles of the ArcFace paper: how tight classes are and how far apart, in degrees.

The closest of many unit vectors is that of the highest cosine; its angle is then taken from the
two vectors themselves.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    class_numbers,
    embedding_matrix,
    normalize_rows,
    refuse_zero_rows,
)
from arcset.evaluation.bootstrap import DRAWS, SEED, Resampling, draw_means, groups_of
from arcset.evaluation.geometry.shape import BLOCK_DISTANCES, Floats, Groups
from arcset.evaluation.pairs import Rows, product_blocks
from arcset.evaluation.results import Result

#: w_ec, w_inter, intra and inter in degrees: ResNet-50 trained on CASIA, measured on CASIA.
#: J. Deng et al., "ArcFace: Additive Angular Margin Loss for Deep Face Recognition" (2019).
PAPER = {"arcface": (14.29, 71.61, 38.45, 65.83), "normface": (44.26, 69.66, 50.50, 59.23)}


def _angles_between(left: Floats, right: Floats) -> Floats:
    """The angle of each unit row of `left` with that of `right`, (N, D) → (N,), in degrees.

    2·atan2(|a − b|, |a + b|), which is precise for angles near 0 and near 180° as well.

        >>> float(_angles_between(np.array([[1.0, 0.0]]), np.array([[1.0, 1e-9]]))[0])
        5.729...e-08
    """
    apart = np.linalg.norm(left - right, axis=1)
    together = np.linalg.norm(left + right, axis=1)
    degrees: Floats = np.degrees(2 * np.arctan2(apart, together))
    return degrees


def _smallest_angles(rows: Floats, others: Floats, own: Rows) -> Floats:
    """For each unit row (N, D) the smallest angle to one of `others` (M, D), but not its `own`.

    In degrees, (N,); NaN where there is no other. `own` (N,) are row numbers of `others`.
    """
    angles = np.full(len(rows), np.nan)
    if len(others) < 2:
        return angles
    for part, cosines in product_blocks(rows, others, BLOCK_DISTANCES):
        cosines[np.arange(len(cosines)), own[part]] = -np.inf
        angles[part] = _angles_between(rows[part], others[cosines.argmax(axis=1)])
    return angles


@dataclass(frozen=True, kw_only=True)
class Angles(Result):
    """How classes and their centers lie on the sphere, in degrees.

    The mean of a class is the direction of the mean of its unit embeddings.

    Fields:
        w_ec: mean over classes of the angle between a class's center and its mean; NaN without
            centers, and where no class has one.
        w_inter: mean over centers of the smallest angle to another center; NaN without two.
        intra: mean over samples of the angle to the mean of their class, without the samples of
            classes of one, which are their own mean; NaN where no class has two samples.
        inter: mean over classes of the smallest angle between their mean and another class's; NaN
            with one class.
        samples, classes: how many.
        singles: classes of one sample, left out of intra.
        centers: how many were given.
        matched: classes that have a center.
    """

    named: ClassVar[tuple[str, ...]] = ("w_ec", "w_inter", "intra", "inter")

    w_ec: float
    w_inter: float
    intra: float
    inter: float
    samples: int
    classes: int
    singles: int
    centers: int
    matched: int

    def _size(self) -> str:
        size = f"{self.samples:,} samples of {self.classes:,} classes; angles in degrees"
        if self.singles:
            size += f"\n{self.singles:,} classes of one sample, left out of Intra"
        if 0 < self.matched < self.classes:
            size += f"\nW-EC over the {self.matched:,} classes that have a center"
        return size

    def _notes(self) -> dict[str, str]:
        why = {
            "w_ec": "no class has a center" if self.centers else "no centers given",
            "w_inter": "one center only" if self.centers else "no centers given",
            "intra": "no class has two samples",
            "inter": "one class only",
        }
        return {name: text for name, text in why.items() if math.isnan(getattr(self, name))}


def angles(
    embeddings: Array,
    labels: Array,
    centers: Array | None = None,
    *,
    center_labels: Array | None = None,
    intervals: bool = False,
    draws: int = DRAWS,
    seed: int = SEED,
    groups: Array | None = None,
) -> Angles:
    """Measure how tight classes are, how far apart, and how well centers stand for them.

    Parameters:
        embeddings, labels: (N, D) and (N,); computed in float64.
        centers: (C, D), those of the loss, no row all zero. Row j belongs to label j.
        center_labels: (C,) distinct integers, where row j belongs to label center_labels[j].
        intervals, draws, seed: see `bootstrap`.
        groups: (N,), to draw whole groups of identities.

    Intra is a mean over samples, as the paper defines it: the sum runs over the x_i, so that
    large classes count more. With equally many samples per class it is the mean over classes too.
    The sample of a class of one is its own mean and says nothing of how tight classes are: it is
    left out of intra, and of its interval.

    Identities drawn for intervals weigh as often as they were drawn. The nearest other class or
    center is sought among all, drawn or not: a class does not move away because its neighbour was
    not drawn. Centers of classes without samples are nothing to draw and weigh 1 in every draw;
    where no center is of a class with samples, w_inter has no interval.

    Time N·D + C²·D: 100,000 centers of 512 dimensions take some minutes. Memory: a few copies of
    the input in float64.

    Raises `InputError` for centers of another width, center labels that are not distinct, and for a
    class whose directions cancel out.

        >>> result = angles([[1, 0], [1, 1], [-1, 1]], [0, 0, 1], centers=[[1, 0], [0, 1]])
        >>> [round(result.measures()[name], 1) for name in result.named]
        [33.8, 90.0, 22.5, 112.5]
    """
    found = Groups.build(embeddings, labels, angular=True, classes=1)
    means = found.centroids()
    classes = np.arange(len(means))
    units, owner = _unit_centers(centers, center_labels, found)
    has = owner < len(means)
    shared = found.counts[found.numbers] > 1  # (N,), not alone in their class
    intra = _angles_between(found.rows, means[found.numbers])
    terms = {  # the class of each angle, and the angles that a mean is taken over
        "w_ec": (owner[has], _angles_between(units[has], means[owner[has]])),
        "w_inter": (owner, _smallest_angles(units, units, np.arange(len(units)))),
        "intra": (found.numbers[shared], intra[shared]),
        "inter": (classes, _smallest_angles(means, means, classes)),
    }
    once = np.ones((1, len(means)))
    plain: dict[str, Any] = {name: float(_weighted_means(*terms[name], once)[0]) for name in terms}
    result = Angles(
        **plain,
        samples=len(found.rows),
        classes=len(means),
        singles=int((found.counts == 1).sum()),
        centers=len(units),
        matched=int(has.sum()),
    )
    if not intervals:
        return result
    owners = groups_of(class_numbers(labels, len(found.rows))[1], groups)
    resampling = Resampling.of(found.distinct, owners, draws, seed)
    values = {name: _weighted_means(*terms[name], resampling.of_identities) for name in terms}
    if not result.matched:  # none, or the same in every draw
        del values["w_inter"]
    return replace(result, replicates=resampling.replicates(values))


def _weighted_means(classes: Rows, angles: Floats, weights: Floats) -> Floats:
    """The mean of angles (N,) for each row of weights (B, C) of their classes; NaN without any.

    Angles of class C, which no identity owns, weigh 1.
    """
    weights = np.pad(weights.astype(np.float64), ((0, 0), (0, 1)), constant_values=1.0)
    return draw_means(angles[:, None], classes, weights)[:, 0]


def angle_samples(embeddings: Array, labels: Array) -> tuple[Floats, Floats]:
    """For histograms: the angle of each sample to its class mean and to the nearest other one.

    Two (N,) arrays in degrees, in the order of the embeddings. The first holds NaN for the sample
    of a class of one, which is its own mean. Takes and raises what `angles` does, and raises
    `InputError` for fewer than two classes.

        >>> own, other = angle_samples([[1, 0], [0, 2], [0, 3]], [3, 5, 5])
        >>> own.tolist(), other.tolist()
        ([nan, 0.0, 0.0], [90.0, 90.0, 90.0])
    """
    groups = Groups.build(embeddings, labels, angular=True)
    means = groups.centroids()
    own, other = np.empty(len(groups.rows)), np.empty(len(groups.rows))
    near = _angles_between(groups.rows, means[groups.numbers])
    own[groups.order] = np.where(groups.counts[groups.numbers] > 1, near, np.nan)
    other[groups.order] = _smallest_angles(groups.rows, means, groups.numbers)
    return own, other


def center_angles(embeddings: Array, labels: Array, centers: Array) -> tuple[Floats, Floats]:
    """Two (N,) arrays in degrees: the angle to the own center, and to the nearest other one.

    Row j of `centers` (C, D) belongs to label j. Lengths do not count.

        >>> own, other = center_angles([[2.0, 0.0]], [0], [[1.0, 0.0], [0.0, 3.0]])
        >>> own.tolist(), other.tolist()
        ([0.0], [90.0])
    """
    rows, units = (embedding_matrix(each).astype(np.float64) for each in (embeddings, centers))
    for each in (rows, units):
        normalize_rows(each)
    own = np.asarray(labels)
    return _angles_between(rows, units[own]), _smallest_angles(rows, units, own)


def _unit_centers(
    centers: Array | None, center_labels: Array | None, groups: Groups
) -> tuple[Floats, Rows]:
    """The centers as unit rows (K, D), and the class of each (K,): C where it has no samples."""
    columns, classes = groups.rows.shape[1], len(groups.distinct)
    if centers is None:
        if center_labels is not None:
            raise InputError("center_labels were given without centers, expected both or neither")
        return np.empty((0, columns)), np.empty(0, dtype=np.intp)
    units = embedding_matrix(centers, "centers").astype(np.float64)
    if units.shape[1] != columns:
        raise InputError(
            f"centers have {units.shape[1]} columns and embeddings {columns}, expected as many"
        )
    refuse_zero_rows(units, "centers")
    normalize_rows(units)
    labels = np.arange(len(units))
    if center_labels is not None:
        known, numbers = class_numbers(center_labels, len(units), "center_labels")
        if len(known) < len(units):
            twice = known[np.argmax(np.bincount(numbers))]
            raise InputError(f"center_labels name {twice} more than once, expected distinct labels")
        labels = known[numbers]
    owner = np.searchsorted(groups.distinct, labels).clip(max=classes - 1)
    return units, np.where(groups.distinct[owner] == labels, owner, classes)
