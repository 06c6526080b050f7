"""What torchrun starts in tests of runs whose centers are shared, and that change their number.

    torchrun --nproc-per-node=2 -m support.elastic JOBS.json

A job is {"out": folder, "settings": of a new run, or none to continue it, "grid": of values to
compare, if any}. The losses of its steps go to OUT.losses.json.
"""

import json
import os
import sys
from pathlib import Path

import torch

from arcset.launch import leave
from arcset.networks import NETWORKS
from arcset.runs import RunConfig
from arcset.runs.settings import Layer
from arcset.training import resume, train
from arcset.training.compare import compare_variants
from support.processes import plain
from support.small_data import Remembers


def done(jobs: Path) -> None:
    """All jobs of the file, in turn."""
    NETWORKS.add("plain", plain)
    for job in json.loads(jobs.read_text()):
        out, watcher = Path(job["out"]), Remembers()
        if "grid" in job:
            layers = [Layer("options", job["settings"], explicit=True)]
            outcome = compare_variants(layers, out, grid=job["grid"], seeds=1, device="cpu")
            assert bool(outcome.runs) == (os.environ.get("RANK", "0") == "0")  # one writer
        elif "settings" in job:
            train(RunConfig(**job["settings"]), out, device="cpu", watcher=watcher)
        else:
            resume(out, device="cpu", watcher=watcher)
        if os.environ.get("RANK", "0") == "0":
            losses = [now.loss for now in watcher.steps]
            out.with_name(f"{out.name}.losses.json").write_text(json.dumps(losses))
    NETWORKS.remove("plain")


if __name__ == "__main__":
    torch.set_num_threads(1)
    done(Path(sys.argv[1]))
    leave(0)
