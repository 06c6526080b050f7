"""Options of every margin softmax: smoothing, ignored labels, gradients, sub-centers, modes."""

import copy
import math

import pytest
import torch
from torch.nn import functional as F

import arcset
from arcset import InputError, OptionError
from arcset.centers import choose_mode, fused
from support.laws import batch, builder, value_and_gradients

MODES = ("plain", "store", "recompute")


def build(mode, **options):
    torch.manual_seed(0)
    defaults = {"scale": 8.0, "margin": 0.3}
    return arcset.build_loss("arcface", 6, 9, mode=mode, **{**defaults, **options}).double()


def a_batch(size=7):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(size, 6, generator=generator, dtype=torch.float64)
    return x, torch.randint(9, (size,), generator=generator)


@pytest.mark.parametrize("mode", MODES)
class TestOptions:
    def test_label_smoothing_is_torchs(self, mode):
        loss = build(mode, label_smoothing=0.2)
        x, y = a_batch()
        expected = F.cross_entropy(loss.logits(x, y), y, label_smoothing=0.2)
        torch.testing.assert_close(loss(x, y), expected)

    def test_ignored_labels(self, mode):
        loss, plain = build(mode, ignore_index=-100), build("plain")
        x, y = a_batch()
        some = y.clone()
        some[2] = some[5] = -100
        counts = some != -100
        inputs = x.clone().requires_grad_()
        value = loss(inputs, some)
        torch.testing.assert_close(value, plain(x[counts], y[counts]))
        value.backward()
        assert (inputs.grad[~counts] == 0).all()
        assert (inputs.grad[counts] != 0).any()
        seen = loss.logits(x, some)
        torch.testing.assert_close(seen[counts], plain.logits(x, y)[counts])
        torch.testing.assert_close(seen[~counts], plain.logits(x)[~counts])

    def test_other_labels_outside_are_still_refused(self, mode):
        with pytest.raises(arcset.InputError, match=r"label -2 .*position 0"):
            build(mode, ignore_index=-1)(torch.randn(1, 6), torch.tensor([-2]))

    def test_straight_through_is_the_gradient_of_a_margin_outside_of_autograd(self, mode):
        loss = build(mode, gradient="straight_through")
        x, y = a_batch()
        x.requires_grad_()
        value = loss(x, y)
        value.backward()
        gradients = x.grad.clone(), loss.head.weight.grad.clone()

        x.grad = loss.head.weight.grad = None
        logits = F.normalize(x) @ F.normalize(loss.head.weight).T
        with torch.no_grad():  # in place, as the published code does it
            rows = torch.arange(len(y))
            moved = torch.cos(torch.acos(logits[rows, y]) + 0.3)
            logits[rows, y] = moved
        expected = F.cross_entropy(8.0 * logits, y)
        expected.backward()
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradients, (x.grad, loss.head.weight.grad))


def test_auto_takes_each_mode_where_it_suits(monkeypatch):
    cpu = torch.device("cpu")
    assert choose_mode("auto", 8, 10, torch.float32, cpu) == "plain"
    assert choose_mode("auto", 128, 100_000, torch.float32, cpu) == "store"
    monkeypatch.setattr(fused, "free_memory", lambda device: 2**30)
    assert choose_mode("auto", 128, 1_000_000, torch.float32, cpu) == "store"  # 512 of 1024 MB
    assert choose_mode("auto", 128, 1_100_000, torch.float32, cpu) == "recompute"
    assert choose_mode("auto", 128, 1_100_000, torch.float32, cpu, 2**28) == "store"
    assert choose_mode("plain", 10**6, 10**6, torch.float32, cpu) == "plain"


@pytest.mark.parametrize("mode", ["store", "recompute"])
def test_a_nearly_right_sample_keeps_its_small_loss(mode):
    """softplus(−43) is 2e-19; 1 − (1 − 2e-19) would be 0 in float32."""
    loss = arcset.build_loss("normface", 2, 2, scale=21.5, mode=mode)
    loss.set_centers(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    value = loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    assert value.item() == pytest.approx(math.exp(-43), rel=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_subcenters_each_get_their_own_samples(mode):
    loss = arcset.build_loss("normface", 2, 2, subcenters=2, scale=4.0, mode=mode).double()
    with torch.no_grad():
        loss.head.weight.copy_(torch.tensor([[1.0, 0.1], [-1.0, 0.1], [0.1, 1.0], [0.1, -1.0]]))
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [-2.0, 0.1]], dtype=torch.float64)
    loss(x, torch.tensor([0, 0, 0])).backward()
    assert loss.head.usage.tolist() == [[1, 2], [0, 0]]
    assert (loss.head.weight.grad[:2].abs().sum(dim=1) > 0).all()
    torch.testing.assert_close(loss.centers[0], F.normalize(loss.head.weight[1:2])[0].detach())
    loss.eval()
    loss(x, torch.tensor([0, 0, 0]))
    assert loss.head.usage.sum() == 3, "counts are of training only"


