"""Where no threshold helps: a sample that lies nearer to another class than to its own."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from arcset.checks import check_choice
from arcset.errors import InputError
from arcset.evaluation.arrays import Array
from arcset.evaluation.geometry.shape import Groups, squared_blocks
from arcset.evaluation.pairs import Scores, cosine_blocks
from arcset.text import columns


@dataclass(frozen=True)
class NoThreshold:
    """Triples (a, b, c), a and b of one class, c of another, with d(a, c) < d(a, b).

    A threshold on the distance that accepts a and b as the same accepts a and c as well, and one
    that rejects a and c rejects a and b: no threshold is right about both pairs. Without any such
    triple each anchor has a threshold that suits it, which need not be the same for all.

    Fields:
        metric: euclidean, or cosine for the distance 1 − cos θ.
        share: share of anchors a with such a triple, that is, whose nearest sample of another
            class is nearer than their farthest of the same class.
        triples_share: share of all triples (a, b, c) that are such.
        worst: rows a, b and c with the largest d(a, b) − d(a, c). The difference rather than the
            ratio: it is the widest range of thresholds that are all wrong, and a sample that
            coincides with one of another class does not decide it alone. If the difference is not
            positive, there is no such triple, and this is the one that comes nearest to it.
        same_distance, other_distance: d(a, b) and d(a, c) of the worst.
        anchors: samples with another of their class; the others cannot be an a.
        triples: all triples.
    """

    metric: str
    share: float
    triples_share: float
    worst: tuple[int, int, int]
    same_distance: float
    other_distance: float
    anchors: int
    triples: int

    @property
    def found(self) -> bool:
        """Whether there is such a triple at all."""
        return self.other_distance < self.same_distance

    def table(self) -> str:
        a, b, c = self.worst
        rows = [
            ["anchors", f"{self.anchors:,}"],
            ["  no threshold is right", f"{self.share:.4%}"],
            ["triples", f"{self.triples:,}"],
            ["  no threshold is right", f"{self.triples_share:.4%}"],
            ["worst triple" if self.found else "nearest to one", f"{a}, {b}, {c}"],
            ["  to its own class", f"{self.same_distance:.6g}"],
            ["  to the other class", f"{self.other_distance:.6g}"],
        ]
        return columns(["distance", self.metric], rows, right=(1,))

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "worst": list(self.worst)}


def no_threshold(embeddings: Array, labels: Array, metric: str = "euclidean") -> NoThreshold:
    """Count the triples about which no threshold on a distance can be right, and find the worst.

    Hand in the samples that the classifier names rightly to see what accuracy hides. All triples
    are counted, none are sampled; time grows as N² (D + log N), memory is some
    50 MB beyond the input.

    Parameters:
        embeddings, labels: (N, D) and (N,).
        metric: euclidean, or cosine.

    Distances are compared as float32, and cosines rounded as `pairs` says, so that pairs that are
    equally distant on paper are ties. A tie is no such triple.

    Raises `InputError` for fewer than two classes, and where no class has two samples.

        >>> line = no_threshold([[0.0], [3.0], [4.0], [9.0]], [0, 0, 1, 1])
        >>> line.share, line.triples_share, line.worst
        (0.5, 0.375, (2, 3, 1))
    """
    check_choice("metric", metric, ("euclidean", "cosine"))
    groups = Groups.build(embeddings, labels, angular=metric == "cosine")
    sizes = groups.counts
    if sizes.max() < 2:
        raise InputError(
            f"each of the {len(sizes)} classes has one sample, expected one with two at least"
        )
    violated_anchors = violated = 0
    widest, worst, distances = -np.inf, (0, 0, 0), (0.0, 0.0)
    for anchor, row in _distance_rows(groups, metric):
        start, count = (int(part[groups.numbers[anchor]]) for part in (groups.starts, sizes))
        if count < 2:
            continue
        same = row[start : start + count].copy()
        same[anchor - start] = -np.inf  # it is no b of its own
        other = np.concatenate((row[:start], row[start + count :]))
        inversions = _count_inversions(same, other)
        violated_anchors += inversions > 0
        violated += inversions
        far, near = int(np.argmax(same)), int(np.argmin(other))
        gap = float(same[far]) - float(other[near])
        if gap > widest:
            widest, distances = gap, (float(same[far]), float(other[near]))
            worst = (anchor, start + far, near if near < start else near + count)
    anchors = int(sizes[sizes > 1].sum())
    triples = int((sizes * (sizes - 1) * (len(groups.rows) - sizes)).sum())
    a, b, c = groups.order[list(worst)].tolist()
    return NoThreshold(
        metric=metric,
        share=violated_anchors / anchors,
        triples_share=violated / triples,
        worst=(a, b, c),
        same_distance=distances[0],
        other_distance=distances[1],
        anchors=anchors,
        triples=triples,
    )


def _distance_rows(groups: Groups, metric: str) -> Iterator[tuple[int, Scores]]:
    """The number of each row, and its distances from all rows (N,) as float32."""
    if metric == "cosine":
        units = groups.rows.astype(np.float32)
        for part, cosines in cosine_blocks(units, units):
            yield from enumerate(1 - cosines, part.start)
    else:
        for part, squared in squared_blocks(groups.rows, groups.rows):
            yield from enumerate(np.sqrt(squared).astype(np.float32), part.start)


def _count_inversions(same: Scores, other: Scores) -> int:
    """The number of pairs, one of each, with other < same."""
    same = same[same > other.min()]
    other = np.sort(other[other < same.max(initial=-np.inf)])
    same.sort()  # ascending needles keep the search within the cache
    return int(np.searchsorted(other, same, side="left").sum())
