"""Runs whose network or data another process cannot know by itself."""

import importlib.metadata

import numpy as np
import pytest
import torch
from torch import nn

from arcset import OptionError, Recognizer
from arcset.data import load_dataset
from arcset.networks import NETWORKS
from arcset.recognition.export import export
from arcset.registry import Registry
from arcset.runs import Run, RunConfig
from arcset.runs.config import GIVEN
from arcset.runs.data import selection_of
from arcset.runs.model import TrainedRun, build_model, load_model
from support import small_data
from support.random_runs import random_run


def module(dim=8):
    return nn.Sequential(nn.Flatten(), nn.Linear(100, dim))


@pytest.fixture
def given(tmp_path):
    """A run whose network and data were handed over, the network, and the data."""
    data = small_data.images(tmp_path / "images.npz")
    run = random_run(tmp_path / "run", data=data)
    network = module()
    config = run.config.replace(network=GIVEN, data=GIVEN)
    config.save(run.path / "config.toml")
    loss = build_model(config, network=network)[1]
    run.save_model(network.state_dict(), loss.state_dict())
    return Run.open(run.path), network, load_dataset(data)


def test_without_the_module_the_run_says_what_to_pass(given):
    run, _, _ = given
    for load in (load_model, Recognizer.load, TrainedRun.load):
        with pytest.raises(OptionError, match="network="):
            load(run)
    with pytest.raises(OptionError, match="network="):
        export(run.path, run.path / "model.onnx")


def test_the_module_gets_the_weights_of_the_run(given):
    run, network, _ = given
    other = module()
    loaded, _ = load_model(run, network=other)
    assert loaded is other
    for name, weight in network.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight)
    images = np.random.default_rng(0).integers(0, 256, (2, 10, 10), dtype=np.uint8)
    recognizer = Recognizer.load(run, network=other, device="cpu")
    assert recognizer.embed(list(images)).shape == (2, 8)


def test_without_the_data_the_run_says_what_to_pass(given):
    run, network, dataset = given
    trained = TrainedRun.load(run, network=network, device="cpu")
    with pytest.raises(OptionError, match="data="):
        trained.selection  # noqa: B018
    assert selection_of(run, dataset=dataset).train.class_names == run.config.class_names


def test_a_module_for_a_network_that_is_named_is_refused(tmp_path):
    run = random_run(tmp_path / "run")
    with pytest.raises(OptionError, match="simple"):
        load_model(run, network=module())


def test_a_registered_network_names_its_module(tmp_path):
    def tiny(shape, dim):
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), dim))

    NETWORKS.add("tiny", tiny)
    try:
        run = random_run(tmp_path / "run", network="tiny")
        assert run.config.network_module == __name__
        load_model(run)
    finally:
        NETWORKS.remove("tiny")
    with pytest.raises(OptionError, match=f"'tiny'.*--import {__name__}"):
        load_model(Run.open(run.path))
    assert random_run(tmp_path / "other").config.network_module is None
    assert RunConfig(data="mnist-sample").network_module is None


def test_entry_points_of_other_packages_are_entries(monkeypatch):
    def entry_points(*, group):
        assert group == "some.group"
        return [
            importlib.metadata.EntryPoint("squared", "math:sqrt", group),
            importlib.metadata.EntryPoint("broken", "no_such_module:thing", group),
        ]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    kinds = Registry("kind", "arcset.centers", group="some.group")
    assert {"squared", "broken"} <= set(kinds.names())
    assert kinds["squared"](4) == 2
    with pytest.raises(OptionError, match=r"'broken'.*no_such_module"):
        kinds["broken"]
