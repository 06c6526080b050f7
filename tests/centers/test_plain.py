"""Plain centers by themselves: dtypes, autocast, bias."""

import pytest
import torch

from arcset.centers import PlainCenters
from arcset.margins import build_margin


@pytest.fixture
def centers():
    torch.manual_seed(0)
    return PlainCenters(6, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_in_any_dtype_are_at_least_float32(centers, dtype):
    x = torch.randn(3, 6)
    narrow = centers.logits(x.to(dtype), 8.0)
    assert narrow.dtype == torch.promote_types(dtype, torch.float32)
    exact = centers.double().logits(x.to(dtype).double(), 8.0)
    torch.testing.assert_close(narrow.double(), exact, rtol=1e-5, atol=1e-5)


def test_autocast_does_not_narrow_the_products(centers):
    x, y, margin = torch.randn(3, 6), torch.tensor([0, 1, 2]), build_margin("arcface")
    outside = centers.loss(x, y, margin, 64.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(centers.loss(x, y, margin, 64.0), outside)


def test_bias_is_added_to_scaled_cosines():
    centers = PlainCenters(6, 4, bias=True)
    x = torch.randn(3, 6)
    before = centers.logits(x, 2.0)
    with torch.no_grad():
        centers.bias += torch.tensor([1.0, 0.0, -1.0, 5.0])
    added = centers.logits(x, 2.0) - before
    torch.testing.assert_close(added, torch.tensor([1.0, 0.0, -1.0, 5.0]).expand(3, 4))


def test_non_contiguous_embeddings(centers):
    x = torch.randn(6, 3).T
    torch.testing.assert_close(centers.logits(x, 1.0), centers.logits(x.contiguous(), 1.0))
