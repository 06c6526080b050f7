"""How many bytes a process holds at its largest, moment by moment.

Each moment of a step is written down as what is alive then, after the code of `arcset.centers` and
with its own constants. The largest moment is the peak. On the CPU, blocks that the softmax has used
are kept for the next step (`arcset.centers.memory`), so that they count afterwards, too.
"""

from dataclasses import dataclass

import torch

from arcset.centers import choose_mode, sharding, start, update
from arcset.centers.walk import classes_per_chunk
from arcset.margins import MARGINS
from arcset.planning.network import NetworkCost, network_cost
from arcset.planning.setting import Setting

__all__ = ["Memory", "Moment", "plan_memory"]

_WIDE = 4  # bytes of float32, in which all is computed
_INDEX = 8  # of int64 and float64
#: Copies of the weights that torch's optimizers keep, and need for a moment on top of them.
_KEPT = {"sgd": 1, "adamw": 2}
_PASSING = {"sgd": 1, "adamw": 2}
#: Copies of a piece of rows while an update is applied to it: themselves, gradient, momentum, and
#: for centers in bfloat16 the numbers they are rounded with.
_PIECES = {"float32": 4, "bfloat16": 8}
#: The C library returns larger blocks to the system at once. Of smaller ones that come and go, it
#: was seen to hold up to so many more than are in use, since a freed one seldom fits the next.
_RETURNED = 32 << 20
_HELD = 3
#: Matrices as large as a chunk's logits that a margin which moves wrong classes makes of them, with
#: what autograd keeps; as measured, for those that look for the nearest ones and for the others.
_OF_HOOK = {True: 33, False: 15}


@dataclass(frozen=True)
class Moment:
    """What is alive at one moment: names of parts, and their bytes."""

    name: str
    parts: dict[str, int]

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return sum(self.parts.values())


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
    step = _Step(setting, mode, chunk, cost, held)
    moments = (_building(setting, held), *step.moments())
    return Memory(process, mode, chunk, moments)


def _held(setting: Setting, cost: NetworkCost) -> dict[str, int]:
    """What stays from the beginning of the training to its end."""
    rows, item = setting.rows, setting.dtype.itemsize
    centers = rows * setting.dim * item
    if setting.update is None:
        state = _KEPT[setting.optimizer] * centers
    else:
        state = centers if setting.update == "sgd" else rows * _WIDE
    if setting.subcenters > 1:
        state += rows * _INDEX  # how often each was chosen
    weights = cost.weights
    return {
        "centers": centers,
        "their optimizer's state": state,
        "network's weights": weights,
        "network's optimizer": _KEPT[setting.optimizer] * weights,
    }


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
    if every <= sharding._FEW:
        entries = every  # which the first process makes for all
    if entries > start._AT_ONCE:
        part = start._AT_ONCE // setting.dim * setting.dim
        whole, rest = divmod(entries, part)
        last = max((whole - 1) * part * item + 3 * part * _WIDE, entries * item + 3 * rest * _WIDE)
    else:
        last = max(3 * entries * _WIDE, entries * (_WIDE + item))
    centers = min(entries * item, last)
    parts = {"centers": centers, "first directions": last - centers}
    parts["network's weights"] = held["network's weights"]
    return Moment("building the centers", parts)


