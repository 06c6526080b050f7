"""A new margin is one new file: registered, built by name, and through the laws."""

import math
import subprocess
import sys

import pytest
import torch

import arcset
from arcset import OptionError
from arcset.checks import check_number
from arcset.margins import MARGINS, Margin
from arcset.margins.base import Law
from support.laws import builder, check_all


class Toy(Margin):
    """cos θ − m·sin(θ/2): a margin that grows with the angle."""

    neutral = {"margin": 0.0}

    def __init__(self, margin: float = 0.4) -> None:
        super().__init__()
        self.margin = check_number("margin", margin, 0, 1)

    def shift(self, cosine, samples):
        return cosine - self.margin * ((1 - cosine) / 2).sqrt()

    def reference(self, angle, sample):
        return math.cos(angle) - self.margin * math.sin(angle / 2)


class Rising(Toy):
    """A margin with a mistake: it rewards larger angles."""

    def shift(self, cosine, samples):
        return -cosine

    def reference(self, angle, sample):
        return -math.cos(angle)


class Harder(Toy):
    """Adds to the negatives as well, through the hook."""

    alters_negatives = True

    def negatives(self, cosines, target, samples):
        return torch.where(cosines > target, 1.1 * cosines, cosines)


@pytest.fixture
def registered(request):
    def enter(name, margin):
        MARGINS.register(name)(margin)
        request.addfinalizer(lambda: MARGINS.remove(name))

    return enter


def test_toy_margin_passes_the_laws(registered):
    registered("toy", Toy)
    assert "toy" in arcset.loss_names()
    loss = arcset.build_loss("toy", 8, 5, margin=0.2, scale=10.0)
    assert loss.margin.margin == 0.2
    assert {Law.MONOTONE, Law.CONTINUOUS, Law.NEUTRAL, Law.TARGET_ONLY} <= loss.laws
    check_all(builder("toy"))


FILE = """
import math

from arcset.margins.base import MARGINS, Margin


@MARGINS.register("dropped_in")
class DroppedIn(Margin):
    def shift(self, cosine, samples):
        return cosine - 0.1

    def reference(self, angle, sample):
        return math.cos(angle) - 0.1
"""

USE = """
import sys, torch, arcset, arcset.margins
arcset.margins.__path__.append(sys.argv[1])
loss = arcset.build_loss("dropped_in", 4, 3, scale=1.0)
loss.set_centers(torch.eye(3, 4))
print(round(loss.logits(torch.eye(1, 4), torch.tensor([0]))[0, 0].item(), 6))
"""


def test_one_file_is_all_it_takes(tmp_path):
    """A file that appears in the package is found: nothing else is edited."""
    (tmp_path / "dropped_in.py").write_text(FILE)
    command = [sys.executable, "-c", USE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0.9"


def test_toy_margin_serves_as_a_base(registered):
    registered("toy", Toy)
    check_all(builder("intra", base="toy", margin=0.2))


def test_a_wrong_margin_does_not_pass(registered):
    registered("rising", Rising)
    with pytest.raises(AssertionError):
        check_all(builder("rising"))


def test_a_margin_may_alter_the_negatives(registered):
    registered("harder", Harder)
    loss = arcset.build_loss("harder", 2, 3, margin=0.2, scale=1.0).double()
    assert Law.TARGET_ONLY not in loss.laws
    loss.set_centers(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
    x = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    target, near, far = loss.logits(x, torch.tensor([0]))[0].tolist()
    assert target == pytest.approx(0.6 - 0.2 * math.sqrt(0.2))
    assert near == pytest.approx(1.1 * 0.8)  # above the target, so raised
    assert far == pytest.approx(-0.6)


def test_a_name_is_taken_once(registered):
    with pytest.raises(OptionError, match="'arcface'"):
        registered("arcface", Toy)
    assert MARGINS["arcface"] is not Toy
