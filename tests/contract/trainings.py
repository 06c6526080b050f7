"""The trainings of tools/same_weights.py, by processes that need not import everything anew."""

import importlib.util
import os
import socket
import sys
from pathlib import Path

from arcset.cli import main
from support.forked import started

TOOL = Path(__file__).parents[2] / "tools" / "same_weights.py"
SECONDS = 200


def _loaded():
    """The tool, which is in no package."""
    spec = importlib.util.spec_from_file_location("same_weights", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


same_weights = _loaded()


def train(name: str, folder: Path) -> Path:
    """The run's folder; `folder` holds the data, and gets the run.

    In float64, where kernels for other processors hardly differ, though the rates are real ones.
    """
    training, place = same_weights.TRAININGS[name], folder / f"run-{name}"
    words = [*training.arguments(place), "--tensorboard", "--set", "dtype=float64"]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    written, count = folder / f"{name}.txt", training.processes
    written.touch()
    processes = [
        started(_take_part, rank, count, port, words, place=folder, written=written)
        for rank in range(count)
    ]
    for process in processes:
        process.join(SECONDS)
    assert [process.exitcode for process in processes] == [0] * count, written.read_text()
    return place


def _take_part(rank: int, count: int, port: int, words: list[str]) -> None:
    """As a process that torchrun has started, where there are several."""
    if count > 1:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    main(words)
