"""Building by name, options, and what is refused."""

import math
import re
import warnings

import pytest
import torch

import arcset
from arcset import InputError, OptionError


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "arcfacee"},
        {"name": "arcface", "dim": 0},
        {"name": "arcface", "classes": 0},
        {"name": "arcface", "scale": math.nan},
        {"name": 5},
        {"name": "arcface", "margin": math.pi},
        {"name": "sphereface", "margin": 0.5},
        {"name": "combined", "m1": 0.0},
        {"name": "center", "weight": -1.0},
        {"name": "intra", "base": "center"},
        {"name": "arcface", "fallback": "odd"},
        {"name": "cosface", "fallback": "easy"},
        {"name": "softmax", "biass": True},
        {"name": "arcface", "mode": "fast"},
        {"name": "arcface", "subcenters": 0},
        {"name": "intra", "subcenters": 2},
        {"name": "arcface", "gradient": "none"},
        {"name": "arcface", "label_smoothing": 1.0},
        {"name": "arcface", "ignore_index": 0.5},
        {"name": "arcface", "warmup": -1},
        {"name": "intra", "update": "sgd"},
        {"name": "arcface", "sample": 0.0},
    ],
    ids=str,
)
def test_refused_options(arguments):
    """The last one makes no sense; the error quotes its name or its value."""
    option, value = list(arguments.items())[-1]
    with pytest.raises(OptionError, match=f"{option}|{re.escape(repr(value))}"):
        arcset.build_loss(**{"dim": 8, "classes": 6, **arguments})


def test_a_misspelt_name_is_told_the_nearest():
    with pytest.raises(OptionError, match=r"'arcfacee'.*'arcface'"):
        arcset.build_loss("arcfacee", dim=8, classes=6)


@pytest.mark.parametrize("name", ["arcface", "softmax", "center", "triplet"])
class TestRefusedInput:
    good = torch.randn(3, 8)
    labels = torch.tensor([0, 1, 5])

    @pytest.mark.parametrize(
        ("embeddings", "labels", "message"),
        [
            (good, torch.tensor([0, 1, 6]), r"label 6 .*position 2"),
            (good, torch.tensor([-1, 1, 2]), "label -1 .*position 0"),
            (good, torch.tensor([0.0, 1.0, 2.0]), "torch.float32"),
            (good, torch.tensor([0, 1]), r"labels .*\(3,\).*\(2,\)"),
            (good[:, :7], labels, r"8.*\(3, 7\)"),
            (good[:0], labels[:0], r"\(0, 8\)"),
            (good.numpy(), labels, "ndarray"),
            (good + torch.tensor([[0.0], [math.inf], [0.0]]), labels, "1 of 3 .* position 1"),
        ],
    )
    def test_message(self, name, embeddings, labels, message):
        loss = arcset.build_loss(name, dim=8, classes=6)
        with pytest.raises(InputError, match=message):
            loss(embeddings, labels)


def test_refused_centers():
    loss = arcset.build_loss("arcface", dim=8, classes=6)
    with pytest.raises(InputError, match=r"\(6, 8\).*\(8, 6\)"):
        loss.set_centers(torch.zeros(8, 6))
    with pytest.raises(InputError):
        loss.set_centers(torch.full((6, 8), math.nan))
    with pytest.raises(OptionError, match="triplet"):
        arcset.build_loss("triplet", dim=8, classes=6).set_centers(torch.zeros(6, 8))
    with pytest.raises(OptionError, match="triplet"):
        arcset.build_loss("triplet", dim=8, classes=6).logits(torch.zeros(1, 8))


def test_options_that_a_loss_lacks_are_said_to_be_ignored():
    with pytest.warns(UserWarning, match=r"softmax.*scale=4.0"):
        arcset.build_loss("softmax", 8, 6, scale=4.0)
    with pytest.warns(UserWarning, match=r"normface.*margin=0.5"):
        arcset.build_loss("normface", 8, 6, margin=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arcset.build_loss("arcface", 8, 6, scale=4.0, margin=0.5)


def test_base_takes_its_own_options():
    loss = arcset.build_loss(
        "center", 8, 6, base="arcface", scale=7.0, margin=0.2, fallback="easy", weight=0.3
    )
    assert loss.settings() == {"scale": 7.0, "margin": 0.2, "fallback": "easy", "weight": 0.3}
    assert loss.normalized


@pytest.mark.parametrize("name", arcset.loss_names())
def test_a_printed_loss_shows_what_it_was_built_with(name):
    loss = arcset.build_loss(name, dim=6, classes=9)
    shown = repr(loss)
    assert shown.lower().startswith(f"{name}(")
    assert "dim=6" in shown
    assert "classes=9" in shown
    for option, value in loss.settings().items():
        text = f"{value:g}" if isinstance(value, float) else value
        assert f"{option}={text}" in shown
    if hasattr(loss, "scale"):
        assert f"scale={loss.scale:g}" in shown


@pytest.mark.parametrize("name", [name for name in arcset.loss_names() if name != "triplet"])
def test_centers_that_no_memory_holds_are_refused_before_they_are_asked_for(name):
    with pytest.raises(OptionError, match=r"65,536.*GB"):
        arcset.build_loss(name, dim=65536, classes=10**9)
    with torch.device("meta"):  # which holds nothing
        arcset.build_loss(name, dim=65536, classes=10**6)
