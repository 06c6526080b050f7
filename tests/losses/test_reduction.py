"""What every sample costs and how much it counts, beyond the law that the loss is their mean."""

import copy

import pytest
import torch

import arcset
from arcset import InputError, OptionError
from support.laws import batch, builder, value_and_gradients


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
        (torch.ones(6), r"\(6,\)"),
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
