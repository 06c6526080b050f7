"""The fused softmax equals the plain one: values, gradients, statistics; and how it behaves."""

import pytest
import torch

import arcset
from support.laws import chunks_of
from support.variants import FUSED, VARIANTS


def outcome(mode, x, y, *, dtype=torch.float32, dim, classes, steps=2, **options):
    """Loss, gradients and everything that is learned, after a few steps in one mode."""
    torch.manual_seed(0)
    loss = arcset.build_loss(dim=dim, classes=classes, mode=mode, **options).to(dtype)
    for parameter in loss.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, dtype=torch.float64).to(dtype)
    results = {}
    for step in range(steps):
        loss.zero_grad()
        inputs = (x.detach() * (1 + step)).to(dtype).requires_grad_()
        value = loss(inputs, y)
        value.backward()
        loss.advance()
        results[f"loss {step}"] = value.detach()
        results[f"x {step}"] = inputs.grad
        for name, parameter in loss.named_parameters():
            results[f"{name} {step}"] = parameter.grad
    return results, loss.state_dict()


def assert_equal_outcomes(x, y, *, within=(1e-6, 1e-5), dtype=torch.float32, **options):
    expected, state = outcome("plain", x, y, dtype=dtype, **options)
    for mode in FUSED:
        found, other = outcome(mode, x, y, dtype=dtype, **options)
        for name, right in expected.items():
            tolerance = within[0] if name.startswith("loss") else within[1]
            error = (found[name] - right).abs().max() / right.abs().max().clamp(min=1e-9)
            assert error <= tolerance, (mode, name, float(error))
        for name, right in state.items():  # buffers that margins learn from batches
            torch.testing.assert_close(other[name], right, rtol=1e-5, atol=1e-6)


def some_batch(classes, batch, dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, dim, generator=generator, dtype=torch.float64) * 5
    return x, torch.randint(classes, (batch,), generator=generator)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("classes", "chunk"), [(3, 2), (1001, 100)])
def test_equals_plain(variant, classes, chunk):
    x, y = some_batch(classes, 33, 12)
    with chunks_of(chunk):
        assert_equal_outcomes(x, y, dim=12, classes=classes, **VARIANTS[variant])


@pytest.mark.parametrize("variant", VARIANTS)
def test_equals_plain_exactly_in_double(variant):
    x, y = some_batch(50, 16, 6)
    options = {"dim": 6, "classes": 50, "dtype": torch.float64, **VARIANTS[variant]}
    with chunks_of(7):
        assert_equal_outcomes(x, y, within=(1e-12, 1e-11), **options)


def test_targets_at_the_borders_of_chunks_and_repeated():
    classes, chunk = 40, 8
    edges = [j for first in range(0, classes, chunk) for j in (first, first + chunk - 1)]
    y = torch.tensor([*edges, 0, 0, 0, classes - 1, classes - 1])
    x, _ = some_batch(classes, len(y), 8)
    with chunks_of(chunk):
        assert_equal_outcomes(x, y, name="arcface", dim=8, classes=classes)
        assert_equal_outcomes(x, torch.full_like(y, 8), name="arcface", dim=8, classes=classes)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("scale", [64.0, 256.0])
def test_two_hundred_thousand_classes(variant, scale):
    x, y = some_batch(200_000, 24, 16)
    y[:4] = torch.tensor([0, 199_999, 100_000, 100_000])
    options = dict(VARIANTS[variant])
    if options["name"] != "adacos":
        options["scale"] = scale
    # Margins that alter negatives raise s to 500 and more, and kernels add up biases in any order.
    within = (1e-6, 1e-5 if scale <= 64 else 3e-5)
    assert_equal_outcomes(x, y, dim=16, classes=200_000, steps=1, within=within, **options)


@pytest.mark.parametrize("cosine", [-0.6, -0.95])
def test_all_cosines_far_below_zero_do_not_underflow(cosine):
    """With a fixed shift by s, exp(s·cos − s) is 0 in float32 for all classes here."""
    side = (1 - cosine**2) ** 0.5
    generator = torch.Generator().manual_seed(0)
    rest = torch.nn.functional.normalize(torch.randn(50, 7, generator=generator))
    centers = torch.cat([torch.full((50, 1), cosine), side * rest], dim=1)
    x = torch.eye(1, 8, requires_grad=True)
    for scale in (64.0, 128.0, 256.0):
        for mode in FUSED:
            loss = arcset.build_loss("normface", 8, 50, scale=scale, mode=mode)
            loss.set_centers(centers)
            value = loss(x, torch.tensor([3]))
            assert value.item() == pytest.approx(torch.tensor(50.0).log().item(), rel=1e-4)
            value.backward()
            assert x.grad.isfinite().all()


