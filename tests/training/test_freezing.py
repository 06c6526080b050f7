"""Frozen layers: what stays, what moves, and how many there are."""

import pytest
import torch
from torch import nn

from arcset import OptionError
from arcset.networks import build_network
from arcset.runs import RunConfig
from arcset.runs.model import load_model
from arcset.training import train
from arcset.training.fine_tune import freeze
from support.small_data import images
from training.alike import tensors

SETTINGS = {"dim": 4, "network": "glyph", "epochs": 1, "batch": 16, "snapshot": 0, "scale": 8.0}


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    place = tmp_path_factory.mktemp("old")
    config = RunConfig(data=str(images(place / "a.npz", classes=6)), **SETTINGS)
    return train(config, place / "run", device="cpu")


@pytest.mark.parametrize(
    ("count", "averaged"),
    [
        (0, 0.0),
        (2, 0.9),
        (9, 0.0),
        *(
            pytest.param(count, averaged, marks=pytest.mark.long)
            for count, averaged in ((0, 0.9), (1, 0.0), (1, 0.9), (2, 0.0), (5, 0.0), (5, 0.9))
        ),
    ],
)
def test_exactly_the_frozen_tensors_stay(old, tmp_path, count: int, averaged: float) -> None:
    config = old.config.replace(
        start=str(old.path), freeze=count, ema=averaged, weight_decay=0.01, clip=1.0
    )
    new = train(config, tmp_path / "new", device="cpu")
    network, _ = load_model(old)
    weighty = [place for place, layer in enumerate(network) if list(layer.parameters())]
    frozen = {f"model.{place}." for place in weighty[:count]}
    before, after = (
        {name: value for name, value in tensors(run.path).items() if name.startswith("model.")}
        for run in (old, new)
    )
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert same == {name for name in before if any(name.startswith(layer) for layer in frozen)}


def test_what_lies_between_is_frozen_as_well() -> None:
    network = nn.Sequential(
        nn.Linear(3, 3),
        nn.BatchNorm1d(3, affine=False),
        nn.Linear(3, 3),
        nn.Dropout(),
        nn.Linear(3, 2),
    )
    frozen = freeze(network, 2)
    network.train()
    assert network[1].training
    frozen.to_evaluation_mode()
    assert [layer.training for layer in network] == [False, False, False, True, True]
    assert freeze(network, 0).layers == []


@pytest.mark.parametrize("name", ["simple", "conv4", "mobilefacenet", "iresnet18"])
def test_layers_are_counted_from_the_input(name: str) -> None:
    network = build_network(name, 8, (1, 32, 32))
    moving = {key: value.requires_grad for key, value in network.named_parameters()}
    freeze(network, 1)
    first, *others = network.named_parameters()
    assert not first[1].requires_grad
    assert all(value.requires_grad == moving[key] for key, value in others[1:])
    with pytest.raises(OptionError, match="freeze=1000"):
        freeze(network, 1000)


def test_a_network_that_is_no_sequence_has_one_layer() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

    with pytest.raises(OptionError, match="at most 0"):
        freeze(Odd(), 1)
