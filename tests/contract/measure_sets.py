"""Six fixed sets of labelled embeddings, the same to the last bit on every machine.

| set | what it is | what it catches |
|---|---|---|
| plain | 240 rows of any length, 40 identities | formulas: no two cosines that matter coincide |
| ties | 300 rows, 60 identities; of half of them all cosines are multiples of 1/64, of the others
  of 2⁻¹⁶ | > instead of ≥, ties that count the wrong way, a grid that is too coarse |
| duplicates | 248 rows; the same embedding again in its own identity, and in another one | cosines
  of exactly 1 on both sides, distances of 0, thresholds that no cosine reaches |
| singles | 900 rows of 700 identities, 560 of them with one row | samples without a partner |
| above-4096, above-20000 | 4,097 and 20,002 rows | several blocks of rows, and of columns |

All hold whole numbers, and in all but the first the length of every row is a power of two. There
unit vectors and cosines are exact even in float32, whichever way a product is summed: two cosines
are equal, or they differ by 2⁻¹⁶ at least, far more than any grid that cosines may be rounded to.
So nothing but the rules for ties decides about the outcome, in any precision. Of the first set, no
measure changes by 1e-6 where cosines do by 1e-7.

Random numbers are the raw stream of PCG64, which numpy promises to keep; what follows is whole
numbers, but for a division and a root, which every processor rounds alike.
"""

from functools import cache
from typing import NamedTuple

import numpy as np


class LabelledSet(NamedTuple):
    """Embeddings (N, D) and labels (N,)."""

    embeddings: np.ndarray
    labels: np.ndarray


@cache
def measure_set(name: str, *, others: bool = False) -> LabelledSet:
    """A set by its name in `SETS`; `others` is one of the same kind with other identities.

    Labels are 0, 1, …, and those of the others go on from there.
    """
    rows, labels = SETS[name](1 if others else 0)
    if others:
        labels = labels + int(labels.max()) + 1
    order = np.argsort(_raw(7, len(rows)), kind="stable")  # identities are not in a row
    found = LabelledSet(rows[order].astype(np.float64), labels[order])
    found.embeddings.flags.writeable = found.labels.flags.writeable = False
    return found


def _plain(seed):
    labels = np.arange(240) % 40
    return _around_centers(labels, 12, (1, 1), 10 + seed), labels


def _ties(seed):
    labels = np.arange(300) % 60
    rows = _around_centers(labels, 6, (3, 2), 20 + seed)
    coarse, fine = of_length(rows, 8), of_length(rows, 256)
    return np.where(labels[:, None] % 2, coarse * 32, fine), labels


def _duplicates(seed):
    labels = np.arange(200) % 40
    rows = of_length(_around_centers(labels, 8, (3, 2), 30 + seed), 16)
    again, elsewhere = np.arange(0, 32), np.arange(100, 116)
    joined = np.concatenate((rows, rows[again], rows[elsewhere]))
    return joined, np.concatenate((labels, labels[again], (labels[elsewhere] + 1) % 40))


def _singles(seed):
    labels = np.concatenate((np.arange(700), np.arange(200) % 140))
    return of_length(_around_centers(labels, 8, (3, 2), 40 + seed), 256), labels


def _large(count, identities, seed):
    def build(other):
        labels = np.arange(count) % identities
        return of_length(_around_centers(labels, 12, (2, 1), seed + other), 32), labels

    return build


#: By name, a function from the number of a variant to whole numbers (N, D) and labels (N,).
SETS = {
    "plain": _plain,
    "ties": _ties,
    "duplicates": _duplicates,
    "singles": _singles,
    "above-4096": _large(4_097, 683, 60),
    "above-20000": _large(20_002, 2_500, 80),
}


def of_length(rows: np.ndarray, length: int) -> np.ndarray:
    """Whole numbers (N, D + 4) in about the directions of `rows` (N, D), all of one `length`.

    Coordinates are cut off to whole numbers; what the square of the length then lacks is added as
    four further coordinates, for every whole number is the sum of four squares (Lagrange).

    >>> of_length(np.array([[3, 4], [5, 5]]), 10)
    array([[6, 8, 0, 0, 0, 0],
           [7, 7, 0, 0, 1, 1]])
    """
    cut = np.trunc(length * rows / np.sqrt((rows**2).sum(axis=1))[:, None]).astype(np.int64)
    missing = length**2 - (cut**2).sum(axis=1)
    return np.concatenate((cut, _four_squares(int(missing.max()))[missing]), axis=1)


def _four_squares(most):
    """For each number up to `most` four whole numbers whose squares add up to it."""
    table = np.full((most + 1, 4), -1)
    roots = range(int(most**0.5) + 1)
    pairs = {
        a * a + b * b: (a, b) for a in roots for b in roots if a <= b and a * a + b * b <= most
    }
    for number in range(most + 1):
        first = next(part for part in pairs if number - part in pairs)
        table[number] = sorted((*pairs[first], *pairs[number - first]))
    return table


def _around_centers(labels, columns, mixture, seed):
    """Rows around the center of their identity; `mixture` says how much of it, and of chance."""
    centers = _bell_shaped(seed, (int(labels.max()) + 1, columns))
    chance = _bell_shaped(seed + 1000, (len(labels), columns))
    return mixture[0] * centers[labels] + mixture[1] * chance


def _bell_shaped(seed, shape):
    """Whole numbers around 0, about normally distributed: sums of four words of 16 bits."""
    raw = _raw(seed, int(np.prod(shape)))
    words = [(raw >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)]
    return (np.sum(words, axis=0).astype(np.int64) - 2 * 0xFFFF).reshape(shape)


def _raw(seed, count):
    return np.random.PCG64(seed).random_raw(count)
