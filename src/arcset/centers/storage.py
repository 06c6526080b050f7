"""The C × D matrix of class centers, and the memory that the softmax over it works in."""

import threading
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from arcset.centers.sharded import Shard
from arcset.centers.update import STATES, CenterUpdate, build_update
from arcset.devices import check_memory
from arcset.numerics import unit_rows, widen

_LOOKED_AT = 1 << 24  # scores in memory at a time where the nearest class is sought
_WORTHWHILE = 2**20  # bytes; the system's own allocator is good at smaller blocks
_LONGER = 32
_LARGE = 1 << 30  # bytes from which on it is asked how much memory is free
_KEPT = 4  # free blocks at most: logits, gradient, and room for one chunk there and back


class Centers(nn.Module):
    """C classes in R^D with K centers each, compared with embeddings by cosine.

    Used as normalized copies only; the parameter itself stays free. Its length then sets the
    effective learning rate, since the gradient of a direction falls as 1/‖W_j‖: rows start with
    length 1 (`initial_directions`), and only weight decay and the optimizer's steps change that.

    With K > 1 sub-centers a class is as near as its nearest one; the rows of class j are
    jK … jK + K − 1. `usage` counts which of them the samples of each class chose in training: the
    one chosen most is the class's dominant center.

    With a `shard`, this process holds its slice of the classes: C is the number of these.
    """

    usage: Tensor
    squares: Tensor

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        subcenters: int = 1,
        bias: bool = False,
        dtype: torch.dtype = torch.float32,
        shard: Shard | None = None,
    ) -> None:
        super().__init__()
        self.shard = Shard.of(None, classes) if shard is None else shard
        classes = self.shard.size
        self.dim, self.classes, self.subcenters = dim, classes, subcenters
        check_room(classes * subcenters, dim, dtype)
        initial = self.shard.initial_directions(classes * subcenters, dim, dtype)
        self.weight = nn.Parameter(initial)  # (C·K, D)
        self.bias = nn.Parameter(torch.zeros(classes)) if bias else None
        if subcenters > 1:
            usage = torch.zeros(classes, subcenters, dtype=torch.int64)
            self.register_buffer("usage", usage)  # (C, K)
        self.memory = Recycler()
        self.update: CenterUpdate | None = None

    def directions(self) -> Tensor:
        """All centers as unit rows, (C·K, D)."""
        return unit_rows(widen(self.weight))[0]

    def dominant(self) -> Tensor:
        """One unit row per class, (C, D): its only center, or the one chosen most in training."""
        if self.subcenters == 1:
            return self.directions()
        chosen = self.usage.argmax(dim=1)  # (C,) the first where none was chosen yet
        rows = torch.arange(self.classes, device=chosen.device) * self.subcenters + chosen
        return unit_rows(widen(self.weight[rows]))[0]

    def nearest(self, unit: Tensor, scale: float, among: int) -> Tensor:
        """The one of the first `among` classes with the highest s·cos θ + b; (B,).

        unit (B, D): unit rows. Among equals the first. With a shard, of the classes of all
        processes, which must ask together.
        """
        best = unit.new_full((len(unit),), -torch.inf)
        nearest = torch.zeros(len(unit), dtype=torch.int64, device=unit.device)
        size = max(1, _LOOKED_AT // max(1, len(unit) * self.subcenters))  # classes at a time
        here = min(self.classes, among - self.shard.first)
        for first in range(0, here, size):
            last = min(first + size, here)
            rows = self.weight[first * self.subcenters : last * self.subcenters]
            scores = unit @ unit_rows(widen(rows).to(unit.dtype))[0].T * scale  # (B, n·K)
            scores = scores.view(len(unit), -1, self.subcenters).amax(dim=2)
            if self.bias is not None:
                scores += self.bias[first:last].to(scores)
            value, column = scores.max(dim=1)
            better = value > best
            nearest[better] = column[better] + first
            best = torch.maximum(best, value)
        return self.shard.argmax_class(best, nearest)

    def set(self, full: Tensor) -> None:
        """Replace all centers by `full` (C, D); lengths are kept as given.

        Sub-centers all start from their class's row, and part again as samples choose them.
        """
        with torch.no_grad():
            self.weight.copy_(full.repeat_interleave(self.subcenters, dim=0))

    @torch.no_grad()
    def count_usage(self, labels: Tensor, chosen: Tensor) -> None:
        """Count that samples of classes `labels` (B,) chose sub-centers `chosen` (B,)."""
        self.usage.index_put_((labels, chosen), torch.ones_like(labels), accumulate=True)

    def fuse_update(self, kind: str, **options: float | bool) -> CenterUpdate:
        """Update the centers during the backward pass from now on; see `arcset.centers.update`."""
        self.weight.grad = None  # a left-over gradient would let other optimizers move the centers
        self.update = build_update(kind, self, **options)
        return self.update

    def set_state(self, name: str, state: Tensor | None) -> None:
        """Replace the buffers of an update by this one; None for no buffer at all."""
        for other in STATES:
            if other in self._buffers:
                del self._buffers[other]
        if state is not None:
            self.register_buffer(name, state)

    def _apply(self, fn: Any, recurse: bool = True) -> "Centers":
        """As for any module, but sums of squares stay in float32 at least."""
        squares = self._buffers.get("squares")
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if squares is not None and self.squares.dtype in (torch.float16, torch.bfloat16):
            self.squares = squares.to(self.squares.device)
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **options: Any
    ) -> None:
        """An update's state is optional: without it one starts from zero, as a fresh update."""
        for name in STATES:
            own, key = self._buffers.get(name), prefix + name
            if own is None:
                state_dict.pop(key, None)
            elif key not in state_dict:
                device = "cpu" if own.is_meta else own.device
                state_dict[key] = torch.zeros_like(own, device=device)
        super()._load_from_state_dict(state_dict, prefix, *rest, **options)


