import math

import pytest
import torch

from arcset.errors import InputError
from arcset.margins.arcface import ArcFace
from arcset.margins.classwise import Classwise
from support.margin_checks import ANGLES, batch_of

SIZES = torch.tensor([500, 20, 3, 81, 1])


def bound(sizes=SIZES, **options) -> Classwise:
    margin = Classwise(**options).double()
    margin.bind(len(sizes))
    margin.set_class_sizes(sizes)
    return margin


def test_each_class_has_its_arcface():
    margin = bound()
    margin.set_margins(torch.tensor([0.0, 0.1, 0.2, 0.5, 3.1]))
    for label, value in enumerate(margin.margins.tolist()):
        samples = batch_of(len(ANGLES), labels=torch.full((len(ANGLES),), label))
        expected = ArcFace(value)(ANGLES.cos(), samples)
        torch.testing.assert_close(margin(ANGLES.cos(), samples), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("power", [0.25, 1.0])
def test_margins_from_sizes(power):
    margin = bound(low=0.2, high=0.6, power=power)
    rarest, commonest = 1.0, 500**-power
    for size, value in zip(SIZES.tolist(), margin.margins.tolist(), strict=True):
        share = (size**-power - commonest) / (rarest - commonest)
        assert value == pytest.approx(0.2 + 0.4 * share, abs=1e-7)
    assert margin.margins.argmin() == 0
    assert margin.margins.argmax() == 4


def test_the_middle_where_nothing_tells_classes_apart():
    for sizes in (torch.tensor([7, 7, 7]), torch.tensor([0, 1, 1]), torch.tensor([9])):
        assert bound(sizes, low=0.2, high=0.4).margins.tolist() == pytest.approx([0.3] * len(sizes))
    assert bound(power=0.0, low=0.2, high=0.4).margins.tolist() == pytest.approx([0.3] * 5)
    margin = Classwise(low=0.2, high=0.4)
    margin.bind(3)
    assert margin.margins.tolist() == pytest.approx([0.3] * 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.set_class_sizes(torch.tensor([1, 2])), r"\(5,\).*\(2,\)"),
        (lambda m: m.set_class_sizes(-SIZES), "class sizes"),
        (lambda m: m.set_class_sizes(SIZES * math.nan), "class sizes"),
        (lambda m: m.set_margins(torch.full((5,), 3.2)), "margins"),
        (lambda m: m.set_margins(torch.zeros(4)), r"\(5,\)"),
    ],
)
def test_refused_values(call, message):
    margin = bound()
    before = margin.margins.clone()
    with pytest.raises(InputError, match=message):
        call(margin)
    assert torch.equal(margin.margins, before)
