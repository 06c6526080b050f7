"""Centers updated during the backward pass, against torch's own optimizers."""

import copy
import pickle

import pytest
import torch

import arcset
from arcset import OptionError
from support.laws import chunks_of

DIM, CLASSES = 6, 23
SETTINGS = {
    "plain": {"lr": 0.3, "momentum": 0.0, "weight_decay": 0.0},
    "decay": {"lr": 0.3, "momentum": 0.0, "weight_decay": 0.1},
    "momentum": {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.01},
    "nesterov": {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
}


def batches(count=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        x = torch.randn(9, DIM, generator=generator, dtype=torch.float64).to(dtype)
        yield x, torch.randint(CLASSES, (9,), generator=generator)


def build(mode="store", dtype=torch.float64, **options):
    torch.manual_seed(1)
    loss = arcset.build_loss("arcface", DIM, CLASSES, mode=mode, scale=8.0, **options)
    return loss.to(dtype)


@pytest.mark.parametrize("mode", ["store", "recompute"])
@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("subcenters", [1, 2])
def test_sgd_equals_torch(mode, kind, subcenters):
    fused, plain = build(mode, subcenters=subcenters), build("plain", subcenters=subcenters)
    update = fused.fuse_update("sgd", **SETTINGS[kind])
    optimizer = torch.optim.SGD(plain.parameters(), **SETTINGS[kind])
    schedules = [torch.optim.lr_scheduler.StepLR(o, 2, gamma=0.5) for o in (update, optimizer)]
    for x, y in batches():
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        with chunks_of(5):
            fused(mine, y).backward()
        optimizer.zero_grad()
        plain(theirs, y).backward()
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-9, atol=1e-12)
        for each in (update, optimizer):
            each.step()
        for schedule in schedules:
            schedule.step()
        assert fused.head.weight.grad is None
        torch.testing.assert_close(fused.head.weight, plain.head.weight, rtol=1e-9, atol=1e-12)


def test_row_wise_adagrad_equals_a_slow_one():
    fused, plain = build(), build("plain")
    fused.fuse_update("adagrad", lr=0.2, weight_decay=0.1, eps=1e-8)
    squares = torch.zeros(CLASSES, dtype=torch.float64)
    for x, y in batches():
        with chunks_of(4):
            fused(x, y).backward()
        plain.zero_grad()
        plain(x, y).backward()
        with torch.no_grad():
            for j, row in enumerate(plain.head.weight):
                gradient = plain.head.weight.grad[j] + 0.1 * row
                squares[j] += (gradient**2).sum() / DIM
                row -= 0.2 * gradient / (squares[j].sqrt() + 1e-8)
        torch.testing.assert_close(fused.head.weight, plain.head.weight, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(fused.head.squares, squares)


@pytest.mark.parametrize("kind", ["sgd", "adagrad"])
def test_state_is_saved_with_the_loss(kind):
    straight, halted = build(), build()
    straight.fuse_update(kind)
    halted.fuse_update(kind)
    steps = list(batches())
    for x, y in steps:
        straight(x, y).backward()
    for x, y in steps[:3]:
        halted(x, y).backward()
    torch.manual_seed(9)
    resumed = arcset.build_loss("arcface", DIM, CLASSES, mode="store", scale=8.0, update=kind)
    resumed = resumed.double()
    resumed.load_state_dict(halted.state_dict())
    for x, y in steps[3:]:
        resumed(x, y).backward()
    assert torch.equal(resumed.head.weight, straight.head.weight)
    for name, value in straight.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name


def test_gradient_scaler():
    fused, plain = build(), build()
    for loss in (fused, plain):
        loss.fuse_update("sgd", **SETTINGS["momentum"])
    fused.update.grad_scale = 1024.0
    for x, y in batches():
        (fused(x, y) * 1024.0).backward()
        plain(x, y).backward()
    torch.testing.assert_close(fused.head.weight, plain.head.weight)


def test_infinite_gradients_leave_the_centers_alone():
    loss = build()
    loss.fuse_update("sgd", lr=0.1)
    before = copy.deepcopy(loss.state_dict())
    x, y = next(batches())
    (loss(x, y) * float("inf")).backward()
    for name, value in loss.state_dict().items():
        assert torch.equal(value, before[name])


def test_backward_twice_is_refused_after_an_update():
    loss = build()
    loss.fuse_update("sgd", lr=0.1)
    x, y = next(batches())
    value = loss(x.requires_grad_(), y)
    value.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("adam", {}, "update.*'adam'"),
        ("sgd", {"momentum": 1.0}, r"momentum.*1.0"),
        ("sgd", {"momentum": 0.0, "nesterov": True}, "nesterov"),
        ("sgd", {"betas": 1.0}, "sgd.*betas"),
    ],
)
def test_refused(kind, options, message):
    with pytest.raises(OptionError, match=message):
        build().fuse_update(kind, **options)


def test_losses_without_own_centers_refuse():
    with pytest.raises(OptionError, match="triplet"):
        arcset.build_loss("triplet", DIM, CLASSES).fuse_update("sgd")
    with pytest.raises(OptionError, match="inter"):
        arcset.build_loss("inter", DIM, CLASSES).fuse_update("sgd")
    on_arcface = arcset.build_loss("center", DIM, CLASSES, base="arcface", update="sgd")
    assert on_arcface.update is on_arcface.base.update


@pytest.mark.parametrize("kind", ["sgd", "adagrad"])
def test_copies_and_pickles_update_their_own_centers(kind):
    loss = build()
    loss.fuse_update(kind)
    x, y = next(batches())
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        before = loss.head.weight.detach().clone()
        other(x, y).backward()
        assert torch.equal(loss.head.weight, before)
        assert not torch.equal(other.head.weight, before)


def test_only_training_updates():
    loss = build()
    loss.fuse_update("sgd", lr=0.1)
    before = loss.head.weight.detach().clone()
    x, y = next(batches())
    x.requires_grad_()
    torch.autograd.grad(loss(x, y), x)  # a saliency map, say: nothing is trained by it
    assert torch.equal(loss.head.weight, before)
    loss.eval()
    loss(x, y).backward()
    assert torch.equal(loss.head.weight, before)
    assert loss.head.weight.grad is not None


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_half_precision_centers(narrow):
    loss, wide = build(dtype=narrow), build(dtype=torch.float32)
    wide.set_centers(loss.head.weight.float())
    for each in (loss, wide):
        each.fuse_update("sgd", lr=0.1, momentum=0.9)
    x, y = next(batches(dtype=torch.float32))
    loss(x, y).backward()
    wide(x, y).backward()
    assert loss.head.weight.dtype == narrow
    expected = wide.head.weight.to(narrow).float()
    torch.testing.assert_close(loss.head.weight.float(), expected, rtol=0.01, atol=0.01)


def test_very_short_and_very_long_centers():
    fused, plain = build(dtype=torch.float32), build("plain", dtype=torch.float32)
    rows = torch.randn(CLASSES, DIM) * 10.0 ** torch.randint(-25, 25, (CLASSES, 1))
    for loss in (fused, plain):
        loss.set_centers(rows)
    fused.fuse_update("sgd", lr=1.0, momentum=0.0, weight_decay=0.5)
    optimizer = torch.optim.SGD(plain.parameters(), lr=1.0, weight_decay=0.5)
    x, y = next(batches(dtype=torch.float32))
    fused(x, y).backward()
    plain(x, y).backward()
    optimizer.step()
    size = plain.head.weight.abs().amax(dim=1, keepdim=True)
    torch.testing.assert_close(
        fused.head.weight / size, plain.head.weight / size, rtol=1e-4, atol=1e-5
    )
