"""From one labelled set to an open-set trial: who is enrolled, who is searched for."""

from dataclasses import dataclass
from numbers import Real

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import Array, as_array, class_numbers
from arcset.evaluation.checks import check_count

__all__ = ["Trial", "trial"]


@dataclass(frozen=True, eq=False)
class Trial:
    """Which rows are enrolled, and which are searched for.

    Fields:
        gallery: (G,) row numbers of the enrolled samples, ascending.
        probes: (P,) row numbers of the others, ascending.
        subjects: how many identities are enrolled.
        unknown: how many are not, so that their samples are non-mated probes.
    """

    gallery: npt.NDArray[np.intp]
    probes: npt.NDArray[np.intp]
    subjects: int
    unknown: int


def trial(labels: Array, *, enrolled: float = 0.5, samples: int = 1, seed: int = 0) -> Trial:
    """Enroll a random share of the identities; search for everything else.

    Of the identities with at least `samples` + 1 samples, a share of `enrolled` (rounded, at least
    one, below 1 never everybody) gets `samples` random samples into the gallery; their other
    samples become mated probes. All samples of all other identities become non-mated probes.

    Parameters:
        labels: (N,) integers.
        enrolled: in (0, 1]. With 1 only identities with too few samples stay unknown; there may
            be none, and then the search is one over a closed set.
        samples: how many of each subject are enrolled.
        seed: the same labels and seed give the same trial, on every platform. Who is enrolled
            follows from which labels there are and how many of each, not from the order of rows;
            which of a subject's samples, from the order among themselves only.

    Raises `InputError` for labels that are not integers, and where they allow no such trial.
    Raises `OptionError` for an option out of range.

        >>> made = trial([5, 5, 6, 6, 7, 8], enrolled=0.5)
        >>> made.subjects, made.unknown, len(made.gallery), len(made.probes)
        (1, 3, 1, 5)
    """
    if isinstance(enrolled, bool) or not (isinstance(enrolled, Real) and 0 < enrolled <= 1):
        raise OptionError(f"enrolled={enrolled!r} is out of range, expected a share in (0, 1]")
    check_count("samples", samples)
    check_count("seed", seed, least=0)
    distinct, numbers = class_numbers(labels, as_array(labels, "labels").size)
    sizes = np.bincount(numbers)
    able = np.flatnonzero(sizes > samples)
    if not len(able):
        raise InputError(
            f"none of the {len(distinct)} identities in labels has {samples + 1} samples,"
            f" expected one at least, with {samples} to enroll and one to search for"
        )
    count = max(1, int(enrolled * len(able) + 0.5))
    if enrolled < 1 and count == len(distinct):
        count -= 1
    if not count:
        raise InputError(
            f"labels hold the one identity {distinct[0]}, expected another that stays unknown"
        )
    # The raw stream is the one that numpy promises to keep.
    chance = np.random.PCG64(seed)
    chosen = able[np.argsort(chance.random_raw(len(able)), kind="stable")[:count]]
    by_identity = np.argsort(numbers, kind="stable")
    shuffled = by_identity[np.lexsort((chance.random_raw(len(numbers)), numbers[by_identity]))]
    starts = np.cumsum(sizes) - sizes
    is_enrolled = np.zeros(len(numbers), dtype=np.bool_)
    is_enrolled[shuffled[starts[chosen][:, None] + np.arange(samples)]] = True
    return Trial(
        gallery=np.flatnonzero(is_enrolled),
        probes=np.flatnonzero(~is_enrolled),
        subjects=count,
        unknown=len(distinct) - count,
    )
