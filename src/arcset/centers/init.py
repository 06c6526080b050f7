"""How far apart class centers can lie, and where they start."""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from arcset.numerics import unit_rows

_CROWDED_DIM = 8  # from here on, random directions are far enough apart by themselves
_MANY = 256  # above this, the C × C cosines would cost more than they bring
_STEPS = 300
_AT_ONCE = 1 << 24  # entries


def center_spacing(classes: int, dim: int) -> float:
    """About the largest angle φ that C centers in R^D can keep from their nearest neighbour.

    Exact for D = 2, where it is 2π/C, and for C ≤ D + 1, where it is the angle of the regular
    simplex, arccos(−1/(C − 1)). Between, each center is given a cap of the sphere of half-angle
    φ/2, all caps together as large as the sphere: an upper estimate, never above the simplex.

        >>> round(math.degrees(center_spacing(5, 2)), 1)
        72.0
        >>> round(math.degrees(center_spacing(10_000, 512)), 1)
        90.0
    """
    if classes < 2:
        return math.pi
    simplex = math.acos(-1 / (classes - 1))
    if classes <= dim + 1:
        return simplex
    if dim < 2:
        return 0.0  # a line has only two directions
    half = np.linspace(0, math.pi, 20_001)
    rim = np.sin(half) ** (dim - 2)
    share = np.concatenate([[0.0], np.cumsum(rim[1:] + rim[:-1])])  # area up to each half-angle
    caps = 2 * float(np.interp(1 / classes, share / share[-1], half))
    return min(caps, simplex)


@torch.no_grad()
def initial_directions(classes: int, dim: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random unit rows (C, D); in few dimensions, pushed apart from each other.

    No two classes shall start on the same spot, which by chance they do in few dimensions. So in
    two dimensions the centers start evenly spaced, and up to 8 they repel each other for a while;
    which class comes next to which stays random.

        >>> initial_directions(5, 2).norm(dim=1).round(decimals=3).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    if torch.get_default_device().type == "meta":  # they are to be replaced by others anyway
        return torch.empty(classes, dim, dtype=dtype)
    if classes * dim > _AT_ONCE:  # by parts, so that nothing else of that size is needed
        whole = torch.empty(classes, dim, dtype=dtype)
        for part in whole.split(_AT_ONCE // dim):
            part.copy_(unit_rows(torch.randn(part.shape))[0])
        return whole
    return _few_directions(classes, dim).to(dtype)


def _few_directions(classes: int, dim: int) -> Tensor:
    if dim == 2:
        theta = (torch.randperm(classes) + torch.rand(1)) * (2 * math.pi / classes)
        return torch.stack([theta.cos(), theta.sin()], dim=1)
    rows, _ = unit_rows(torch.randn(classes, dim))
    if dim == 1 or dim > _CROWDED_DIM or not 1 < classes <= _MANY:
        return rows
    values = tuple(rows.flatten().tolist())
    return torch.tensor(_push_apart(values, dim), dtype=rows.dtype).view(classes, dim)


@lru_cache(maxsize=32)  # a run is built several times from one seed, and this takes the most of it
def _push_apart(values: tuple[float, ...], dim: int) -> tuple[float, ...]:
    """Unit rows (C, D), one after the other, and where they come to lie when they repel."""
    rows = torch.tensor(values).view(-1, dim)
    spacing = center_spacing(len(rows), dim)
    sharpness = 2 / (1 - math.cos(spacing))  # so that the nearest few push the most
    for step in range(_STEPS):
        cosines = (rows @ rows.T).fill_diagonal_(-torch.inf)
        push = torch.softmax(sharpness * cosines, dim=1) @ rows
        rows, _ = unit_rows(rows - 0.2 * spacing * (1 - step / _STEPS) * push)
    return tuple(rows.flatten().tolist())
