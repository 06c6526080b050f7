import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arcset import OptionError
from arcset.devices import choose_device, free_memory, own_gpu
from arcset.numerics import angle, unit_rows, widen


@given(
    rows=st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=1, max_size=4),
    exponent=st.integers(-290, 290),
)
def test_unit_rows_have_length_one_at_any_size(rows, exponent):
    tensor = torch.tensor(rows, dtype=torch.float64) * 10.0**exponent
    unit, norms = unit_rows(tensor)
    zero = tensor.abs().amax(dim=1) == 0
    lengths = unit.norm(dim=1)
    assert torch.allclose(lengths[~zero], torch.ones_like(lengths[~zero]))
    assert (lengths[zero] == 0).all()
    assert torch.allclose(unit * norms[:, None], tensor, rtol=1e-9)


def test_unit_rows_agree_with_torch_in_value_and_gradient():
    rows = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(5, 4, dtype=torch.float64)
    unit_rows(rows)[0].mul(weights).sum().backward()
    ours = rows.grad.clone()
    rows.grad = None
    torch.nn.functional.normalize(rows).mul(weights).sum().backward()
    torch.testing.assert_close(ours, rows.grad)
    assert torch.autograd.gradcheck(unit_rows, (rows,))
    assert torch.autograd.gradgradcheck(unit_rows, (rows,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_widened_gradients_saturate(dtype):
    narrow = torch.ones(3, dtype=dtype, requires_grad=True)
    wide = widen(narrow)
    assert wide.dtype == torch.float32
    (wide * torch.tensor([1.0, 3e38, -3e38])).mul(100).sum().backward()
    limit = torch.finfo(dtype).max
    assert narrow.grad.tolist() == [100.0, limit, -limit]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_angle_is_exact_in_value_and_finite_in_slope(dtype):
    cosine = torch.tensor([1.0, -1.0, 0.5, 1.0 + 1e-6, -1.0 - 1e-6], dtype=dtype)
    cosine.requires_grad_()
    theta = angle(cosine)
    expected = [0.0, math.pi, math.pi / 3, 0.0, math.pi]
    assert theta.tolist() == pytest.approx(expected, abs=1e-6)
    theta.sum().backward()
    assert cosine.grad.isfinite().all()
    assert (cosine.grad <= -1).all()


# Where to compute.


def test_each_process_has_a_gpu_of_its_own():
    assert [own_gpu(process, 3).index for process in range(3)] == [0, 1, 2]
    with pytest.raises(OptionError, match="3"):
        own_gpu(3, 3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_is_not_there_is_refused():
    assert choose_device("auto").type in ("cpu", "mps")
    with pytest.raises(OptionError, match="'cuda'") as refused:
        choose_device("cuda")
    offered = str(refused.value).partition(";")[2]
    assert "cpu" in offered
    assert "cuda" not in offered
    with pytest.raises(OptionError, match="'meta'"):
        choose_device("meta")


def test_free_memory_is_plausible():
    assert 2**20 < free_memory(torch.device("cpu")) < 2**60