@dataclass(frozen=True)
class _Step:
    """Forward, backward, and the optimizer's part."""

    setting: Setting
    mode: str
    chunk: int
    cost: NetworkCost
    held: dict[str, int]

    def moments(self) -> list[Moment]:
        own = {**self.held, **self._batch(), **self._softmax()}
        alone = self.setting.network is None
        gradient = {} if self.setting.update else {"their gradient": self.held["centers"]}
        kept = {"activations": self.cost.kept}
        network = {"network's gradients": self._network_gradients()}
        found = [
            Moment("the forward pass", {**own, **kept, **self._forward()}),
            Moment("the backward pass", {**own, **kept, **gradient, **self._backward()}),
        ]
        if not alone:
            passing = {"activations": self.cost.kept + self.cost.passing}
            idle = self._idle()
            found.append(
                Moment(
                    "the network's backward pass",
                    {**self.held, **self._batch(), **idle, **passing, **gradient, **network},
                )
            )
        if self.setting.device == "cpu":
            found[1] = Moment(
                found[1].name, {**found[1].parts, "freed and not yet reused": self._freed()}
            )
        if not alone or self.setting.update is None:
            passing = {"passing copies of the optimizer": self._passing()}
            found.append(
                Moment(
                    "the optimizer's step",
                    {**self.held, **self._idle(), **gradient, **network, **passing, **self._left()},
                )
            )
        return found

    def _batch(self) -> dict[str, int]:
        """Embeddings, their directions and gradients; of all processes, and this one's own."""
        setting = self.setting
        copies = 3 if setting.processes == 1 else 5  # also on the way in, and when added up
        row = (setting.dim * _WIDE + 4 * _INDEX) * setting.together
        own = 3 * setting.dim * _WIDE * setting.batch
        return {"embeddings of all": copies * row + own}

    def _softmax(self) -> dict[str, int]:
        """What a step keeps from forward to backward."""
        setting = self.setting
        found = {"logits": 0, "classes drawn": 0}
        if self.mode == "store":
            found["logits"] = setting.drawn * setting.together * _WIDE
        elif self.mode == "plain":
            found["logits"] = 6 * setting.drawn * (setting.together + setting.dim) * _WIDE
        if setting.sample < 1:
            found["classes drawn"] = 4 * setting.taking_part * _INDEX
        found["lengths and sums"] = setting.drawn * _WIDE + self._sums()
        return found

    def _sums(self) -> int:
        chunks = -(-self.setting.taking_part // self.chunk)
        return 2 * chunks * self.setting.together * _WIDE

    @property
    def _block(self) -> int:
        """Bytes of the logits of a chunk."""
        return self.chunk * self.setting.subcenters * self.setting.together * _WIDE

    @property
    def _rows(self) -> int:
        """Bytes of the rows of a chunk, where they are copied at all."""
        setting = self.setting
        copied = setting.sample < 1 or setting.storage != "float32"
        return self.chunk * setting.subcenters * setting.dim * _WIDE if copied else 0

    @property
    def _narrow(self) -> int:
        """The same before they are widened."""
        narrow = self.setting.storage == "bfloat16" and self.setting.sample < 1
        return self._rows // 2 if narrow else 0

    def _forward(self) -> dict[str, int]:
        if self.mode == "plain":
            return {}
        blocks = 1 + 2 * (self.mode == "recompute") + self._of_margin()
        return {"work on a chunk": blocks * self._block + self._rows + self._narrow}

    def _backward(self) -> dict[str, int]:
        if self.mode == "plain":
            return {}
        setting = self.setting
        blocks = 3 + 2 * (self.mode == "recompute") + self._of_margin()
        rows = 2 * self._rows + self._narrow  # those of the chunk before are still there
        if setting.update is None and (setting.sample < 1 or setting.storage != "float32"):
            rows += self._rows  # their gradient
        piece = self.chunk * setting.subcenters
        if setting.device == "cpu":
            piece = min(piece, update._PIECE)
        piece *= setting.dim * _WIDE * (_PIECES[setting.storage] if setting.update else 0)
        return {"work on a chunk": blocks * self._block + rows + piece}

    def _of_margin(self) -> int:
        """Blocks more, for sub-centers and for margins that move wrong classes."""
        margin = MARGINS[self.setting.loss]
        hook = _OF_HOOK[margin().nearest > 0] if margin.alters_negatives else 0
        return 3 * (self.setting.subcenters > 1) + hook

    def _idle(self) -> dict[str, int]:
        """Blocks that are kept for the next step."""
        if self.setting.device != "cpu" or self.mode == "plain":
            return {}
        logits = self._softmax()["logits"]
        return {"logits": logits, "work on a chunk": 3 * self._block}

    def _freed(self) -> int:
        """Copies of a chunk that the C library still holds."""
        copy = self._rows + (self._block if self.mode == "recompute" else 0)
        chunks = -(-self.setting.taking_part // self.chunk)
        return min(chunks - 1, _HELD) * copy if copy <= _RETURNED else 0

    def _network_gradients(self) -> int:
        """And, where there are several processes, what DistributedDataParallel sends of them.

        It orders its copy anew after the first step, and holds both for a moment.
        """
        return self.cost.weights * (3 if self.setting.processes > 1 else 1)

    def _left(self) -> dict[str, int]:
        """What the C library still holds when the optimizer works."""
        copy = self.held["centers"] if self.setting.update is None else 0
        if self.setting.device != "cpu":
            return {}
        return {"freed and not yet reused": self._freed() + (copy if copy <= _RETURNED else 0)}

    def _passing(self) -> int:
        largest = self.cost.largest
        if self.setting.update is None:
            largest = max(largest, self.held["centers"])
        return _PASSING[self.setting.optimizer] * largest
