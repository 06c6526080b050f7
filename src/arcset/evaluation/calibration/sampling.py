"""Pairs to calibrate on: all of an embedding set, or a fair sample of them."""

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import Array, class_numbers
from arcset.evaluation.calibration.impostors import Rows, rounded_cosines, unit_matrix
from arcset.evaluation.calibration.prediction import check_count

__all__ = ["pair_cosines"]

MOST_PAIRS = 2**21  # of each kind; beyond, a sample is drawn


def pair_cosines(
    embeddings: Array, labels: Array, *, most: int = MOST_PAIRS, seed: int = 0
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Cosines of pairs, whether they are genuine, and how many pairs each stands for.

    All pairs where there are at most `most` of a kind (some 2,000 embeddings for the impostors);
    otherwise that many, drawn with replacement by `seed`, each standing for more than one.

    Raises `InputError` for bad embeddings or labels, and where a kind of pairs does not occur.

        >>> pair_cosines([[1, 0], [0, 1], [0, 2]], [5, 5, 6])
        (array([0., 0., 1.], dtype=float32), array([ True, False, False]), array([1., 1., 1.]))
    """
    most = check_count("most", most)
    units = unit_matrix(embeddings)
    _, identity = class_numbers(labels, len(units))
    sizes = np.bincount(identity)
    genuine = int((sizes * (sizes - 1) // 2).sum())
    impostor = len(units) * (len(units) - 1) // 2 - genuine
    if not genuine or not impostor:
        raise InputError(
            f"there are {genuine} genuine and {impostor} impostor pairs, expected both"
        )
    generator = np.random.default_rng(seed)
    kinds = [
        _genuine_rows(identity, sizes, most if genuine > most else None, generator),
        _impostor_rows(identity, most if impostor > most else None, generator),
    ]
    i, j = np.concatenate(kinds, axis=1)
    cosines = [
        rounded_cosines(np.einsum("pd,pd->p", units[i[at : at + 4096]], units[j[at : at + 4096]]))
        for at in range(0, len(i), 4096)
    ]
    numbers = np.array([kinds[0].shape[1], kinds[1].shape[1]])
    same = np.repeat([True, False], numbers)
    stands_for = np.repeat(np.array([genuine, impostor]) / numbers, numbers)
    return np.concatenate(cosines), same, stands_for


def _genuine_rows(
    identity: Rows,
    sizes: Rows,
    drawn: int | None,
    generator: np.random.Generator,
) -> Rows:
    """Rows (2, P) of all genuine pairs, or of `drawn` ones."""
    order = np.argsort(identity, kind="stable")
    starts = np.cumsum(sizes) - sizes
    if drawn is None:
        parts = [
            starts[which] + np.stack(np.triu_indices(sizes[which], 1))
            for which in np.flatnonzero(sizes > 1)
        ]
        return np.asarray(order[np.concatenate(parts, axis=1)])
    chance = sizes * (sizes - 1.0)
    which = generator.choice(len(sizes), size=drawn, p=chance / chance.sum())
    first = generator.integers(sizes[which])
    second = (first + generator.integers(1, sizes[which])) % sizes[which]
    return np.asarray(order[starts[which] + np.stack((first, second))])


def _impostor_rows(identity: Rows, drawn: int | None, generator: np.random.Generator) -> Rows:
    """Rows (2, P) of all impostor pairs, or of `drawn` ones."""
    if drawn is None:
        i, j = np.triu_indices(len(identity), 1)
        apart = identity[i] != identity[j]
        return np.stack((i[apart], j[apart]))
    found: list[Rows] = []
    while sum(part.shape[1] for part in found) < drawn:
        rows = generator.integers(len(identity), size=(2, drawn))
        found.append(rows[:, identity[rows[0]] != identity[rows[1]]])
    return np.concatenate(found, axis=1)[:, :drawn]
