"""What torchrun starts in the tests, where the same is also done in a single process.

torchrun --nproc-per-node=2 -m support.processes alike SETTINGS.json FOLDER
torchrun --nproc-per-node=2 -m support.processes train OUT,OUT WORDS…
"""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

from arcset.launch import leave
from arcset.networks import NETWORKS
from arcset.runs import RunConfig
from arcset.runs.settings import Layer
from arcset.training import compare, train
from support.small_data import Remembers

TESTS = Path(__file__).parents[1]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
THIS = ["-m", "support.processes"]


def environment() -> dict[str, str]:
    """For processes that import what the tests do."""
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def plain(shape: tuple[int, int, int], dim: int) -> nn.Module:
    """A network that has no batch statistics."""
    inputs = shape[0] * shape[1] * shape[2]
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 24), nn.Tanh(), nn.Linear(24, dim))


def trained(settings: Path, place: Path) -> None:
    """Train every configuration of a JSON file, and compare two margins of the first.

    The chief writes the losses of all steps, and what the comparison came to.
    """
    NETWORKS.add("plain", plain)
    configs = {key: RunConfig(**held) for key, held in json.loads(settings.read_text()).items()}
    found = {}
    for name, config in configs.items():
        watcher = Remembers()
        train(config, place / name, device="cpu", watcher=watcher)
        found[name] = [now.loss for now in watcher.steps]
    first = next(iter(configs.values())).replace(epochs=2)
    layers = [Layer("options", first.model_dump(exclude_unset=True), explicit=True)]
    grid = {"margin": [0.1, 0.4]}
    outcome = compare(layers, place / "grid", grid=grid, seeds=1, device="cpu")
    if os.environ.get("RANK", "0") == "0":
        (place / "losses.json").write_text(json.dumps(found))
        (place / "outcome.json").write_text(json.dumps(outcome.json()))
    else:
        assert not outcome.runs
    NETWORKS.remove("plain")


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, *words = sys.argv[1:]
    if what == "alike":
        trained(Path(words[0]), Path(words[1]))
    else:
        from arcset.cli import main  # which the others need not wait for

        for out in words[0].split(","):
            try:
                main(["train", *words[1:], "--out", out])
            except SystemExit as ended:
                if ended.code:
                    raise
    leave(0)
