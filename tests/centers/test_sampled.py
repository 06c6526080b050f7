"""Some of the classes drawn in each step: which, and that the softmax over them is right."""

import copy
import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import arcset
from arcset.centers import plain_losses, sample_classes
from arcset.margins import MARGINS
from support.laws import chunks_of
from support.variants import FUSED, VARIANTS

DIM, CLASSES = 6, 60


@given(
    st.integers(1, 400),
    st.floats(1e-3, 0.999),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=30),
    st.integers(0, 2**31),
)
def test_each_class_once_and_those_of_the_batch_always(classes, rate, numbers, seed):
    torch.manual_seed(seed)
    labels = torch.tensor(numbers) % classes
    found = sample_classes(labels, classes, rate)
    assert found.classes[found.labels].equal(labels)
    assert len(found.classes.unique()) == len(found)
    assert found.classes.min() >= 0
    assert found.classes.max() < classes
    assert found.weights is None
    torch.manual_seed(seed)
    weighted = sample_classes(labels, classes, rate, weighted=True)
    assert weighted.classes.equal(found.classes)
    own = torch.isin(weighted.classes, labels)
    assert (weighted.weights[own] == 1).all()
    assert (weighted.weights[~own] == 1 / rate).all()


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_every_class_is_drawn_equally_often_and_by_itself(rate):
    torch.manual_seed(0)
    classes, draws = 50, 2_000
    own = torch.tensor([3])
    counts, pairs = torch.zeros(classes), 0
    for _ in range(draws):
        found = sample_classes(own, classes, rate).classes
        counts[found] += 1
        pairs += int((found == 10).any() and (found == 11).any())
    assert counts[3] == draws
    others = counts[torch.arange(classes) != 3]
    spread = math.sqrt(draws * rate * (1 - rate))
    assert ((others - draws * rate).abs() < 5 * spread).all()
    square = rate**2
    assert abs(pairs - draws * square) < 5 * math.sqrt(draws * square * (1 - square))


def test_millions_take_no_more_than_those_drawn():
    torch.manual_seed(0)
    found = sample_classes(torch.tensor([0, 99_999_999]), 100_000_000, 1e-4)
    assert 9_000 < len(found) < 11_000
    assert found.classes.max() == 99_999_999


@pytest.mark.parametrize("mode", ["plain", *FUSED])
def test_where_no_wrong_class_was_drawn_nothing_is_learned_from_them(mode):
    loss = arcset.build_loss("adacos", DIM, CLASSES, sample=1e-9, mode=mode)
    before = loss.scale
    value = loss(torch.randn(3, DIM), torch.tensor([5, 5, 5]))
    assert value == 0
    assert loss.scale == before > 1


def batch(seed=0, size=20, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, DIM, generator=generator, dtype=torch.float64) * 3
    return x.to(dtype), torch.randint(CLASSES, (size,), generator=generator)


def outcome(mode, *, sample=0.3, steps=2, **options):
    """Losses, gradients and state after some steps that draw the same classes in every mode."""
    torch.manual_seed(3)
    loss = arcset.build_loss(dim=DIM, classes=CLASSES, mode=mode, sample=sample, **options).double()
    for parameter in loss.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, dtype=torch.float64)
    found = {}
    for step in range(steps):
        x, y = batch(step)
        x.requires_grad_()
        loss.zero_grad()
        value = loss(x, y)
        value.backward()
        loss.advance()
        found |= {f"loss {step}": value.detach(), f"x {step}": x.grad}
        found |= {f"{name} {step}": one.grad for name, one in loss.named_parameters()}
    return found | loss.state_dict()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mode", FUSED)
def test_fused_equals_plain(variant, mode):
    right = outcome("plain", **VARIANTS[variant])
    with chunks_of(7):
        found = outcome(mode, **VARIANTS[variant])
    for name, value in right.items():
        torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-12, msg=name)


def test_the_sum_over_classes_is_right_on_average():
    """exp(loss) − 1 is the sum of exp over the negatives, over that of the target."""
    x, y = batch()
    loss = arcset.build_loss("arcface", DIM, CLASSES, scale=4.0, margin=0.2).double()
    query = loss._batch(x, y)
    right = plain_losses(loss.head, query).exp() - 1  # (B,)
    torch.manual_seed(0)
    found = torch.stack(
        [
            plain_losses(loss.head, query, sample_classes(y, CLASSES, 0.2, weighted=True)).exp() - 1
            for _ in range(600)
        ]
    ).detach()  # (draws, B)
    error = found.std(dim=0) / len(found) ** 0.5
    assert ((found.mean(dim=0) - right).abs() < 5 * error).all()
    assert (error < 0.1 * right).all()