# What every sample costs and how much it counts, beyond the law that the loss is their mean.


def test_drawn_classes_are_the_same_for_weights_and_for_repeated_samples():
    loss = builder("arcface", sample=0.4)(classes=40).double().train()
    embeddings, labels = batch(classes=40)
    repeats = torch.tensor([1, 3, 2, 1, 1, 4, 2])
    repeated = embeddings.repeat_interleave(repeats, 0), labels.repeat_interleave(repeats)
    value, (_, centers) = value_and_gradients(loss, embeddings, labels, weights=repeats)
    expected, (_, slopes) = value_and_gradients(loss, *repeated)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(centers, slopes)


@pytest.mark.parametrize("kind", ["sgd", "adagrad"])
def test_a_fused_update_is_that_of_the_mean(kind):
    first = builder("cosface", mode="recompute", update=kind)().double()
    second = copy.deepcopy(first)
    embeddings, labels = batch()
    x, y = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
    first(x, labels).backward()
    second(y, labels, reduction="none").mean().backward()
    torch.testing.assert_close(first.centers, second.centers)
    assert not torch.equal(first.centers, builder("cosface")().double().centers)
    torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("name", ["arcface", "intra"])
def test_samples_of_the_ignored_label_cost_nothing(name):
    loss = builder(name, ignore_index=-1, **({"base": "arcface"} if name == "intra" else {}))()
    embeddings, labels = batch()
    labels[[1, 4]] = -1
    each = loss(embeddings, labels, reduction="none")
    assert each.shape == labels.shape
    assert ((each == 0) == (labels == -1)).all()
    torch.testing.assert_close(each.sum() / 5, loss(embeddings, labels))
    weights = torch.rand(7)
    mean = (weights * each).sum() / weights[labels >= 0].sum()
    torch.testing.assert_close(loss(embeddings, labels, weights=weights), mean)
    nobody = loss(embeddings.requires_grad_(), torch.full_like(labels, -1), reduction="none")
    assert nobody.tolist() == [0] * 7
    nobody.sum().backward()
    assert embeddings.grad.count_nonzero() == 0


@pytest.mark.parametrize("name", ["arcface", "softmax", "center", "triplet"])
def test_weights_that_are_all_zero_give_zero(name):
    embeddings, labels = batch()
    value = builder(name)()(embeddings.requires_grad_(), labels, weights=torch.zeros(7))
    value.backward()
    assert value == 0
    assert embeddings.grad.count_nonzero() == 0


def test_triplet_is_the_mean_over_anchors_that_have_both():
    loss = arcset.build_loss("triplet", 4, 5)
    embeddings, _ = batch()
    labels = torch.tensor([0, 0, 1, 1, 2, 3, 3])  # the fifth has no other of its class
    each = loss(embeddings, labels, reduction="none")
    assert each[4] == 0
    torch.testing.assert_close(each.sum() / 6, loss(embeddings, labels))
    weights = torch.rand(7, dtype=torch.float64)
    expected = (weights * each).sum() / (weights.sum() - weights[4])
    torch.testing.assert_close(loss(embeddings, labels, weights=weights), expected)


@pytest.mark.parametrize(
    ("weights", "quoted"),
    [
        ([1.0] * 7, "list"),
        (torch.ones(7, 1), r"\(7, 1\)"),
        (torch.tensor([1, 1, -2.0, 1, 1, 1, 1]), "-2 .* position 2"),
        (torch.tensor([1, 1, 1, torch.inf, 1, 1, 1]), "inf .* position 3"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["arcface", "softmax", "center", "triplet"])
def test_weights_that_cannot_be_meant_are_refused(name, weights, quoted):
    with pytest.raises(InputError, match=quoted):
        builder(name)()(*batch(), weights=weights)


@pytest.mark.parametrize("name", ["arcface", "softmax", "center", "triplet"])
def test_another_reduction_is_refused(name):
    with pytest.raises(OptionError, match="sum"):
        builder(name)()(*batch(), reduction="sum")
