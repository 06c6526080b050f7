"""Whatever the sizes, lengths, options and types: no value and no gradient is ever infinite."""

import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import arcset
from arcset.centers import sharded
from support.laws import chunks_of
from support.variants import FUSED, VARIANTS

DTYPES = st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16])


@pytest.fixture(autouse=True, scope="module")
def plain_first_centers():
    """Spacing the first centers evenly takes most of the time, and they are replaced at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "initial_directions", lambda rows, dim, _: torch.randn(rows, dim))
        yield


@st.composite
def random_cases(draw):
    classes = draw(st.integers(1, 40))
    batch = draw(st.integers(1, 9))
    dim = draw(st.integers(1, 9))
    variant = draw(st.sampled_from(list(VARIANTS)))
    options = dict(VARIANTS[variant])
    if options["name"] != "adacos":
        options["scale"] = draw(st.sampled_from([0.1, 1.0, 30.0, 64.0, 128.0, 256.0]))
    return {
        "options": options,
        "mode": draw(st.sampled_from(["plain", *FUSED])),
        "chunk": draw(st.integers(1, classes)),
        "shape": (batch, dim, classes),
        "dtype": draw(DTYPES),
        "lengths": draw(st.lists(st.integers(-40, 38), min_size=1, max_size=4)),
        "aligned": draw(st.sampled_from([None, 1.0, -1.0])),
        "seed": draw(st.integers(0, 2**32)),
        "step": draw(st.integers(0, 6)),
    }


def check_random_case(case):
    batch, dim, classes = case["shape"]
    dtype = case["dtype"]
    generator = torch.Generator().manual_seed(case["seed"])
    powers = torch.tensor([10.0**e for e in case["lengths"]], dtype=torch.float64)

    def rows(count):
        size = powers[torch.randint(len(powers), (count, 1), generator=generator)]
        limit = torch.finfo(dtype).max / 8
        values = torch.randn(count, dim, generator=generator, dtype=torch.float64) * size
        return values.clamp(-limit, limit).to(dtype)

    loss = arcset.build_loss(dim=dim, classes=classes, mode=case["mode"], **case["options"])
    loss = loss.to(dtype)
    loss.set_centers(rows(classes))
    loss.advance(case["step"])
    y = torch.randint(classes, (batch,), generator=generator)
    x = rows(batch)
    if case["aligned"] is not None:  # cos θ = ±1 exactly, or as near as rounding comes
        x = case["aligned"] * loss.head.weight.detach()[y * loss.subcenters]
    x = x.clone().requires_grad_()
    with chunks_of(case["chunk"]):
        value = loss(x, y)
        value.backward()
    assert value.isfinite(), value
    assert x.grad.isfinite().all()
    for name, parameter in loss.named_parameters():
        assert parameter.grad.isfinite().all(), name
    for name, buffer in loss.named_buffers():
        assert buffer.isfinite().all(), name


@settings(max_examples=60, deadline=None)
@given(random_cases())
def test_random_cases_are_finite(case):
    check_random_case(case)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(20))
def test_a_hundred_thousand_random_cases_are_finite(part):
    """In twenty parts of 5,000, which several processes share."""

    @seed(part)
    @settings(max_examples=5000, deadline=None, derandomize=False, database=None)
    @given(random_cases())
    def check(case):
        check_random_case(case)

    check()
