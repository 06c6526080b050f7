import math

import pytest
import torch

from arcset.margins.curricularface import CurricularFace
from support.margin_checks import batch_of, check_saved


def with_t(value: float) -> CurricularFace:
    margin = CurricularFace().double()
    margin.t.fill_(value)
    return margin


def test_against_the_published_formula():
    """As the paper's equations 6 to 8 say, on a batch."""
    generator = torch.Generator().manual_seed(0)
    cosines = torch.empty(32, 10, dtype=torch.float64).uniform_(-0.7, 0.95, generator=generator)
    labels = torch.randint(10, (32,), generator=generator)
    margin = with_t(0.35)
    samples = batch_of(32, labels=labels)
    target = margin(cosines[torch.arange(32), labels], samples)
    found = margin.negatives(cosines, target[:, None], samples)
    hard = 0
    for i in range(32):
        own = math.cos(math.acos(cosines[i, labels[i]].item()) + 0.5)
        for j in range(10):
            bare = cosines[i, j].item()
            expected = bare if own >= bare else (0.35 + bare) * bare
            hard += own < bare
            assert found[i, j].item() == pytest.approx(expected, abs=1e-12)
    assert 50 < hard < 300


def test_t_follows_the_target_cosines():
    margin = CurricularFace()
    assert margin.t.item() == 0.0
    first, second = torch.tensor([0.2, 0.4]), torch.tensor([0.9])
    margin.observe(first, batch_of(2))
    assert margin.t.item() == pytest.approx(0.01 * 0.3)
    margin.observe(second, batch_of(1))
    assert margin.t.item() == pytest.approx(0.99 * 0.003 + 0.01 * 0.9)
    check_saved(margin, CurricularFace(), "t")


def test_t_may_move_between_forward_and_backward():
    margin = CurricularFace()
    cosines = torch.tensor([[0.9]], requires_grad=True)
    altered = margin.negatives(cosines, torch.zeros(1, 1), batch_of(1))
    margin.observe(torch.tensor([0.5]), batch_of(1))
    altered.sum().backward()
    assert cosines.grad.item() == pytest.approx(1.8)
