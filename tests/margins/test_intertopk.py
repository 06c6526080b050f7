import math

import pytest
import torch

from arcset.margins.intertopk import InterTopK
from support.margin_checks import batch_of


def cosines_and_floor(k, size=16, classes=20, seed=0):
    """Cosines (B, C) with the target in column 0, and the k-th largest of the others."""
    generator = torch.Generator().manual_seed(seed)
    cosines = torch.empty(size, classes, dtype=torch.float64).uniform_(-1, 1, generator=generator)
    floor = cosines[:, 1:].topk(min(k, classes - 1), dim=1).values[:, -1:]
    return cosines, floor


def test_exactly_k_classes_come_nearer():
    for k in (1, 3, 5):
        cosines, floor = cosines_and_floor(k)
        altered = InterTopK(k=k).negatives(cosines, torch.zeros(16, 1), batch_of(16, floor=floor))
        changed = (altered != cosines)[:, 1:]
        assert (changed.sum(dim=1) == k).all()
        expected = torch.cos(cosines.acos() - 0.06)
        chosen = changed & (cosines[:, 1:] < math.cos(0.06))
        torch.testing.assert_close(
            altered[:, 1:][chosen], expected[:, 1:][chosen], rtol=0, atol=1e-12
        )
        assert (altered >= cosines).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_negatives_at_the_ends_have_finite_slopes(dtype):
    eps = torch.finfo(dtype).eps
    cosines = torch.tensor([[1.0, -1.0, 1 + eps, -1 - eps, 0.5]], dtype=dtype, requires_grad=True)
    samples = batch_of(1, floor=torch.tensor([[-2.0]], dtype=dtype))
    altered = InterTopK(penalty=0.3).negatives(cosines, torch.zeros(1, 1), samples)
    top = 2 - math.cos(0.3)
    torch.testing.assert_close(altered[0, :4], torch.tensor([top, -math.cos(0.3)] * 2, dtype=dtype))
    altered.sum().backward()
    assert cosines.grad.isfinite().all()
    assert (cosines.grad > 0).all()