def class_rows(classes: Tensor, per_class: int) -> Tensor:
    """The rows of W that belong to classes (n,): (n·K,), those of a class beside each other.

    >>> class_rows(torch.tensor([0, 3]), per_class=2).tolist()
    [0, 1, 6, 7]
    """
    if per_class == 1:
        return classes
    within = torch.arange(per_class, device=classes.device)
    return (classes[:, None] * per_class + within).flatten()


def check_room(rows: int, dim: int, dtype: torch.dtype = torch.float32) -> None:
    """Raise `OptionError` where class centers (rows, dim) do not fit into the free memory."""
    device, needed = torch.get_default_device(), rows * dim * dtype.itemsize
    if needed >= _LARGE and device.type != "meta":
        what = f"{rows:,} class centers of {dim:,} dimensions"
        check_memory(what, needed, device, "choose a smaller dim, fewer classes or subcenters")


class Recycler:
    """Hands out uninitialized tensors; their memory returns when the last reference to it is gone.

    Fresh memory is slow on the CPU: the system hands it out page by page and zeroes each. At a
    million classes that takes as long as the arithmetic. CUDA's allocator in torch keeps freed
    blocks for this reason; on the CPU this one does.

    A tensor is never handed out twice while anyone can still see it: not while an optimizer
    reads the gradient, nor while a user keeps it.

        >>> recycler = Recycler()
        >>> first = recycler.empty((1000, 1000), torch.float32, torch.device("cpu"))
        >>> address = first.data_ptr()
        >>> del first
        >>> recycler.empty((1000, 1000), torch.float32, torch.device("cpu")).data_ptr() == address
        True
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray[Any, Any]] = []  # each (bytes,), the oldest first
        self._lock = threading.RLock()  # a tensor may be dropped at any moment, by any thread

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Like `torch.empty`, contiguous."""
        size = torch.Size(shape).numel() * dtype.itemsize
        if device.type != "cpu" or size < _WORTHWHILE:
            return torch.empty(shape, dtype=dtype, device=device)
        block = self._take(size)
        view = block[:size]  # a new array on the same memory, which the tensor keeps alive
        weakref.finalize(view, _give_back, weakref.ref(self), block).atexit = False
        return torch.from_numpy(view).view(dtype).view(shape)

    def release(self) -> None:
        """Return the free blocks to the system."""
        self._free.clear()

    def idle(self) -> int:
        """Bytes that are kept and not in use."""
        return sum(len(block) for block in list(self._free))

    def _take(self, size: int) -> "np.ndarray[Any, Any]":
        with self._lock:
            for block in list(self._free):
                if size <= len(block) <= size + size // 4:
                    self._free = [other for other in self._free if other is not block]
                    return block
        # Somewhat longer, which costs nothing until it is used: where classes are drawn, the next
        # step may need a few rows more.
        return np.empty(size + size // _LONGER, dtype=np.uint8)

    def _give_back(self, block: "np.ndarray[Any, Any]") -> None:
        with self._lock:
            self._free = [*self._free, block][-_KEPT:]

    def __deepcopy__(self, memo: object) -> "Recycler":
        return Recycler()

    def __reduce__(self) -> tuple[type["Recycler"], tuple[()]]:
        return Recycler, ()


def _give_back(recycler: "weakref.ref[Recycler]", block: "np.ndarray[Any, Any]") -> None:
    owner = recycler()
    if owner is not None:
        owner._give_back(block)
