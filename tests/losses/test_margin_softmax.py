"""Options of every margin softmax: smoothing, ignored labels, gradients, sub-centers, modes."""

import math

import pytest
import torch
from torch.nn import functional as F

import arcset
from arcset.centers import choose_mode, fused

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
