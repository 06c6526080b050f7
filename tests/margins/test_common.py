"""What every margin owes by itself, over a table of margins; the laws test it as part of a loss.

A margin's own file has what is special about it: its published formula, and what it learns.
"""

import copy
import math

import pytest
import torch

import arcset
from arcset.margins import MARGINS, build_margin
from arcset.margins.base import Law
from support.margin_checks import (
    ANGLES,
    check_falls,
    check_finite_at_the_ends,
    check_refused,
    check_settings_rebuild,
    check_shift_is_reference,
)

LENGTHS = (0.0, 5.0, 20.0, 21.0, 500.0)
MARGINED = [
    ("adacos", {"dynamic": False}),
    ("adaface", {"margin": 0.6, "h": 0.5, "rate": 1}),
    ("adaface", {"margin": 0.6, "h": 99.0}),
    ("adaface", {"h": 99.0, "fallback": "clamp"}),
    ("classwise", {"low": 0.1, "high": 1.4, "power": 0.5}),
    ("curricularface", {"margin": 0.7, "rate": 0.5}),
    ("elasticface", {}),
    ("elasticface", {"margin": 0.2, "spread": 1.5, "kind": "cos", "plus": True, "seed": 5}),
    ("elasticface", {"kind": "cos", "spread": 0.0}),
    ("intertopk", {"margin": 0.4, "penalty": 0.1, "k": 7}),
    ("magface", {}),
    ("magface", {"l_a": 1, "u_a": 50, "l_m": 0.0, "u_m": 2.0, "penalty_weight": 3}),
    ("mvsoftmax", {}),
    ("mvsoftmax", {"margin": 0.9, "t": 0.3, "kind": "cos", "adaptive": False}),
]
every_margin = pytest.mark.parametrize(("name", "options"), MARGINED, ids=str)


def build(name, options):
    margin = build_margin(name, **options)
    if name == "classwise":
        margin = margin.double()
        margin.bind(5)
        margin.set_class_sizes(torch.tensor([500, 20, 3, 81, 1]))
    return margin


@every_margin
def test_shift_is_its_reference(name, options):
    margin = build(name, options)
    labels = torch.arange(len(ANGLES)) % 5
    for step, length in enumerate(LENGTHS):
        norms = torch.full_like(ANGLES, length)
        check_shift_is_reference(margin, norms=norms, labels=labels, step=step)


@every_margin
def test_it_falls_everywhere_with_finite_slopes(name, options):
    margin = build(name, options)
    if Law.MONOTONE not in margin.laws:
        return
    check_finite_at_the_ends(margin)
    for length in LENGTHS:
        check_falls(margin.eval(), norms=torch.tensor(length, dtype=torch.float64))


@every_margin
def test_settings_build_it_again(name, options):
    margin = build_margin(name, **options)
    assert {option: margin.settings()[option] for option in options} == options
    check_settings_rebuild(margin)


@pytest.mark.parametrize(
    ("name", "options"),
    [("adacos", {}), ("adaface", {"rate": 0.5}), ("curricularface", {"rate": 0.5})],
)
@pytest.mark.parametrize("mode", ["plain", "store"])
def test_what_is_learned_from_batches_changes_in_training_only(name, options, mode):
    torch.manual_seed(0)
    loss = arcset.build_loss(name, 6, 7, mode=mode, **options)
    for training in (False, True):
        before = copy.deepcopy(loss.margin.state_dict())
        loss.train(training)(20 * torch.randn(9, 6), torch.arange(9) % 7)
        after = loss.margin.state_dict()
        assert any(not torch.equal(after[key], before[key]) for key in before) == training


@pytest.mark.parametrize(
    ("name", "spacing", "asked", "expected"),
    [
        ("adaface", math.pi / 2, {}, {"margin": 0.4}),
        ("adaface", 0.2, {}, {"margin": (1 - math.cos(0.2)) / 2}),
        ("classwise", math.pi / 2, {}, {"low": 0.25, "high": 0.5}),
        ("curricularface", 0.2, {}, {"margin": 0.1}),
        ("elasticface", 0.2, {}, {"margin": 0.1}),
        ("elasticface", math.pi / 2, {"kind": "cos"}, {"margin": 0.35}),
        ("mvsoftmax", 0.2, {"kind": "cos"}, {"margin": (1 - math.cos(0.2)) / 2}),
        ("intertopk", math.pi / 2, {}, {"margin": 0.2, "penalty": 0.06}),
        ("intertopk", 0.26, {}, {"margin": 0.1, "penalty": 0.03}),
        ("magface", math.pi / 2, {}, {"l_m": 0.45, "u_m": 0.8}),
    ],
)
def test_defaults_shrink_where_centers_are_crowded(name, spacing, asked, expected):
    assert MARGINS[name].default_options(spacing, **asked) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("adacos", {"dynamic": "no"}),
        ("adaface", {"margin": -0.1}),
        ("adaface", {"fallback": "linear"}),
        ("classwise", {"high": math.pi}),
        ("classwise", {"low": 0.6}),
        ("curricularface", {"margin": 4.0}),
        ("elasticface", {"spread": -0.1}),
        ("elasticface", {"seed": -1}),
        ("intertopk", {"k": 0}),
        ("magface", {"l_a": 110.0}),
        ("mvsoftmax", {"kind": "am"}),
    ],
)
def test_refused(name, options):
    check_refused(MARGINS[name], options)
