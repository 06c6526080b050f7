"""Run folders with random weights, made in milliseconds, on small real data."""

import functools
from pathlib import Path

import numpy as np
import torch

from arcset.data import to_tensors
from arcset.data.batches import as_float
from arcset.evaluation import Thresholds, make_thresholds
from arcset.runs import Run, RunConfig
from arcset.runs.data import selection_for
from arcset.runs.model import add_data_settings, build_model
from support import small_data


def random_run(
    place: Path, *, data: Path | str | None = None, seed: int = 0, **settings: object
) -> Run:
    """A run that nobody trained, whose batch norms know the data and whose slopes differ.

    Without `data`, twelve classes of 10×10 grey images are made beside it.
    """
    if data is None:
        place.parent.mkdir(parents=True, exist_ok=True)
        data = small_data.images(place.parent / "images.npz")
    settings = {"network": "simple", "dim": 8, "seed": seed, **settings}
    config = RunConfig(data=str(data), **settings)
    selection = selection_for(config)
    config = add_data_settings(config, selection)
    run = Run.create(place, config)
    if selection.split is not None:
        selection.split.save(run.split_file)
    network, loss = build_model(config)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            module.momentum = None  # its statistics become those of the batch, at once
        if isinstance(module, torch.nn.PReLU):
            torch.nn.init.uniform_(module.weight, -0.5, 1.5, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        network.train()(as_float(to_tensors(selection.train)[0][:48]))
    run.save_model(network.state_dict(), loss.state_dict())
    return run


def with_thresholds(run: Run) -> Thresholds:
    """Thresholds as if validation identities had given them: of random points around means."""
    _thresholds(run.config.dim).save(run.path / "threshold.json")
    return Thresholds.load(run.path / "threshold.json")


@functools.cache
def _thresholds(dim: int) -> Thresholds:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(150), 2)
    points = random.normal(size=(150, dim))[labels]
    return make_thresholds(points + 0.4 * random.normal(size=points.shape), labels)
