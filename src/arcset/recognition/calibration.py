"""A calibration from labelled embeddings at hand, such as the subjects that a gallery holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import embedding_matrix, refuse_zero_rows
from arcset.evaluation.calibration import Thresholds, make_thresholds
from arcset.evaluation.pairs import ImpostorPairs
from arcset.recognition.decisions import Plain

#: Fewer identities with two samples say next to nothing about those that come later.
FEWEST_SUBJECTS = 10

_MOST_SAMPLES = 10_000  # all pairs of so many are looked at in seconds


def calibrate(
    embeddings: npt.ArrayLike,
    labels: Sequence[str] | npt.ArrayLike,
    *,
    samples: int | None = None,
    made_from: Mapping[str, Any] | None = None,
) -> Thresholds:
    """Thresholds and probabilities from identities that the model was not trained on.

    Every identity stands for an unknown one in turn, probed against galleries of the others. What
    is found holds for unknown probes that come from where these identities come from.

    Parameters:
        embeddings: (N, D), no row all zero.
        labels: (N,) the identity of each, by name or number.
        samples: how many samples a gallery holds of each subject; by default as many as half of
            these identities have.
        made_from: plain values that say where this comes from.

    Of more than 10,000 samples, identities are drawn until there are so many.

    Raises `InputError` where fewer than ten identities have two samples or more, where their
    cosines support no rate at all, and for malformed embeddings or labels.

        >>> rng = np.random.default_rng(0)
        >>> names = [f"bird {number:02d}" for number in range(40) for _ in range(3)]
        >>> made = calibrate(np.repeat(rng.normal(size=(40, 8)), 3, 0) + 0.1, names)
        >>> made.made_from["identities"], made.rates.samples_per_subject
        (40, 3)
    """
    matrix, names = embedding_matrix(np.asarray(embeddings)), np.asarray(labels)
    refuse_zero_rows(matrix)
    if names.shape != (len(matrix),):
        raise InputError(
            f"labels have shape {names.shape}, expected ({len(matrix)},): one identity per "
            "embedding"
        )
    _, numbers, sizes = np.unique(names, return_inverse=True, return_counts=True)
    if len(numbers) > _MOST_SAMPLES:
        drawn = _draw_identities(numbers, sizes)
        matrix, names = matrix[drawn], names[drawn]
        _, numbers, sizes = np.unique(names, return_inverse=True, return_counts=True)
    several = int((sizes > 1).sum())
    if several < FEWEST_SUBJECTS:
        raise InputError(
            f"{several} of {len(sizes)} identities have two samples or more, expected at least "
            f"{FEWEST_SUBJECTS} to calibrate from, and some hundred for low rates"
        )
    return make_thresholds(
        matrix,
        numbers,
        samples=int(np.median(sizes)) if samples is None else samples,
        made_from=made_from,
    )


def _draw_identities(
    numbers: npt.NDArray[np.intp], sizes: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """Which rows are of identities drawn at random, always the same, as many as are looked at."""
    order = np.random.default_rng(0).permutation(len(sizes))
    few = max(2, int(np.searchsorted(np.cumsum(sizes[order]), _MOST_SAMPLES, side="right")))
    return np.isin(numbers, order[:few])


@dataclass(frozen=True)
class Alike(Plain):
    """Two identities with a pair of samples that look like one."""

    first: str
    second: str
    cosine: float

    def __str__(self) -> str:
        return f"{self.first} and {self.second}: cosine {self.cosine:.4f}"


def most_alike(
    embeddings: npt.ArrayLike, labels: Sequence[str] | npt.ArrayLike, *, least: float
) -> tuple[Alike, ...]:
    """Identities whose most similar samples have a cosine of at least `least`, falling.

    Who is enrolled under two names makes every threshold stricter than it needs to be.

        >>> points = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> print(*most_alike(points, ["anna", "ann", "ben"], least=0.9))
        ann and anna: cosine 0.9939
    """
    names = np.asarray(labels)
    pairs = ImpostorPairs.of(np.asarray(embeddings), np.unique(names, return_inverse=True)[1])
    count = int(np.searchsorted(-pairs.cosines, -least, side="right"))
    highest: dict[tuple[str, str], float] = {}
    for i, j, cosine in zip(
        pairs.first[:count], pairs.second[:count], pairs.cosines[:count], strict=True
    ):
        first, second = sorted((str(names[i]), str(names[j])))
        highest.setdefault((first, second), float(cosine))
    return tuple(Alike(*pair, cosine) for pair, cosine in highest.items())
