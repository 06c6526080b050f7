"""The reference by itself: dtypes, autocast, bias, sub-centers."""

import copy

import pytest
import torch

import arcset
from arcset.centers import Centers, plain_logits


@pytest.fixture
def centers():
    torch.manual_seed(0)
    return Centers(6, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_in_any_dtype_are_at_least_float32(centers, dtype):
    x = torch.randn(3, 6)
    narrow = plain_logits(centers, x.to(dtype), 8.0)
    assert narrow.dtype == torch.promote_types(dtype, torch.float32)
    exact = plain_logits(centers.double(), x.to(dtype).double(), 8.0)
    torch.testing.assert_close(narrow.double(), exact, rtol=1e-5, atol=1e-5)


def test_a_class_is_as_near_as_its_nearest_subcenter():
    centers = Centers(6, 4, subcenters=3)
    x = torch.nn.functional.normalize(torch.randn(5, 6))
    every = x @ torch.nn.functional.normalize(centers.weight).T  # (5, 12)
    expected = torch.stack([every[:, 3 * j : 3 * j + 3].amax(dim=1) for j in range(4)], dim=1)
    torch.testing.assert_close(plain_logits(centers, x, 1.0), expected)


@pytest.mark.parametrize("mode", ["plain", "store", "recompute"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("arcface", {}),
        ("arcface", {"subcenters": 2}),
        ("arcface", {"sample": 0.5}),
        ("intra", {}),
        ("inter", {}),
    ],
)
def test_float64_embeddings_on_float32_centers_are_computed_in_float64(mode, name, options):
    torch.manual_seed(0)
    loss = arcset.build_loss(name, 6, 9, mode=mode, **options)
    wide = copy.deepcopy(loss).double()
    x, y = torch.randn(7, 6, dtype=torch.float64), torch.randint(9, (7,))
    found = []
    for one in (loss, wide):
        torch.manual_seed(1)  # for the classes that are drawn
        inputs = x.clone().requires_grad_()
        value = one(inputs, y)
        value.backward()
        found.append((value, inputs.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(loss.logits(x), wide.logits(x), rtol=1e-12, atol=1e-12)
