"""Where a classifier changes its mind: exact borders between the classes' regions.

All take class centers (C, D) and biases (C,) or None. A border belongs to a pair of classes whose
scores are equal there and higher than every other class's.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["border_angles", "border_arcs", "border_lines"]

Floats = npt.NDArray[np.floating]

_SLACK = 1e-9  # scores that differ by less are equal


def border_lines(centers: Floats, biases: Floats | None, reach: float) -> Floats:
    """Borders in the plane of W_j·x + b_j: segments (M, 2, 2), at most `reach` from the origin.

    >>> border_lines(np.array([[1.0, 0.0], [-1.0, 0.0]]), None, reach=3.0).tolist()
    [[[0.0, -3.0], [0.0, 3.0]]]
    """
    W, b = _float64(centers, biases)
    segments = []
    for i, j in itertools.combinations(range(len(W)), 2):
        normal = W[i] - W[j]
        length = np.linalg.norm(normal)
        if length < _SLACK:
            continue
        foot = (b[j] - b[i]) * normal / length**2  # the line's point nearest to the origin
        along = np.array([0 - normal[1], normal[0]]) / length
        if np.linalg.norm(foot) >= reach:
            continue
        # On the line at foot + t·along, class k stays below where rise·t ≤ lead.
        half = math.sqrt(reach**2 - float(foot @ foot))
        low, high = -half, half
        rise, lead = (W - W[i]) @ along, (W[i] - W) @ foot + b[i] - b
        rise, lead = np.delete(rise, [i, j]), np.delete(lead, [i, j])
        flat = np.abs(rise) < _SLACK
        if np.any(lead[flat] < -_SLACK):
            continue
        high = min([high, *(lead / np.where(flat, 1, rise))[~flat & (rise > 0)]])
        low = max([low, *(lead / np.where(flat, 1, rise))[~flat & (rise < 0)]])
        if high - low > _SLACK:
            segments.append((foot + low * along, foot + high * along))
    return np.array(segments).reshape(-1, 2, 2)


def border_angles(centers: Floats, biases: Floats | None = None) -> Floats:
    """Borders on the unit circle of W_j·u + b_j: their angles (M,), ascending, radians in (−π, π].

    Between unit centers without biases these are the bisecting angles.

        >>> np.degrees(border_angles(np.array([[1.0, 0.0], [0.0, 1.0]]))).round(6).tolist()
        [-135.0, 45.0]
    """
    W, b = _float64(centers, biases)
    angles = []
    for i, j in itertools.combinations(range(len(W)), 2):
        normal = W[i] - W[j]
        length = float(np.linalg.norm(normal))
        if length < _SLACK or abs(b[j] - b[i]) > length:
            continue
        middle = math.atan2(normal[1], normal[0])
        apart = math.acos((b[j] - b[i]) / length)
        for angle in (middle - apart, middle + apart):
            scores = W @ (math.cos(angle), math.sin(angle)) + b
            if scores.max() - scores[i] < 1e-6:
                angles.append(math.remainder(angle, 2 * math.pi))
    return np.array(sorted(angles))


def border_arcs(centers: Floats, biases: Floats | None = None, steps: int = 240) -> Floats:
    """Borders on the unit sphere of W_j·u + b_j: short segments (M, 2, 3) of circles."""
    W, b = _float64(centers, biases)
    pieces = [piece for pair in _pairs(W, b) for piece in [_arc(W, b, pair, steps)] if len(piece)]
    return np.concatenate(pieces) if pieces else np.empty((0, 2, 3))


def _pairs(W: Floats, b: Floats) -> Iterator[tuple[int, int]]:
    for i, j in itertools.combinations(range(len(W)), 2):
        length = np.linalg.norm(W[i] - W[j])
        if length > _SLACK and abs(b[j] - b[i]) < length:
            yield i, j


def _arc(W: Floats, b: Floats, pair: tuple[int, int], steps: int) -> Floats:
    """The parts of the circle (W_i − W_j)·u = b_j − b_i where i and j lead: (M, 2, 3)."""
    i, j = pair
    normal = W[i] - W[j]
    length = float(np.linalg.norm(normal))
    normal = normal / length
    height = (b[j] - b[i]) / length
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    first /= np.linalg.norm(first)
    second = np.cross(normal, first)
    turn = np.linspace(0, 2 * math.pi, steps + 1)[:, None]
    ring = height * normal + math.sqrt(1 - height**2) * (
        np.cos(turn) * first + np.sin(turn) * second
    )  # (steps + 1, 3)
    scores = ring @ W.T + b
    leads = scores.max(axis=1) - scores[:, i] < 1e-6
    kept = leads[:-1] & leads[1:]
    pieces: Floats = np.stack((ring[:-1], ring[1:]), axis=1)[kept]
    return pieces


def _float64(centers: Floats, biases: Floats | None) -> tuple[Floats, Floats]:
    W = np.asarray(centers, dtype=np.float64)
    return W, np.zeros(len(W)) if biases is None else np.asarray(biases, dtype=np.float64)
