import math
import statistics

import pytest
import torch

import arcset
from arcset.margins.adacos import AdaCos


def bound(classes, **options) -> AdaCos:
    margin = AdaCos(**options).double()
    margin.bind(classes)
    return margin


def naive(cosines, labels, scale):
    """B and the median with plain loops, as the paper's equations 13 to 15 say."""
    total, angles = 0.0, []
    for row, label in zip(cosines.tolist(), labels.tolist(), strict=True):
        total += sum(math.exp(scale * c) for j, c in enumerate(row) if j != label)
        angles.append(math.acos(row[label]))
    median = statistics.median_low(angles)
    return math.log(total / len(angles)) / math.cos(min(math.pi / 4, median))


def feed(margin, cosines, labels):
    scale = margin.scale.item()
    target = cosines.gather(1, labels[:, None]).squeeze(1)
    others = (scale * cosines).scatter(1, labels[:, None], -torch.inf).logsumexp(dim=1)
    margin.observe_softmax(target, others, scale)


def batch(size, classes, low, seed):
    generator = torch.Generator().manual_seed(seed)
    cosines = torch.empty(size, classes, dtype=torch.float64).uniform_(-0.3, 0.3)
    cosines.uniform_(-0.3, 0.3, generator=generator)
    labels = torch.randint(classes, (size,), generator=generator)
    own = torch.empty(size, 1, dtype=torch.float64).uniform_(low, 0.99, generator=generator)
    return cosines.scatter(1, labels[:, None], own), labels


def test_the_first_scale():
    assert bound(1000).scale.item() == pytest.approx(math.sqrt(2) * math.log(999))
    for few in (1, 3):
        assert bound(few).scale.item() == 1.0


@pytest.mark.parametrize("size", [1, 8, 33])
@pytest.mark.parametrize("low", [-0.9, 0.3, 0.9])
def test_the_scale_follows_the_paper(size, low):
    """Over several steps, the median below and above π/4."""
    margin = bound(200)
    for step in range(6):
        cosines, labels = batch(size, 200, low, seed=step)
        expected = naive(cosines, labels, margin.scale.item())
        feed(margin, cosines, labels)
        assert 1 < expected < 1000
        assert margin.scale.item() == pytest.approx(expected, rel=1e-12)


def test_fixed():
    margin = bound(100, dynamic=False)
    feed(margin, *batch(16, 100, 0.5, seed=0))
    assert margin.scale.item() == pytest.approx(math.sqrt(2) * math.log(99))


@pytest.mark.parametrize(
    ("negatives", "scale"),
    [(-math.inf, None), (math.nan, None), (math.inf, None), (-5.0, 1.0), (1e30, 1000.0)],
)
def test_the_scale_stays_usable(negatives, scale):
    margin = bound(1000)
    before = margin.scale.item()
    margin.observe_softmax(torch.tensor([0.5, 0.6]), torch.full((2,), negatives), before)
    assert margin.scale.item() == (before if scale is None else scale)


def test_the_loss_uses_the_found_scale_from_the_next_step_on():
    loss = arcset.build_loss("adacos", 16, 300, mode="plain")
    start = loss.scale
    assert start == pytest.approx(math.sqrt(2) * math.log(299))
    x, labels = torch.randn(8, 16), torch.arange(8)
    torch.testing.assert_close(
        loss.logits(x), start * torch.nn.functional.normalize(x) @ loss.centers.T
    )
    loss(x, labels)
    assert loss.scale != start
