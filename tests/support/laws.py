"""The common laws as checks: each takes a way to build the loss, and raises if the law is broken.

`check_all(build)` runs every law that the built loss declares. `build(**options)` returns a fresh
loss for 5 classes in 4 dimensions unless told otherwise.
"""

import copy
import io
import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager

import pytest
import torch
from safetensors.torch import load, save

import arcset
from arcset.centers import fused
from arcset.losses import Loss
from arcset.margins.base import Law
from support.references import reference

DIM, CLASSES = 4, 5
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
LENGTHS = (1e-6, 6e4, 1e-38, 1e-44)  # of embeddings, beside 1 and 0

Build = Callable[..., Loss]


def builder(name: str, **fixed: object) -> Build:
    """A way to build the loss called `name` with some options fixed."""

    def build(*, dim: int = DIM, classes: int = CLASSES, seed: int = 0, **options: object) -> Loss:
        torch.default_generator.manual_seed(seed)  # quicker than for all devices, and often done
        return arcset.build_loss(name, dim, classes, **{"mode": "plain", **fixed, **options})

    return build


def scale_of(loss: Loss) -> float:
    """s of a loss, or of the one that it is built on; 1 where there is none."""
    return getattr(getattr(loss, "base", loss), "scale", 1.0)


@contextmanager
def chunks_of(classes: int):
    """The fused softmax walks over so many classes at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "classes_per_chunk", lambda *_: classes)
        yield


def batch(size: int = 7, dim: int = DIM, classes: int = CLASSES, seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(size, dim, generator=generator, dtype=torch.float64)
    return embeddings, torch.randint(classes, (size,), generator=generator)


def at_angles(theta: torch.Tensor, length: float = 1.0) -> torch.Tensor:
    """2-D embeddings at these angles from the first axis."""
    return length * torch.stack([theta.cos(), theta.sin()], dim=1)


def target_logits(loss: Loss, theta: torch.Tensor) -> torch.Tensor:
    """The margined target logit at each angle from center 0, which lies on the first axis."""
    loss = loss.to(theta.dtype).eval()
    loss.set_centers(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=theta.dtype))
    labels = torch.zeros(len(theta), dtype=torch.int64)
    return loss.logits(at_angles(theta), labels)[:, 0].detach()


def check_gradient(build: Build) -> None:
    loss = build().double().eval()  # what a margin learns from batches stands still
    embeddings, labels = batch()
    parameters = [parameter.detach().clone() for parameter in loss.parameters()]
    names = [name for name, _ in loss.named_parameters()]

    def value(x, *values):
        return torch.func.functional_call(loss, dict(zip(names, values, strict=True)), (x, labels))

    inputs = [embeddings, *parameters]
    for tensor in inputs:
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(value, tuple(inputs))


def check_finite(build: Build) -> None:
    for dtype in DTYPES:
        for embeddings, value, gradients in at_corners(build(), dtype):
            assert value.isfinite(), (dtype, embeddings, value)
            for gradient in gradients:
                assert gradient is None or gradient.isfinite().all(), (dtype, embeddings)
            assert gradients[0].shape == embeddings.shape


def check_equals_plain(build: Build, modes: Sequence[str]) -> None:
    """The law of every mode but the plain one: the same value and gradients at every corner."""
    for dtype in DTYPES:
        step = torch.finfo(dtype).eps
        results = [at_corners(build(mode=mode), dtype, (1e-38,)) for mode in ("plain", *modes)]
        for (embeddings, value, slopes), *others in zip(*results, strict=True):
            exact = max(1e-12, 4 * torch.finfo(value.dtype).eps)
            bounds = [32 * step * slope.abs().max().item() + step for slope in slopes]
            for mode, (_, found, gradients) in zip(modes, others, strict=True):
                about = (mode, dtype, embeddings)
                assert math.isclose(found, value, rel_tol=exact, abs_tol=exact), about
                for slope, other, bound in zip(slopes, gradients, bounds, strict=True):
                    assert (other - slope).abs().max().item() <= bound, about


def at_corners(loss: Loss, dtype: torch.dtype, lengths: Sequence[float] = LENGTHS):
    """Embeddings, loss and the gradients of embeddings and parameters, for each of the corners."""
    cases = list(corners(loss, lengths))
    loss = loss.to(dtype)
    if loss.centers is not None:
        loss.set_centers(corner_centers().to(dtype))
    state = copy.deepcopy(loss.state_dict())
    for embeddings, labels in cases:
        loss.load_state_dict(state)  # a fresh one each time would take longer than its loss
        loss.zero_grad(set_to_none=True)
        torch.default_generator.manual_seed(0)  # for margins that draw
        x = embeddings.to(dtype).requires_grad_()
        value = loss(x, labels)
        value.backward()
        yield x.detach(), value.detach(), [x.grad, *(one.grad for one in loss.parameters())]


def corner_centers() -> torch.Tensor:
    """Centers on the axes, one on none of them, and one that is zero."""
    centers = torch.zeros(CLASSES, DIM)
    centers[0, 0] = centers[1, 1] = 1.0
    centers[2, 0] = -1.0
    centers[3] = torch.tensor([0.3, -0.2, 0.9, 0.1])
    return centers


def corners(loss: Loss, lengths: Sequence[float] = LENGTHS):
    """Batches at the places where textbook formulas break; `lengths` of embeddings beside 1."""
    settings = loss.settings()
    margin = settings.get("margin", settings.get("m2", 0.5))
    junction = math.pi - margin % math.pi
    own = torch.tensor([1.0, 0, 0, 0])
    turned = torch.tensor([math.cos(junction), math.sin(junction), 0, 0])
    same = torch.zeros(1, dtype=torch.int64)
    for sample in (own, -own, turned, 0 * own, *(length * own for length in lengths)):
        yield sample[None], same  # one sample
        yield sample.repeat(3, 1), same.repeat(3)  # one class, all equal
        yield torch.stack([sample, own, -own, 0 * own]), torch.tensor([0, 1, 2, 4])
        yield torch.stack([sample, sample, sample]), torch.tensor([0, 1, 1])  # equal, two classes
    embeddings, labels = batch()
    yield embeddings, labels
    yield embeddings, torch.full_like(labels, 2)
    yield torch.zeros(3, DIM), torch.tensor([0, 0, 1])


def check_reference(build: Build) -> None:
    for seed in range(5):
        loss = build(seed=seed).double().eval()
        for parameter in loss.parameters():  # zero biases and means would prove little
            parameter.data += torch.randn_like(parameter) * 0.1
        embeddings, labels = batch(size=1 + 4 * seed, seed=seed)
        slow = reference(loss, embeddings, labels)
        assert math.isclose(loss(embeddings, labels).item(), slow, rel_tol=1e-10, abs_tol=1e-12)


def check_mean(build: Build) -> None:
    loss = build().double().eval()  # what a margin learns from batches stands still
    embeddings, labels = batch()
    repeats = torch.tensor([1, 3, 2, 1, 1, 0, 2])
    repeated = embeddings.repeat_interleave(repeats, 0), labels.repeat_interleave(repeats)
    weights = repeats.double()
    ones = torch.ones(len(labels))
    expected, slopes = value_and_gradients(loss, embeddings, labels)
    for value, gradients in (
        value_and_gradients(loss, embeddings, labels, weights=ones),
        value_and_gradients(loss, embeddings, labels, reduction="none"),
        value_and_gradients(loss, embeddings, labels, weights=ones, reduction="none"),
    ):
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradients, slopes)
    expected, (_, *slopes) = value_and_gradients(loss, *repeated)
    value, (_, *gradients) = value_and_gradients(loss, embeddings, labels, weights=weights)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradients, slopes)
    each = loss(embeddings, labels, reduction="none")
    weighted = loss(embeddings, labels, weights=weights, reduction="none")
    torch.testing.assert_close(weighted, weights * each)


def value_and_gradients(loss: Loss, embeddings, labels, **options):
    """The mean loss, and the gradients of embeddings and parameters; zeros where there is none."""
    loss.zero_grad(set_to_none=True)
    torch.default_generator.manual_seed(0)  # for classes and margins that are drawn
    x = embeddings.clone().requires_grad_()
    value = loss(x, labels, **options).mean()
    value.backward()
    tensors = [x, *loss.parameters()]
    return value.detach(), [
        torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in tensors
    ]


def check_round_trip(build: Build) -> None:
    loss, other = build(seed=0), build(seed=1)
    embeddings, labels = batch()
    loss, other = loss.double().eval(), other.double().eval()
    for parameter in loss.parameters():
        parameter.data += torch.randn_like(parameter)
    loss.advance(3)
    stored = io.BytesIO(save(loss.state_dict())).getvalue()
    other.load_state_dict(load(stored))
    assert torch.equal(other(embeddings, labels), loss(embeddings, labels))
    if loss.centers is not None:
        assert torch.equal(other.centers, loss.centers)
        full = torch.randn(CLASSES, DIM, dtype=torch.float64)
        other.set_centers(full)
        expected = torch.nn.functional.normalize(full) if loss.normalized else full
        torch.testing.assert_close(other.centers, expected)


def check_plain_logits(build: Build) -> None:
    loss = build().double()
    embeddings, _ = batch()
    scores = loss.logits(embeddings)
    assert scores.shape == (len(embeddings), CLASSES)
    rows = torch.nn.functional.normalize(embeddings) if loss.normalized else embeddings
    expected = scale_of(loss) * rows @ loss.centers.T
    if getattr(loss, "subcenters", 1) > 1:
        every = loss.scale * rows @ loss.head.directions().T  # a class is as near as its nearest
        expected = every.view(len(rows), CLASSES, loss.subcenters).amax(dim=2)
    torch.testing.assert_close(scores, expected.to(scores.dtype))


def check_target_only(build: Build) -> None:
    loss = build().double()
    embeddings, labels = batch()
    plain, margined = loss.logits(embeddings), loss.logits(embeddings, labels)
    target = torch.nn.functional.one_hot(labels, CLASSES).bool()
    assert torch.equal(plain[~target], margined[~target])
    if Law.MONOTONE in loss.laws:  # a margin makes the task harder, never easier
        assert (margined[target] <= plain[target] + 1e-9).all()


def check_monotone(build: Build) -> None:
    for dtype, slack in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        theta = torch.linspace(0, math.pi, 20_001, dtype=torch.float64)
        loss = build(dim=2, classes=3)
        scale = scale_of(loss)
        logits = target_logits(loss, theta.to(dtype)).double() / scale
        assert (logits.diff() <= slack).all(), f"rises at θ = {theta[logits.diff().argmax()]}"
        coarse = logits[::100]
        assert (coarse.diff() < 0).all(), "does not fall"


def check_continuous(build: Build) -> None:
    """Ten times finer steps make ten times smaller changes, everywhere, including both ends."""
    loss = build(dim=2, classes=3)
    changes = []
    for steps in (10_000, 100_000):
        theta = torch.linspace(0, math.pi, steps + 1, dtype=torch.float64)
        changes.append(target_logits(loss, theta).diff().abs().max() / scale_of(loss))
    assert changes[1] < 0.2 * changes[0], f"a jump of about {float(changes[1]):.4f}"


def check_neutral(build: Build) -> None:
    loss = build()
    neutral = build(scale=loss.scale, **loss.margin.neutral)
    normface = arcset.build_loss("normface", DIM, CLASSES, scale=loss.scale)
    neutral, normface = neutral.double().eval(), normface.double().eval()
    normface.set_centers(neutral.centers)
    embeddings, labels = batch(size=64)
    embeddings[0] = 3 * neutral.centers[labels[0]]
    embeddings[1] = -3 * neutral.centers[labels[1]]
    torch.testing.assert_close(
        neutral(embeddings, labels), normface(embeddings, labels), rtol=1e-6, atol=1e-6
    )
    torch.testing.assert_close(
        neutral.logits(embeddings, labels), normface.logits(embeddings), rtol=1e-6, atol=1e-6
    )


def check_scale_free(build: Build) -> None:
    loss = build().double().eval()
    embeddings, labels = batch()
    value = loss(embeddings, labels)
    for factor in (1e-200, 1e-3, 7.0, 1e200):
        torch.testing.assert_close(loss(embeddings * factor, labels), value)


CHECKS = {
    Law.GRADIENT: check_gradient,
    Law.FINITE: check_finite,
    Law.REFERENCE: check_reference,
    Law.MEAN: check_mean,
    Law.ROUND_TRIP: check_round_trip,
    Law.PLAIN_LOGITS: check_plain_logits,
    Law.TARGET_ONLY: check_target_only,
    Law.MONOTONE: check_monotone,
    Law.CONTINUOUS: check_continuous,
    Law.NEUTRAL: check_neutral,
    Law.SCALE_FREE: check_scale_free,
}


def check_all(build: Build) -> None:
    """Every law that the loss declares."""
    for law in build().laws:
        CHECKS[law](build)