@pytest.mark.parametrize("mode", FUSED)
class TestBehaviour:
    def test_gradients_are_not_shared_between_steps(self, mode):
        loss = arcset.build_loss("arcface", 64, 8000, mode=mode)
        x, y = some_batch(8000, 16, 64)
        loss(x.float(), y).backward()
        old = loss.head.weight.grad
        kept = old.clone()
        loss.zero_grad(set_to_none=True)
        loss(3 + x.float(), y).backward()
        assert loss.head.weight.grad.data_ptr() != old.data_ptr()
        assert torch.equal(old, kept)
        assert not torch.equal(loss.head.weight.grad, old)

    def test_gradients_accumulate(self, mode):
        loss = arcset.build_loss("arcface", 8, 300, mode=mode).double()
        x, y = some_batch(300, 12, 8)
        parts = []
        for half in (slice(0, 6), slice(6, 12)):
            loss.zero_grad()
            loss(x[half], y[half]).backward()
            parts.append(loss.head.weight.grad)
        loss.zero_grad()
        for half in (slice(0, 6), slice(6, 12)):
            loss(x[half], y[half]).backward()
        torch.testing.assert_close(loss.head.weight.grad, parts[0] + parts[1])

    def test_two_graphs_at_once_and_backward_twice(self, mode):
        loss = arcset.build_loss("arcface", 64, 5000, mode=mode)
        x, y = some_batch(5000, 16, 64)
        first, second = x.float().requires_grad_(), x.flip(0).float().requires_grad_()
        a, b = loss(first, y), loss(second, y)  # both logits are kept at the same time
        a.backward(retain_graph=True)
        once = first.grad.clone()
        a.backward()
        b.backward()
        torch.testing.assert_close(first.grad, 2 * once)
        alone = x.flip(0).float().requires_grad_()
        loss(alone, y).backward()
        torch.testing.assert_close(second.grad, alone.grad)

    def test_frozen_centers_and_frozen_embeddings(self, mode):
        loss = arcset.build_loss("arcface", 8, 100, mode=mode)
        x, y = some_batch(100, 5, 8)
        loss.requires_grad_(False)
        inputs = x.float().requires_grad_()
        loss(inputs, y).backward()
        assert loss.head.weight.grad is None
        loss.requires_grad_(True)
        loss(x.float(), y).backward()
        assert loss.head.weight.grad.abs().sum() > 0
        with torch.no_grad():
            assert not loss(inputs, y).requires_grad

    @pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
    def test_autocast_keeps_sums_in_float32(self, mode, narrow):
        loss = arcset.build_loss("arcface", 8, 100, mode=mode, scale=64.0)
        x, y = some_batch(100, 5, 8)
        x = x.to(narrow).requires_grad_()
        outside = loss(x.float(), y)
        with torch.autocast("cpu", dtype=narrow):
            inside = loss(x, y)
        assert inside.dtype == torch.float32
        assert torch.equal(inside, outside)
        inside.backward()
        assert x.grad.dtype == narrow

    @pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
    def test_centers_in_half_precision(self, mode, narrow):
        loss = arcset.build_loss("arcface", 8, 100, mode=mode, scale=64.0).to(narrow)
        x, y = some_batch(100, 5, 8)
        wide = arcset.build_loss("arcface", 8, 100, mode="plain", scale=64.0)
        wide.set_centers(loss.head.weight.float())
        torch.testing.assert_close(loss(x.float(), y), wide(x.float(), y))
        loss(x.float(), y).backward()
        wide(x.float(), y).backward()
        assert loss.head.weight.grad.dtype == narrow
        error = (loss.head.weight.grad.float() - wide.head.weight.grad).abs().max()
        assert error <= torch.finfo(narrow).eps * wide.head.weight.grad.abs().max()


def extreme_rows(exponents, dtype):
    generator = torch.Generator().manual_seed(5)
    rows = torch.randn(len(exponents), 6, generator=generator, dtype=torch.float64)
    return (rows * torch.tensor([[10.0**e] for e in exponents], dtype=torch.float64)).to(dtype)


@pytest.mark.parametrize("mode", FUSED)
def test_centers_of_any_length(mode):
    """Squares of such rows under- or overflow in float32; directions are still exact."""
    rows = extreme_rows([-43, -31, -29, -20, -12, 0, 0, 12, 20, 30, 37], torch.float32)
    x, y = some_batch(11, 20, 6)
    results = []
    for kind in ("plain", mode):
        loss = arcset.build_loss("arcface", 6, 11, mode=kind, scale=16.0)
        loss.set_centers(rows)
        inputs = x.float().requires_grad_()
        with chunks_of(4):
            value = loss(inputs, y)
            value.backward()
        results.append((value, inputs.grad, loss.head.weight.grad * rows.abs().clamp(min=1e-30)))
    for found, right in zip(results[1], results[0], strict=True):
        assert found.isfinite().all()
        torch.testing.assert_close(found, right, rtol=2e-5, atol=1e-6)
