"""Class centers divided among processes, and what these have to tell each other.

Every process holds a slice of the classes and a share of the batch. Embeddings and labels are
gathered, so that each compares all of them with its own classes; of the softmax only a maximum, a
sum and the target's cosine per sample are exchanged. From then on all know the loss of the whole
batch, and each the exact gradient of its own centers. The gradient of an embedding is the sum of
what all processes have to say about it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from arcset.centers.init import initial_directions
from arcset.errors import InputError, OptionError

_FEW = 1 << 22  # entries of all centers together that every process can hold for a moment
_FAILED = -1  # instead of the size of a share: that process raises an error
_WANTED, _WIDE = 1, 2  # beside the size: a gradient is asked for; the numbers are float64


@dataclass(frozen=True)
class Shard:
    """Which classes this process holds: first … last − 1 of `classes`. Here it holds them all, and
    there is no other process to tell."""

    classes: int
    first: int
    last: int
    rank: int = 0
    count: int = 1
    group: Any = None
    #: Whether several processes hold the centers, each of which brings its own samples.
    shared: ClassVar[bool] = False

    @staticmethod
    def of(group: Any, classes: int) -> "Shard":
        """The part of this process; `group` is a process group, True for the default one, or None.

        Raises `OptionError` where there is no such group, or fewer classes than processes.
        """
        if group is None:
            return Shard(classes, 0, classes)
        if not dist.is_available() or not dist.is_initialized():
            raise OptionError(
                "group: there are no processes to share the centers; start them with torchrun and "
                "call torch.distributed.init_process_group first"
            )
        members = None if group is True else group
        if members is not None and not isinstance(members, dist.ProcessGroup):
            raise OptionError(f"group must be a process group of torch.distributed, not {group!r}")
        rank, count = dist.get_rank(members), dist.get_world_size(members)
        if rank < 0:
            raise OptionError("group: this process is not in the group")
        if not can_share(classes, count):
            raise OptionError(
                f"{classes} classes divided among {count} processes leave some without any: start "
                "fewer"
            )
        borders = _borders(classes, count)
        return SharedShard(classes, borders[rank], borders[rank + 1], rank, count, members)

    def __deepcopy__(self, memo: object) -> "Shard":
        return self

    @property
    def size(self) -> int:
        """How many classes are here."""
        return self.last - self.first

    def local_labels(self, labels: Tensor) -> Tensor:
        """Labels (B,) as numbers of the classes here; −1 for those elsewhere."""
        return labels

    def initial_directions(self, rows: int, dim: int, dtype: torch.dtype) -> Tensor:
        """As the function of that name, for the `rows` here."""
        return initial_directions(rows, dim, dtype)

    def gather_classes(self, rows: Tensor) -> Tensor:
        """What all processes hold of something that has a row per class, (classes, …)."""
        return rows

    def by_class(self, rows: Tensor) -> Tensor:
        """What all processes hold of something with n·K rows for n classes, as one tensor on the
        memory of `rows`: (classes, …), or (classes, K, …) where a class has K > 1 of them."""
        each = len(rows) // self.size
        return rows if each == 1 else rows.view(self.size, each, *rows.shape[1:])

    def join_softmax(
        self, cosine: Tensor, log_sum: Tensor, peak: Tensor, logit_sum: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of all classes, what `ChunkedSoftmax.forward` found of those here; (B,) each.

        cosine: 0 where the target is elsewhere. log_sum: ln Σ exp(z − peak). logit_sum: Σ z.
        """
        return cosine, log_sum, peak, logit_sum

    def top_scores(self, scores: Tensor) -> Tensor:
        """Of each process's highest scores (k, B), the k highest of all; (k, B)."""
        return scores

    def argmax_class(self, values: Tensor, local: Tensor) -> Tensor:
        """The class (B,) with the highest value, from every process's best values (B,) and the
        numbers of their classes there; the first among equals."""
        return local

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes; its gradient is that of each part."""
        return values


class SharedShard(Shard):
    """One process's part of several, all of which take part in every call, in the same order."""

    shared = True

    def local_labels(self, labels: Tensor) -> Tensor:
        here = (labels >= self.first) & (labels < self.last)
        return torch.where(here, labels - self.first, -1)

    def initial_directions(self, rows: int, dim: int, dtype: torch.dtype) -> Tensor:
        """No two processes begin alike.

        Few are made by the first process for all, as it would make them for itself alone.
        """
        per_class = rows // self.size
        if self.classes * per_class * dim <= _FEW:
            made = initial_directions(self.classes * per_class, dim, dtype)
            full = made.cuda() if "nccl" in dist.get_backend(self.group) else made
            dist.broadcast(full, group=self.group, group_src=0)
            own = full[self.first * per_class : self.last * per_class]
            return own.to(made.device, copy=True)
        # Processes may be seeded alike.
        seed = int(torch.randint(2**40, ())) * self.count + self.rank
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return initial_directions(rows, dim, dtype)

    # ---------------------------------------------------------------- batches

    def fail(self, device: torch.device) -> None:
        """Tell the others that nothing will come from here, instead of `gather`."""
        self._numbers(_FAILED, device)

    def gather(self, unit: Tensor, norms: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The whole batch (B, D), (B,), (B,) from every process's share, of any size.

        Of the gradient of `unit` every process has a part, and they are added up; that of `norms`
        is the same everywhere. Both are multiplied by the number of processes, because
        DistributedDataParallel takes the mean of the network's gradients. A process may bring
        samples, or none, that need no gradient, or float32 where others bring float64.

        Raises `InputError` where another process told that it failed.
        """
        wide = _WIDE * (unit.dtype == torch.float64)
        words = self._numbers(4 * len(labels) + wide + _WANTED * unit.requires_grad, unit.device)
        if _FAILED in words:
            which = words.index(_FAILED)
            raise InputError(f"process {which} was given a batch that cannot be used")
        sizes = [word // 4 for word in words]
        if any(word & _WIDE for word in words):
            unit, norms = unit.double(), norms.double()
        if any(word & _WANTED for word in words) and not unit.requires_grad:
            unit = unit.detach().requires_grad_()  # all have to be there on the way back
        return (
            _GatherRows.apply(unit, self, sizes, True),  # type: ignore[no-untyped-call]
            _GatherRows.apply(norms, self, sizes, False),  # type: ignore[no-untyped-call]
            self.gather_rows(labels, sizes),
        )

    def all_rows(self, rows: Tensor) -> Tensor:
        """The rows of all processes, of any number each; without gradient."""
        return self.gather_rows(rows.detach(), self._numbers(len(rows), rows.device))

    def own_rows(self, values: Tensor, count: int) -> Tensor:
        """Of values of the whole batch (B,), those of this process's `count` samples.

        The gradient is that of the mean over all processes: each has its own derivatives.
        """
        sizes = self._numbers(count, values.device)
        return _OwnRows.apply(values, self, sizes)  # type: ignore[no-untyped-call, no-any-return]

    def gather_rows(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """The rows of all processes, one after the other."""
        longest = max(sizes)
        padded = rows.new_zeros(longest, *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded, group=self.group)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def gather_classes(self, rows: Tensor) -> Tensor:
        borders = _borders(self.classes, self.count)
        return self.gather_rows(rows, [end - start for start, end in pairwise(borders)])

    def by_class(self, rows: Tensor) -> Tensor:
        """A DTensor, so that torch.distributed.checkpoint knows who has what."""
        from torch.distributed.device_mesh import DeviceMesh  # these take a second to import
        from torch.distributed.tensor import DTensor
        from torch.distributed.tensor import Shard as Rows

        local = super().by_class(rows)
        whole = torch.Size((self.classes, *local.shape[1:]))
        stride = torch.empty(whole, device="meta").stride()
        group: Any = self.group or dist.group.WORLD
        mesh = DeviceMesh.from_group(group, rows.device.type)
        return DTensor.from_local(
            local, mesh, [Rows(0)], run_check=False, shape=whole, stride=stride
        )

    def _numbers(self, number: int, device: torch.device) -> list[int]:
        """The number that each process gives, in the order of their ranks."""
        own = torch.tensor([number], device=device)
        every = [torch.empty_like(own) for _ in range(self.count)]
        dist.all_gather(every, own, group=self.group)
        return [int(one) for one in every]

    # ---------------------------------------------------------------- the softmax

    def join_softmax(
        self, cosine: Tensor, log_sum: Tensor, peak: Tensor, logit_sum: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        highest = peak.clone()
        dist.all_reduce(highest, dist.ReduceOp.MAX, group=self.group)
        together = torch.stack([cosine, (log_sum + (peak - highest)).exp(), logit_sum])  # (3, B)
        dist.all_reduce(together, group=self.group)
        return together[0], together[1].log(), highest, together[2]

    def top_scores(self, scores: Tensor) -> Tensor:
        parts = [torch.empty_like(scores) for _ in range(self.count)]
        dist.all_gather(parts, scores.contiguous(), group=self.group)
        return torch.cat(parts).topk(len(scores), dim=0).values

    def argmax_class(self, values: Tensor, local: Tensor) -> Tensor:
        highest = values.clone()
        dist.all_reduce(highest, dist.ReduceOp.MAX, group=self.group)
        classes = torch.where(values == highest, local + self.first, self.classes)
        dist.all_reduce(classes, dist.ReduceOp.MIN, group=self.group)
        return classes

    def sum(self, values: Tensor) -> Tensor:
        return _SumOverProcesses.apply(values, self)  # type: ignore[no-untyped-call, no-any-return]


def can_share(classes: int, count: int) -> bool:
    """Whether `count` processes all get some of the classes: equal slices, the last one smaller.

    >>> can_share(10, 4), can_share(10, 6)  # of two: the fifth takes the last
    (True, False)
    """
    return -(-classes // count) * (count - 1) < classes


def _borders(classes: int, count: int) -> list[int]:
    """Where the slices of `count` processes begin, and the last ends: as torch's DTensor has it.

    >>> _borders(10, 4)
    [0, 3, 6, 9, 10]
    """
    size = -(-classes // count)
    return [min(place * size, classes) for place in range(count + 1)]


class _GatherRows(torch.autograd.Function):
    """Rows of all processes; back, the sum of all gradients or this process's own."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, shard: SharedShard, sizes: list[int], partial: bool
    ) -> Tensor:
        ctx.shard, ctx.sizes, ctx.partial = shard, sizes, partial
        return shard.gather_rows(rows, sizes)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        shard, sizes = ctx.shard, ctx.sizes
        if ctx.partial:
            gradient = gradient.contiguous().clone()
            dist.all_reduce(gradient, group=shard.group)
        start = sum(sizes[: shard.rank])
        return gradient[start : start + sizes[shard.rank]] * shard.count, None, None, None


class _OwnRows(torch.autograd.Function):
    """This process's part of what all of them have; back, all parts, divided by their number."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, shard: SharedShard, sizes: list[int]) -> Tensor:
        ctx.shard, ctx.sizes = shard, sizes
        start = sum(sizes[: shard.rank])
        return values[start : start + sizes[shard.rank]].clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        shard = ctx.shard
        return shard.gather_rows(gradient, ctx.sizes) / shard.count, None, None


class _SumOverProcesses(torch.autograd.Function):
    """A sum over processes of something that all of them go on with."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, shard: SharedShard) -> Tensor:
        total = values.detach().clone()
        dist.all_reduce(total, group=shard.group)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        return gradient, None
