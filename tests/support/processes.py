"""What torchrun starts in the tests, where the same is also done in a single process.

torchrun --nproc-per-node=2 -m support.processes OUT,OUT WORDS…
"""

import os
import sys
from pathlib import Path

import torch
from torch import nn

from arcset.launch import leave

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


if __name__ == "__main__":
    torch.set_num_threads(1)
    from arcset.cli import main  # which the others need not wait for

    outs, *words = sys.argv[1:]
    for out in outs.split(","):
        try:
            main(["train", *words, "--out", out])
        except SystemExit as ended:
            if ended.code:
                raise
    leave(0)