@pytest.mark.parametrize("name", MARGINS.names())
def test_it_is_the_loss_of_the_classes_drawn(name):
    """As if there were no others: the same margin on a head that holds just these."""
    x, y = batch()
    options = {"mode": "store", "sample": 0.4, "unbiased": False}
    some = arcset.build_loss(name, DIM, CLASSES, **options).double()
    torch.manual_seed(9)
    drawn = sample_classes(y, CLASSES, 0.4)
    alone = copy.deepcopy(some)
    alone.sample, alone.classes = 1.0, len(drawn)
    alone.head.classes = len(drawn)
    alone.head.weight.data = some.head.weight.data[drawn.classes]
    if name == "classwise":
        alone.margin.margins = some.margin.margins[drawn.classes]
    torch.manual_seed(9)
    value = some(x, y)
    torch.manual_seed(9)
    sample_classes(y, CLASSES, 0.4)  # so that margins that draw, too, go on from the same state
    torch.testing.assert_close(value, alone(x, drawn.labels), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"subcenters": 2}])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("sgd", {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.01}),
        ("sgd", {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
        ("sgd", {"lr": 0.3, "momentum": 0.0, "weight_decay": 0.0}),
        ("adagrad", {"lr": 0.3}),
    ],
)
def test_an_update_moves_what_was_drawn_and_nothing_else(kind, settings, options):
    """Against a loss of all rows whose autograd gradient is handed to the same formula, by row."""
    torch.manual_seed(1)
    fused = arcset.build_loss("arcface", DIM, CLASSES, scale=8.0, sample=0.2, **options).double()
    plain = copy.deepcopy(fused)
    plain.mode = "plain"
    fused.fuse_update(kind, **settings)
    state = (
        torch.zeros_like(plain.head.weight)
        if kind == "sgd"
        else torch.zeros(len(plain.head.weight))
    )
    state = state.double()
    for step in range(5):
        x, y = batch(step)
        torch.manual_seed(step)
        touched = sample_classes(y, CLASSES, 0.2, weighted=True)
        weights = touched.weights.repeat_interleave(fused.subcenters)[:, None]
        rows = touched.rows(0, len(touched), fused.subcenters)
        before = copy.deepcopy(fused.head.state_dict())
        torch.manual_seed(step)
        with chunks_of(5):
            fused(x, y).backward()
        torch.manual_seed(step)
        plain.zero_grad()
        plain(x, y).backward()
        weight, gradient = plain.head.weight.data, plain.head.weight.grad
        others = torch.ones(len(weight), dtype=torch.bool).index_fill(0, rows, False)
        assert not gradient[others].any()
        if kind == "sgd":
            g = gradient[rows] + settings["weight_decay"] * weights * weight[rows]
            state[rows] = settings["momentum"] * state[rows] + g
            go = g + settings["momentum"] * state[rows] if settings.get("nesterov") else state[rows]
            weight[rows] -= settings["lr"] * go
        else:
            g = gradient[rows]
            state[rows] += g.square().mean(dim=1)
            weight[rows] -= settings["lr"] * g / (state[rows].sqrt() + 1e-10)[:, None]
        torch.testing.assert_close(fused.head.weight.data, weight, rtol=1e-9, atol=1e-12)
        for name, value in before.items():
            if value.shape[:1] == weight.shape[:1]:
                assert fused.head.state_dict()[name][others].equal(value[others]), name


def test_centers_decay_on_average_as_if_all_took_part():
    torch.manual_seed(0)
    loss = arcset.build_loss("arcface", DIM, 500, sample=0.25).double()
    loss.fuse_update("sgd", lr=0.1, momentum=0.0, weight_decay=0.01)
    x = torch.zeros(2, DIM, dtype=torch.float64, requires_grad=True)  # no direction: no gradient
    for _ in range(100):
        loss(x, torch.tensor([0, 1])).backward()
    lengths = loss.head.weight.detach().norm(dim=1).log()
    assert lengths[:2] == pytest.approx(100 * math.log1p(-0.001), rel=1e-5)
    others = lengths[2:]
    error = others.std() / math.sqrt(len(others))
    assert abs(others.mean() - 100 * math.log1p(-0.001)) < 5 * error + 1e-3


def test_evaluation_takes_all_classes():
    x, y = batch()
    options = {"sample": 0.1, "unbiased": False}
    some = arcset.build_loss("arcface", DIM, CLASSES, **options).double().eval()
    whole = copy.deepcopy(some)
    whole.sample = 1.0
    assert some(x, y) == whole(x, y)
    assert some.logits(x).shape == (len(x), CLASSES)
    assert some.train()(x, y) < whole.train()(x, y)  # fewer rivals
