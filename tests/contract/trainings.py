"""The trainings of tools/same_weights.py, by processes that need not import everything anew."""

import importlib.util
import sys
from pathlib import Path

from arcset.cli import main
from support.forked import started, together

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
    if training.processes > 1:
        together(training.processes, main, words, place=folder)
    else:
        written = folder / f"{name}.txt"
        process = started(main, words, place=folder, written=written)
        process.join(SECONDS)
        assert process.exitcode == 0, written.read_text()
    return place
