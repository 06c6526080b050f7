"""Building by name, options, and what is refused."""

import math
import warnings

import numpy as np
import pytest
import torch

import arcset
from arcset import InputError, OptionError
from arcset.losses import loss_options
from arcset.margins import MARGINS

NAMES = [
    "arcface",
    "center",
    "combined",
    "cosface",
    "inter",
    "intra",
    "normface",
    "softmax",
    "sphereface",
    "triplet",
]


def test_names():
    assert set(NAMES) <= set(arcset.loss_names())


@pytest.mark.parametrize("name", NAMES)
def test_every_loss_builds_with_defaults_and_trains_a_step(name):
    loss = arcset.build_loss(name, dim=8, classes=6)
    embeddings = torch.randn(12, 8, requires_grad=True)
    loss(embeddings, torch.arange(12) % 6).backward()
    assert embeddings.grad.abs().sum() > 0
    assert (loss.centers is None) == (name == "triplet")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "arcfacee"}, "no loss is called 'arcfacee'; did you mean 'arcface'"),
        ({"name": "arcface", "dim": 0}, "dim must be a whole number of at least 1, not 0"),
        ({"name": "arcface", "dim": 2.5}, "dim must be a whole number"),
        ({"name": "arcface", "classes": 0}, "classes must be a whole number of at least 1"),
        ({"name": "arcface", "scale": 0.0}, "scale must be a finite number greater than 0"),
        ({"name": "arcface", "scale": -3}, "scale must be a finite number greater than 0"),
        ({"name": "arcface", "scale": math.nan}, "scale must be a finite number"),
        ({"name": "arcface", "scale": 1e39}, "scale must be a finite number"),
        ({"name": "arcface", "scale": 10**400}, "scale must be a finite number"),
        ({"name": "arcface", "margin": True}, "ArcFace: margin must lie in"),
        ({"name": 5}, "no loss is called 5"),
        ({"name": "center", "base": 5}, "no loss is called 5"),
        ({"name": "arcface", "scale": "big"}, "scale must be a finite number"),
        ({"name": "arcface", "margin": -0.1}, r"ArcFace: margin must lie in \[0, 3.1416\)"),
        ({"name": "arcface", "margin": math.pi}, "ArcFace: margin must lie in"),
        ({"name": "arcface", "margin": math.nan}, "ArcFace: margin must lie in"),
        ({"name": "cosface", "margin": 2.0}, r"CosFace: margin must lie in \[0, 2\)"),
        ({"name": "sphereface", "margin": 0.5}, r"SphereFace: margin must lie in \[1, 100\)"),
        ({"name": "combined", "m1": 0.0}, "Combined: m1 must lie in"),
        ({"name": "combined", "m3": 5.0}, "Combined: m3 must lie in"),
        ({"name": "triplet", "margin": -1.0}, "margin must be a finite number of at least 0"),
        ({"name": "center", "weight": -1.0}, "weight must be a finite number of at least 0"),
        ({"name": "center", "base": "nosuch"}, "no loss is called 'nosuch'"),
        (
            {"name": "intra", "base": "center"},
            "base must be one of .*arcface, .* softmax, not 'center'",
        ),
        ({"name": "inter", "base": "triplet"}, "base must be one of .* not 'triplet'"),
        ({"name": "arcface", "fallback": "odd"}, "fallback must be one of default, linear"),
        ({"name": "sphereface", "fallback": "linear"}, "fallback must be one of default, easy"),
        ({"name": "combined", "m1": 1.2, "fallback": "linear"}, "defined for m1 = 1 only"),
        ({"name": "cosface", "fallback": "easy"}, "cosface has no option 'fallback'"),
        ({"name": "softmax", "biass": True}, "softmax has no option 'biass'; it takes bias"),
        ({"name": "arcface", "bias": "yes"}, "bias must be true or false, not 'yes'"),
        ({"name": "softmax", "bias": 1}, "bias must be true or false, not 1"),
        ({"name": "arcface", "mode": "fast"}, "mode must be one of auto, plain"),
        ({"name": "arcface", "subcenters": 0}, "subcenters must be a whole number of at least 1"),
        ({"name": "intra", "subcenters": 2}, "subcenters=2 a class has no single center"),
        ({"name": "arcface", "gradient": "none"}, "gradient must be one of exact, straight"),
        ({"name": "arcface", "label_smoothing": 1.0}, r"label_smoothing must lie in \[0, 1\)"),
        ({"name": "arcface", "ignore_index": 0.5}, "ignore_index must be a whole number"),
        ({"name": "arcface", "warmup": -1}, "warmup must be a whole number of steps"),
        ({"name": "arcface", "warmup": 0.5}, "warmup must be a whole number of steps"),
        ({"name": "arcface", "warmup_shape": "cubic"}, "warmup_shape must be one of linear, exp"),
        ({"name": "arcface", "update": "adam"}, "update must be one of sgd, adagrad, not 'adam'"),
        ({"name": "intra", "update": "sgd"}, "intra cannot fuse the update"),
        ({"name": "arcface", "sample": 0.0}, "sample must be a finite number greater than 0"),
        ({"name": "arcface", "sample": 1.5}, r"sample must lie in \(0, 1\], not 1.5"),
    ],
)
def test_refused_options(arguments, message):
    with pytest.raises(OptionError, match=message):
        arcset.build_loss(**{"dim": 8, "classes": 6, **arguments})


