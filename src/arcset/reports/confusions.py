"""The worst confusions among unseen identities: the pairs of images that a threshold gets wrong."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.evaluation import Thresholds
from arcset.evaluation.pairs import round_cosines
from arcset.reports.page import Picture, embed_image
from arcset.reports.view import Embedded, Floats
from arcset.text import percent

__all__ = ["CAPTION", "ConfusedPair", "decision_threshold", "worst_confusions"]

MOST_PAIRS = 6  # of each kind
MOST_SAMPLES = 20_000  # of which all pairs are compared; beyond, every second, third, … one
SIDE = 112  # pixels of a picture
_BLOCK = 1024  # rows of cosines at a time

#: By image, a cosine and the number of the image that it is to; infinite where there is none.
Candidates = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]

CAPTION = (
    "Left, images of different identities that the network finds most alike; right, images of one "
    "identity that it finds least alike: what it confuses first. Under each pair stand the cosine "
    "and, where the run has a threshold, what that says to it. Two identities, "
    "and each identity on the right, appear once.",
    "These are the extremes, chosen for being the worst: how common they are is what "
    "the rates below say. A wrong label in the data looks like a confusion, too; look at the "
    "pictures.",
)


@dataclass(frozen=True)
class ConfusedPair:
    """Two images, the names of their classes, and how alike they are to the network."""

    pictures: tuple[Picture, Picture]
    names: tuple[str, str]
    cosine: float
    decision: str  # empty where there is no threshold
    is_wrong: bool


def decision_threshold(
    thresholds: Thresholds | None, far: float = 0.01
) -> tuple[float, str] | None:
    """The cosine from which on two images count as the same, and what it is, in words.

    That is the one for `far`, or the lowest FAR that the identities it was made from support, or
    the rough one where they support none. None without thresholds.
    """
    if thresholds is None:
        return None
    lowest = thresholds.rates.lowest_far
    if lowest is None:
        if thresholds.equal_error is None:
            return None
        return thresholds.equal_error.threshold, "the run's rough threshold"
    rate = max(far, lowest)
    return thresholds.for_far(rate).threshold, f"the run's threshold for a FAR of {percent(rate)}"


def worst_confusions(
    sample: Embedded, threshold: float | None = None
) -> tuple[list[ConfusedPair], list[ConfusedPair]]:
    """Pairs of different classes most alike, and pairs of one class least alike, worst first.

    Of each image the most similar of another class and the least similar of its own are candidates.
    """
    rows = np.arange(0, len(sample.labels), -(-len(sample.labels) // MOST_SAMPLES))
    nearest, farthest = _extremes(sample.embeddings[rows], sample.labels[rows])
    return (
        _worst(sample, rows, nearest, -1, threshold),
        _worst(sample, rows, farthest, 1, threshold),
    )


def _worst(
    sample: Embedded,
    rows: npt.NDArray[np.int64],
    candidates: Candidates,
    sign: int,
    threshold: float | None,
) -> list[ConfusedPair]:
    """The first candidates by `sign` times their cosine, of different classes each."""
    cosines, partners = candidates
    labels, seen = sample.labels[rows], set[tuple[int, ...]]()
    pairs: list[ConfusedPair] = []
    for i in np.argsort(sign * cosines, kind="stable").tolist():
        if not np.isfinite(cosines[i]) or len(pairs) == MOST_PAIRS:
            break
        j = int(partners[i])
        classes = tuple(sorted({int(labels[i]), int(labels[j])}))
        if classes not in seen:
            seen.add(classes)
            cosine = float(round_cosines(cosines[i]))
            pairs.append(_pair(sample, (int(rows[i]), int(rows[j])), cosine, threshold))
    return pairs


def _extremes(embeddings: Floats, labels: npt.NDArray[np.int64]) -> tuple[Candidates, Candidates]:
    """Per image the nearest of another class, and the farthest of its own."""
    unit = np.asarray(embeddings, np.float32)
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    nearest, farthest = (
        (np.empty(len(unit)), np.empty(len(unit), np.int64)) for _ in ("nearest", "farthest")
    )
    for start in range(0, len(unit), _BLOCK):
        block = np.arange(start, min(start + _BLOCK, len(unit)))
        cosines = (unit[block] @ unit.T).astype(np.float64)  # (B, N)
        is_same = labels[block, None] == labels
        others = np.where(is_same, -np.inf, cosines)
        is_same[np.arange(len(block)), block] = False  # nobody is a pair with itself
        fellows = np.where(is_same, cosines, np.inf)
        for (values, partners), scores, best in (
            (nearest, others, others.argmax(axis=1)),
            (farthest, fellows, fellows.argmin(axis=1)),
        ):
            values[block], partners[block] = scores[np.arange(len(block)), best], best
    return nearest, farthest


def _pair(
    sample: Embedded, rows: tuple[int, int], cosine: float, threshold: float | None
) -> ConfusedPair:
    names = tuple(sample.class_names[sample.labels[row]] for row in rows)
    is_same = names[0] == names[1]
    is_accepted = threshold is not None and cosine >= threshold
    decision = "" if threshold is None else "taken for the same" if is_accepted else "told apart"
    return ConfusedPair(
        pictures=(_picture(sample, rows[0]), _picture(sample, rows[1])),
        names=(names[0], names[1]),
        cosine=cosine,
        decision=decision,
        is_wrong=threshold is not None and is_accepted != is_same,
    )


def _picture(sample: Embedded, row: int) -> Picture:
    image = Image.fromarray(sample.images[row])
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return embed_image(np.asarray(image), f"{sample.class_names[sample.labels[row]]}, image {row}")
