"""Three runs of one epoch: losses of all steps, a summary of the weights, and the files they leave.

They are those of tools/same_weights.py, which compares two trees bit by bit on one machine. Here
numbers that another processor computed are compared, so that they may differ by 1e-4: ten times
as much as kernels for other processors make of it, and a tenth of a weight that is off by 1e-3.
So that training can go at real rates for all that, weights are float64 here.
"""

import re

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from contract.recording import differences, plain, recorded
from contract.trainings import same_weights, train

SIGNS = 5  # sums of all weights, each with other signs
ROUGH = ("running_mean", "running_var")  # torch adds up rows one by one, and threads share them


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function from the name of a training to the folder of its run."""
    folder, runs = tmp_path_factory.mktemp("trained"), {}
    same_weights.make_data(folder)

    def run(name):
        if name not in runs:
            runs[name] = train(name, folder)
        return runs[name]

    return run


def losses(run):
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return [step.value for step in events.Scalars("step/loss")]


def summary(tensor):
    """Its norm, its sum, and sums in which other halves of the weights count as negative."""
    flat = tensor.astype(np.float64).ravel()
    bits = np.arange(flat.size, dtype=np.uint32) * np.uint32(2654435761)
    signs = [1.0 - 2.0 * (bits >> np.uint32(31 - number) & 1) for number in range(SIGNS)]
    sums = [flat.sum(), *(float(sign @ flat) for sign in signs)]
    return {"shape": tensor.shape, "norm": float(np.linalg.norm(flat)), "sums": sums}


def summaries(contents):
    """Of all tensors that are trained, and of what batch norm has counted."""
    found = {
        f"{file.partition('.')[0]}: {name}": summary(tensor)
        for file in same_weights.WEIGHTS
        for name, tensor in contents[file].items()
    }
    rough = {name: found.pop(name) for name in list(found) if name.endswith(ROUGH)}
    return found, rough


@pytest.mark.parametrize("name", same_weights.TRAININGS)
def test_losses_and_weights_are_those_recorded(trained, name):
    run = trained(name)
    weights, counted = summaries(same_weights.contents(run))
    recorded(f"training-{name}", {"losses": losses(run), "weights": weights}, tolerance=1e-4)
    recorded(f"training-{name}-statistics", counted, tolerance=1e-2)


@pytest.mark.parametrize("name", same_weights.TRAININGS)
def test_a_run_leaves_the_files_recorded(trained, name):
    run = trained(name)
    files = (path.relative_to(run) for path in run.rglob("*") if path.is_file())
    mine = [str(file) for file in files if file.parts[0] != "tensorboard"]  # named as it likes
    recorded(f"training-{name}-files", sorted({re.sub(r"\d+", "N", file) for file in mine}))


def test_any_weight_that_is_off_by_a_thousandth_is_noticed(trained):
    contents = same_weights.contents(trained("conv4"))
    for name, tensor in [pair for file in same_weights.WEIGHTS for pair in contents[file].items()]:
        if name.endswith(ROUGH) or not np.issubdtype(tensor.dtype, np.floating):
            continue
        changed = tensor.copy()
        changed.flat[tensor.size // 3] += 1e-3
        right, wrong = plain(summary(tensor)), plain(summary(changed))
        assert list(differences(right, wrong, tolerance=1e-4)), name