@pytest.mark.parametrize("name", NAMES)
class TestRefusedInput:
    good = torch.randn(3, 8)
    labels = torch.tensor([0, 1, 5])

    @pytest.mark.parametrize(
        ("embeddings", "labels", "message"),
        [
            (good, torch.tensor([0, 1, 6]), r"0 … 5 \(6 classes\), but label 6 .* position 2"),
            (good, torch.tensor([-1, 1, 2]), "label -1 stands at position 0"),
            (good, torch.tensor([0.0, 1.0, 2.0]), "whole numbers .* not torch.float32"),
            (good, torch.tensor([True, False, True]), "whole numbers .* not torch.bool"),
            (good, torch.tensor([0, 1]), r"labels must have shape \(3,\), not \(2,\)"),
            (good, torch.tensor([[0], [1], [2]]), r"not \(3, 1\)"),
            (good, [0, 1, 2], "labels must be a torch tensor, not list"),
            (good[:, :7], labels, r"shape \(B, 8\) with B ≥ 1, not \(3, 7\)"),
            (good[0], labels, r"not \(8,\)"),
            (good[:0], labels[:0], r"not \(0, 8\)"),
            (good.long(), labels, "floating-point, not torch.int64"),
            (good.numpy(), labels, "must be a torch tensor, not ndarray"),
            (good / 0 * 0, labels, "3 of 3 rows hold NaN or infinity, the first at position 0"),
            (good + torch.tensor([[0.0], [math.inf], [0.0]]), labels, "1 of 3 .* position 1"),
        ],
    )
    def test_message(self, name, embeddings, labels, message):
        loss = arcset.build_loss(name, dim=8, classes=6)
        with pytest.raises(InputError, match=message):
            loss(embeddings, labels)


def test_refused_centers():
    loss = arcset.build_loss("arcface", dim=8, classes=6)
    with pytest.raises(InputError, match=r"shape \(6, 8\), not \(8, 6\)"):
        loss.set_centers(torch.zeros(8, 6))
    with pytest.raises(InputError, match="finite"):
        loss.set_centers(torch.full((6, 8), math.nan))
    with pytest.raises(OptionError, match="no class centers"):
        arcset.build_loss("triplet", dim=8, classes=6).set_centers(torch.zeros(6, 8))
    with pytest.raises(OptionError, match="no classifier"):
        arcset.build_loss("triplet", dim=8, classes=6).logits(torch.zeros(1, 8))


def test_int32_labels_are_fine():
    loss = arcset.build_loss("arcface", dim=8, classes=6)
    x, y = torch.randn(3, 8), torch.tensor([0, 1, 5])
    assert torch.equal(loss(x, y.int()), loss(x, y))


def test_options_that_a_loss_lacks_are_said_to_be_ignored():
    with pytest.warns(UserWarning, match=r"softmax has no scale: scale=4.0 is ignored"):
        arcset.build_loss("softmax", 8, 6, scale=4.0)
    with pytest.warns(UserWarning, match=r"normface has no margin: margin=0.5 is ignored"):
        arcset.build_loss("normface", 8, 6, margin=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arcset.build_loss("arcface", 8, 6, scale=4.0, margin=0.5)


COMMON = {
    "subcenters": 1,
    "mode": "auto",
    "sample": 1.0,
    "unbiased": True,
    "storage": "float32",
    "bias": False,
    "label_smoothing": 0.0,
    "ignore_index": None,
    "gradient": "exact",
    "group": None,
    "warmup": 0,
    "warmup_shape": "linear",
    "update": None,
}


def test_options_listing():
    assert loss_options("normface") == {"scale": None, **COMMON}
    assert loss_options("triplet") == {"margin": 0.5}
    assert loss_options("center") == {"bias": True, "base": "softmax", "weight": 0.1}
    assert "fallback" in loss_options("center", base="arcface")
    assert loss_options("combined")["m1"] == 1.0
    assert "scale" not in loss_options("adacos")


def test_modes_and_subcenters_are_for_margins():
    with pytest.warns(UserWarning, match=r"softmax has no mode: mode=store is ignored"):
        arcset.build_loss("softmax", 8, 6, mode="store")
    with pytest.warns(UserWarning, match=r"triplet has no subcenters: subcenters=2 is ignored"):
        arcset.build_loss("triplet", 8, 6, subcenters=2)
    on_arcface = arcset.build_loss("center", 8, 6, base="arcface", mode="store", subcenters=2)
    assert (on_arcface.base.mode, on_arcface.base.subcenters) == ("store", 2)


@pytest.mark.parametrize("name", MARGINS.names())
def test_settings_rebuild_the_margin(name):
    loss = arcset.build_loss(name, 8, 6)
    again = arcset.build_loss(name, 8, 6, **loss.settings())
    assert repr(again.margin) == repr(loss.margin)
    assert again.settings() == loss.settings()


def test_base_takes_its_own_options():
    loss = arcset.build_loss(
        "center", 8, 6, base="arcface", scale=7.0, margin=0.2, fallback="easy", weight=0.3
    )
    assert loss.settings() == {"scale": 7.0, "margin": 0.2, "fallback": "easy", "weight": 0.3}
    assert loss.normalized


def test_numbers_of_numpy_are_numbers():
    loss = arcset.build_loss(
        "arcface", np.int64(8), np.int32(6), scale=np.float32(4), margin=np.float64(0.25)
    )
    assert (loss.dim, loss.classes) == (8, 6)
    assert loss.settings() == {"scale": 4.0, "margin": 0.25, "fallback": "default"}


def test_a_name_that_is_both_a_margin_and_a_loss_is_refused():
    MARGINS.add("softmax", MARGINS["cosface"])
    try:
        with pytest.raises(OptionError, match="both a margin and a loss are called 'softmax'"):
            arcset.build_loss("softmax", 8, 6)
    finally:
        MARGINS.remove("softmax")
