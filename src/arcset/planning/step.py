"""What is alive at each moment of a step, after the code of `arcset.centers`.

On the CPU, blocks that the softmax has used are kept for the next step
(`arcset.centers.storage.Recycler`), so that they count afterwards, too.
"""

from dataclasses import dataclass

from arcset.centers import update
from arcset.margins import MARGINS
from arcset.planning.network import NetworkCost
from arcset.planning.setting import Setting

__all__ = ["INDEX", "KEPT", "WIDE", "Moment", "StepMemory"]

WIDE = 4  # bytes of float32, in which all is computed
INDEX = 8  # of int64 and float64
#: Copies of the weights that torch's optimizers keep, and need for a moment on top of them.
KEPT = {"sgd": 1, "adamw": 2}
_PASSING = {"sgd": 1, "adamw": 2}
#: Copies of a piece of rows while an update is applied to it: themselves, gradient, momentum, and
#: for centers in bfloat16 the numbers they are rounded with.
_PIECES = {"float32": 4, "bfloat16": 8}
#: The C library returns larger blocks to the system at once. Of smaller ones that come and go, it
#: was seen to hold up to so many more than are in use, since a freed one seldom fits the next.
_RETURNED = 32 << 20
_HELD = 2
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
class StepMemory:
    """Forward, backward, and the optimizer's part."""

    setting: Setting
    mode: str
    chunk: int
    cost: NetworkCost
    held: dict[str, int]

    def moments(self) -> list[Moment]:
        """In the order of a step."""
        own = {**self.held, **self._batch(), **self._softmax(), "activations": self.cost.kept}
        forward = Moment("the forward pass", {**own, **self._forward()})
        gradient = {} if self.setting.update else {"their gradient": self.held["centers"]}
        backward = Moment(
            "the backward pass", {**own, **gradient, **self._backward(), **self._unused()}
        )
        found = [forward, backward]
        later = {**self.held, **self._idle(), **gradient}
        later["network's gradients"] = self._network_gradients()
        if self.setting.network is not None:
            both = {**self._batch(), "activations": self.cost.kept + self.cost.passing}
            found.append(Moment("the network's backward pass", {**later, **both}))
        if self.setting.network is not None or self.setting.update is None:
            copies = {"passing copies of the optimizer": self._passing()}
            parts = {**later, **copies, **self._unused(afterwards=True)}
            found.append(Moment("the optimizer's step", parts))
        return found

    def _batch(self) -> dict[str, int]:
        """Embeddings, their directions and gradients; of all processes, and this one's own."""
        setting = self.setting
        copies = 3 if setting.processes == 1 else 5  # also on the way in, and when added up
        row = (setting.dim * WIDE + 4 * INDEX) * setting.together
        own = 3 * setting.dim * WIDE * setting.batch
        return {"embeddings of all": copies * row + own}

    def _softmax(self) -> dict[str, int]:
        """What a step keeps from forward to backward."""
        setting = self.setting
        found = {"logits": 0, "classes drawn": 0}
        if self.mode == "store":
            found["logits"] = setting.drawn * setting.together * WIDE
        elif self.mode == "plain":
            found["logits"] = 6 * setting.drawn * (setting.together + setting.dim) * WIDE
        if setting.sample < 1:
            found["classes drawn"] = 5 * setting.taking_part * INDEX
        found["lengths and sums"] = setting.drawn * WIDE + self._sums()
        return found

    def _sums(self) -> int:
        return 2 * self._chunks * self.setting.together * WIDE

    @property
    def _chunks(self) -> int:
        return -(-self.setting.taking_part // self.chunk)

    @property
    def _turns(self) -> int:
        """How many chunks are alive: when one is begun, that before it is still there."""
        return min(self._chunks, 2)

    @property
    def _block(self) -> int:
        """Bytes of the logits of a chunk."""
        return self.chunk * self.setting.subcenters * self.setting.together * WIDE

    @property
    def _rows(self) -> int:
        """Bytes of the rows of a chunk, where they are copied at all."""
        setting = self.setting
        copied = setting.sample < 1 or setting.storage != "float32"
        return self.chunk * setting.subcenters * setting.dim * WIDE if copied else 0

    @property
    def _narrow(self) -> int:
        """The same before they are widened."""
        narrow = self.setting.storage == "bfloat16" and self.setting.sample < 1
        return self._rows // 2 if narrow else 0

    def _forward(self) -> dict[str, int]:
        if self.mode == "plain":
            return {}
        blocks = 1 + self._turns * (self.mode == "recompute") + self._of_margin()
        return {"work on a chunk": blocks * self._block + self._rows + self._narrow}

    def _backward(self) -> dict[str, int]:
        if self.mode == "plain":
            return {}
        setting = self.setting
        blocks = 3 + self._turns * (self.mode == "recompute") + self._of_margin()
        rows = 2 * self._rows + self._narrow  # also of the chunk before, or of the way there
        if setting.update is None and (setting.sample < 1 or setting.storage != "float32"):
            rows += self._rows  # their gradient
        piece = self.chunk * setting.subcenters
        if setting.device == "cpu":
            piece = min(piece, update._PIECE)
        piece *= setting.dim * WIDE * (_PIECES[setting.storage] if setting.update else 0)
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

    def _unused(self, *, afterwards: bool = False) -> dict[str, int]:
        """What the C library still holds: copies of a chunk, and afterwards of small centers."""
        if self.setting.device != "cpu":
            return {}
        copy = self._rows + (self._block if self.mode == "recompute" else 0)
        found = min(self._chunks - 1, _HELD) * copy if copy <= _RETURNED else 0
        centers = self.held["centers"] if self.setting.update is None else 0
        if afterwards and centers <= _RETURNED:
            found += centers
        return {"freed and not yet reused": found}

    def _network_gradients(self) -> int:
        """And, where there are several processes, what DistributedDataParallel sends of them.

        It orders its copy anew after the first step, and holds both for a moment.
        """
        return self.cost.weights * (3 if self.setting.processes > 1 else 1)

    def _passing(self) -> int:
        largest = self.cost.largest
        if self.setting.update is None:
            largest = max(largest, self.held["centers"])
        return _PASSING[self.setting.optimizer] * largest
