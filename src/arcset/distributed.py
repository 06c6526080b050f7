"""One process, or several that train together: `torchrun --nproc-per-node 4 -m arcset train …`.

Besides `arcset.centers.sharded`, this is all that talks to torch.distributed.

Every process holds the whole network and all class centers, or with `share_centers` a slice of
them. A batch is drawn the same in all, and each takes its rows of it through the network. The
embeddings are gathered, so that every process sees the loss of the whole batch and the same
gradient of the centers, whatever the loss: also one that compares samples with each other, or keeps
statistics of a batch. (A loss whose centers are shared out is given each process's own rows, and
gathers what it needs by itself: see `arcset.centers.sharded`.) The network's gradient is summed by
torch's DistributedDataParallel. So the update is that of one process, up to rounding; only batch
norm sees no more than its own process's rows.
"""

import atexit
import itertools
import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from arcset.errors import OptionError, RunError
from arcset.launch import world_size

_PATIENCE = timedelta(hours=1)  # that the others wait while the first validates and writes


class ProcessGroup:
    """Alone: everything is done here, and nothing needs to be agreed on."""

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes and speaks for all."""
        return self.rank == 0

    def split_rows(self, batch: int, parts: int) -> list[list[slice]]:
        """Which rows of a batch go through the network together, and within that by whom.

        As even as they get, and never a single row, on which batch norm fails: a batch too small to
        be shared is taken by every process as a whole, and its list then names one only.

            >>> ProcessGroup().split_rows(10, 2)
            [[slice(0, 5, None)], [slice(5, 10, None)]]
        """
        sharing = self.size if batch >= 2 * self.size else 1
        shares = _split(slice(0, batch), sharing)
        smallest = batch // sharing
        by_process = [_split(share, max(1, min(parts, smallest // 2))) for share in shares]
        return [list(rows) for rows in zip(*by_process, strict=True)]

    def own_rows(self, rows: list[slice]) -> slice:
        """Of the rows that go through together, those of this process."""
        return rows[self.rank if len(rows) > 1 else 0]

    def gather(self, embeddings: Tensor, rows: list[slice]) -> Tensor:
        """The embeddings of all `rows`, from those of this process (n, D)."""
        return embeddings

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network, such that gradients are those of the whole batch."""
        return network

    def no_sync(self, wrapped: nn.Module) -> AbstractContextManager[None]:
        """For a backward pass that others follow before the step: nothing is exchanged yet."""
        return nullcontext()

    def average_buffers(self, network: nn.Module) -> None:
        """Average what the network has counted in its buffers, as batch norm's statistics."""

    def broadcast(self, value: Any) -> Any:
        """The main process's value, anything that can be pickled; all wait for it."""
        return value

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Of each flag, whether it is true in any process."""
        return flags

    def barrier(self) -> None:
        """Until all have come here."""


class _TorchGroup(ProcessGroup):
    """One of several processes in torch's default group."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def gather(self, embeddings: Tensor, rows: list[slice]) -> Tensor:
        if len(rows) == 1:
            return embeddings
        sizes = [part.stop - part.start for part in rows]
        return _Gather.apply(embeddings, sizes, self.rank)  # type: ignore[no-any-return, no-untyped-call]

    def wrap(self, network: nn.Module) -> nn.Module:
        if not any(parameter.requires_grad for parameter in network.parameters()):
            return network
        with warnings.catch_warnings():
            # Newer versions have another name for it, which older ones do not know.
            warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
            return DistributedDataParallel(network, broadcast_buffers=False)

    def no_sync(self, wrapped: nn.Module) -> AbstractContextManager[None]:
        if isinstance(wrapped, DistributedDataParallel):
            return wrapped.no_sync()
        return nullcontext()

    @torch.no_grad()
    def average_buffers(self, network: nn.Module) -> None:
        counting = [module for module in network.modules() if module.training]  # not frozen
        every = [buffer for module in counting for buffer in module.buffers(recurse=False)]
        buffers = [buffer for buffer in every if buffer.is_floating_point()]
        if not buffers:
            return
        flat = torch.cat([buffer.flatten() for buffer in buffers])
        dist.all_reduce(flat)
        flat /= self.size
        parts = flat.split([buffer.numel() for buffer in buffers])
        for buffer, part in zip(buffers, parts, strict=True):
            buffer.copy_(part.view_as(buffer))

    def broadcast(self, value: Any) -> Any:
        content = [value]
        dist.broadcast_object_list(content, src=0)
        return content[0]

    def any(self, *flags: bool) -> tuple[bool, ...]:
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        highest = torch.tensor(flags, dtype=torch.int32, device=device)
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        return tuple(bool(flag) for flag in highest.tolist())

    def barrier(self) -> None:
        dist.barrier()


class _Gather(torch.autograd.Function):
    """All processes' rows (N, D), one after the other; the gradient goes back to those of each."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.sizes, ctx.rank = sizes, rank
        padded = own.new_zeros(max(sizes), own.shape[1])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        own = gradient.split(ctx.sizes)[ctx.rank]
        # DistributedDataParallel divides the sum over processes by their number.
        return own * len(ctx.sizes), None, None


def join_group(device: torch.device) -> ProcessGroup:
    """This process among those that torchrun has started, or alone.

    The group is made once and stays until the process ends: a second one would meet what the first
    has left behind.
    """
    if not (dist.is_available() and dist.is_initialized()):
        if world_size() < 2:
            return ProcessGroup()
        if device.type == "mps":
            raise OptionError("several processes cannot share an MPS device; use --device cpu")
        store, rank, count = next(rendezvous("env://", timeout=_PATIENCE))
        # After a restart the store may still hold where the processes before could be reached.
        store = PrefixStore(f"arcset/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        if device.type == "cuda":
            torch.cuda.set_device(device)  # where collectives without a tensor of ours take place
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=count, timeout=_PATIENCE
        )
        atexit.register(_leave_group)
    return _TorchGroup() if dist.get_world_size() > 1 else ProcessGroup()


def _leave_group() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def on_main(is_main: bool, group: Any = None) -> Callable[[Callable[[], None]], None]:
    """Something that does its argument in the main process of several, while the others wait."""

    def stage(work: Callable[[], None]) -> None:
        run_together(work if is_main else lambda: None, together=True, group=group)

    return stage


def run_together(stage: Callable[[], object], *, together: bool, group: Any = None) -> None:
    """Do `stage`, and with `together` wait until every process of the group has done its own.

    What one process cannot do, all of them give up, so that none is left waiting: it raises its
    error, and all others a `RunError` that repeats it.
    """
    problem = None
    try:
        stage()
    except Exception as error:
        if not together:
            raise
        problem = error
    if not together:
        return
    problems: list[str | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(problems, None if problem is None else str(problem), group=group)
    if problem is not None:
        raise problem
    for rank, message in enumerate(problems):
        if message is not None:
            raise RunError(f"process {rank}: {message}")


def _split(rows: slice, parts: int) -> list[slice]:
    """As `torch.tensor_split` splits."""
    size, more = divmod(rows.stop - rows.start, parts)
    ends = [rows.start + number * size + min(number, more) for number in range(parts + 1)]
    return [slice(first, last) for first, last in itertools.pairwise(ends)]
