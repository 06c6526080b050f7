"""How many bytes a process holds at its largest, moment by moment.

Each moment of building and of a step is written down as what is alive then, after the code of
`arcset.centers` and with its own constants. The largest moment is the peak.
"""

from dataclasses import dataclass
from functools import cache

import torch

from arcset.centers import choose_mode, init, sharded
from arcset.centers.fused import classes_per_chunk
from arcset.margins import MARGINS
from arcset.planning.network import NetworkCost, network_cost
from arcset.planning.setting import Setting
from arcset.planning.step import INDEX, KEPT, WIDE, Moment, StepMemory

__all__ = ["Memory", "Moment", "plan_memory"]


@dataclass(frozen=True)
class Memory:
    """One process's memory over building and a step.

    Fields:
        process: bytes of the bare process: Python, torch, arcset.
        mode: how the softmax is computed, after `auto` has chosen.
        chunk: classes taken at a time.
        moments: in their order.
    """

    process: int
    mode: str
    chunk: int
    moments: tuple[Moment, ...]

    @property
    def peak(self) -> Moment:
        """The moment that takes the most."""
        return max(self.moments, key=lambda moment: moment.total)

    @property
    def total(self) -> int:
        """Bytes at the peak, with the process itself."""
        return self.process + self.peak.total


def plan_memory(setting: Setting, *, limit: int, process: int = 0) -> Memory:
    """The memory of the process that holds the most classes.

    limit: bytes that a process may use, by which `auto` chooses how the softmax is computed.
    process: bytes that it holds before anything is built.
    """
    cost = network_cost(setting.network, setting.dim, setting.shape, setting.batch)
    held = _held(setting, cost)
    mode = _mode(setting, limit - process - sum(held.values()))
    chunk = classes_per_chunk(
        setting.taking_part, setting.dim, setting.subcenters, setting.together, setting.device
    )
    step = StepMemory(setting, mode, chunk, cost, held)
    moments = (_building(setting, held), *step.moments())
    return Memory(process, mode, chunk, moments)


def _held(setting: Setting, cost: NetworkCost) -> dict[str, int]:
    """What stays from the beginning of the training to its end."""
    rows, item = setting.rows, setting.dtype.itemsize
    centers = rows * setting.dim * item
    if setting.update is None:
        state = KEPT[setting.optimizer] * centers
    else:
        state = centers if setting.update == "sgd" else rows * WIDE
    if setting.subcenters > 1:
        state += rows * INDEX  # how often each was chosen
    weights = cost.weights
    return {
        "centers": centers,
        "their optimizer's state": state,
        "the margin's own": _of_margin(setting.loss) * setting.classes,
        "network's weights": weights,
        "network's optimizer": KEPT[setting.optimizer] * weights,
    }


@cache
def _of_margin(loss: str) -> int:
    """Bytes that a margin keeps for each class, of all of which every process knows."""
    sizes = []
    for classes in (1, 2):
        margin = MARGINS[loss]()
        margin.bind(classes)
        sizes.append(sum(buffer.nbytes for buffer in margin.buffers()))
    return sizes[1] - sizes[0]


def _mode(setting: Setting, free: int) -> str:
    """As the loss chooses it in a training step."""
    found = choose_mode(
        setting.mode,
        setting.together,
        setting.drawn,
        torch.float32,
        torch.device(setting.device),
        free=max(free, 0),
    )
    if found == "plain" and (setting.processes > 1 or setting.update):
        return "recompute"
    return found


def _building(setting: Setting, held: dict[str, int]) -> Moment:
    """The first centers, which are made in float32, many of them by parts."""
    item = setting.dtype.itemsize
    entries = setting.rows * setting.dim
    every = setting.classes * setting.subcenters * setting.dim
    if every <= sharded._FEW:
        entries = every  # which the first process makes for all
    if entries > init._AT_ONCE:
        part = init._AT_ONCE // setting.dim * setting.dim
        whole, rest = divmod(entries, part)
        last = max((whole - 1) * part * item + 3 * part * WIDE, entries * item + 3 * rest * WIDE)
    else:
        last = max(3 * entries * WIDE, entries * (WIDE + item))
    centers = min(entries * item, last)
    parts = {"centers": centers, "first directions": last - centers}
    parts["network's weights"] = held["network's weights"]
    return Moment("building the centers", parts)
