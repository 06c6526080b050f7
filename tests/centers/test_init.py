import math

import pytest
import torch

from arcset.centers.init import center_spacing, initial_directions


def nearest_angles(rows):
    cosines = (rows @ rows.T).fill_diagonal_(-1).clamp(-1, 1)
    return cosines.amax(dim=1).arccos()


@pytest.mark.parametrize("classes", [2, 5, 10, 300])
def test_a_circle_is_shared_evenly(classes):
    torch.manual_seed(0)
    nearest = nearest_angles(initial_directions(classes, 2).double())
    assert nearest.tolist() == pytest.approx([2 * math.pi / classes] * classes, rel=1e-3)


@pytest.mark.parametrize(("classes", "dim"), [(4, 3), (10, 3), (20, 8), (100, 3)])
def test_few_dimensions_are_spread_better_than_by_chance(classes, dim):
    torch.manual_seed(0)
    spread = nearest_angles(initial_directions(classes, dim)).min()
    chance = max(
        nearest_angles(torch.nn.functional.normalize(torch.randn(classes, dim))).min()
        for _ in range(20)
    )
    assert spread > chance
    assert spread > 0.65 * center_spacing(classes, dim)
