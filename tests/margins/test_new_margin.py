"""A new margin is one new file: CONTRIBUTING's example, registered, built by name, and its laws."""

import re
from pathlib import Path

import pytest

import arcset
from arcset.margins import MARGINS
from arcset.margins.base import Law
from support.laws import builder, check_all

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
EXAMPLE = re.search(
    r"^```python\n(# src/arcset/margins/halfway\.py\n.*?)^```",
    PAGE.read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)[1]


@pytest.fixture
def halfway():
    """The example's margin, cos θ − m·sin(θ/2), registered."""
    scope = {}
    exec(compile(EXAMPLE, "CONTRIBUTING.md", "exec"), scope)
    yield scope["Halfway"]
    MARGINS.remove("halfway")


def test_the_example_passes_the_laws(halfway):
    assert "halfway" in arcset.loss_names()
    loss = arcset.build_loss("halfway", 8, 5, margin=0.2, scale=10.0)
    assert loss.margin.margin == 0.2
    assert {Law.MONOTONE, Law.CONTINUOUS, Law.NEUTRAL, Law.TARGET_ONLY} <= loss.laws
    check_all(builder("halfway"))
    check_all(builder("intra", base="halfway", margin=0.2))
