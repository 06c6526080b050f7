"""What knowing nothing costs, against formulas."""

import math

import pytest
import torch

from arcset.losses import build_loss, loss_names
from arcset.losses.build import lowest_loss
from arcset.training.doctor import blind_loss, chance_loss


@pytest.mark.parametrize(("classes", "dim", "scale"), [(500, 128, 16.0), (2000, 64, 12.0)])
def test_guessing_with_cosines(classes: int, dim: int, scale: float) -> None:
    """ln C + s²/2D; a margin of an angle adds s·sin m, one of a cosine s·m."""
    torch.manual_seed(0)
    bare = math.log(classes) + scale**2 / (2 * dim)
    for name, margin, added in (
        ("normface", None, 0.0),
        ("arcface", 0.4, scale * math.sin(0.4)),
        ("cosface", 0.3, scale * 0.3),
    ):
        loss = build_loss(name, dim, classes, scale=scale, margin=margin)
        assert chance_loss(loss) == pytest.approx(bare + added, rel=0.03)


def test_the_margin_counts_as_far_as_it_has_come_in() -> None:
    torch.manual_seed(0)
    loss = build_loss("arcface", 64, 300, scale=16.0, margin=0.4, warmup=100)
    bare, half, full = (chance_loss(loss, step=step) for step in (0, 50, 100))
    assert chance_loss(loss) == bare  # where it stands
    assert half - bare == pytest.approx(16 * math.sin(0.2), rel=0.05)
    assert full - bare == pytest.approx(16 * math.sin(0.4), rel=0.05)
    built = build_loss("center", 64, 300, base="arcface", scale=16.0, margin=0.4, warmup=100)
    assert chance_loss(built, step=100) - chance_loss(built, step=0) == pytest.approx(
        full - bare, rel=0.05
    )


@pytest.mark.parametrize("name", loss_names())
def test_asking_changes_nothing(name: str) -> None:
    torch.manual_seed(0)
    loss = build_loss(name, 8, 20).train()
    before = {key: value.clone() for key, value in loss.state_dict().items()}
    random = torch.get_rng_state()
    found = chance_loss(loss, step=3), blind_loss(loss, step=3)
    assert (found == (None, None)) == (not loss.classifies)
    if loss.classifies:
        assert (chance_loss(loss, step=3), blind_loss(loss, step=3)) == found
        assert found[1] < found[0]
    assert all(torch.equal(before[key], value) for key, value in loss.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())


def test_one_answer_to_everything() -> None:
    """ln C; with a margin, the target alone falls back from the same place."""
    torch.manual_seed(0)
    classes, scale = 50, 16.0
    assert blind_loss(build_loss("softmax", 8, classes)) == pytest.approx(math.log(classes))
    assert blind_loss(build_loss("normface", 8, classes)) == pytest.approx(math.log(classes))
    for name, margin, lost in (("arcface", 0.5, 1 - math.cos(0.5)), ("cosface", 0.3, 0.3)):
        behind = scale * lost
        expected = behind + math.log(classes - 1 + math.exp(-behind))
        loss = build_loss(name, 8, classes, scale=scale, margin=margin)
        assert blind_loss(loss) == pytest.approx(expected, rel=1e-5)


def test_the_least_is_that_of_a_regular_simplex() -> None:
    classes, scale = 6, 3.0
    simplex = torch.eye(classes) - 1 / classes
    loss = build_loss("normface", classes, classes, scale=scale)
    loss.set_centers(simplex)
    best = loss(simplex, torch.arange(classes)).item()
    assert lowest_loss(scale, classes) == pytest.approx(best, rel=1e-5)
    assert lowest_loss(scale, 1) == 0.0


def test_too_many_centers_are_not_copied() -> None:
    loss = build_loss("normface", 2, 3)
    loss.classes = 10**8  # what it would be asked before anything is copied
    assert chance_loss(loss) is None
    assert blind_loss(loss) is None
