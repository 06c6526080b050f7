"""One step of the optimizers: mixed precision, accumulation, clipping, and what was measured."""

import functools
import math
import subprocess
import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from arcset.centers import Centers
from arcset.devices import seed_draws
from arcset.distributed import ProcessGroup
from arcset.errors import OptionError
from arcset.losses import Loss
from arcset.runs import RunConfig

__all__ = ["Stepper", "build_optimizer", "check_autocast", "check_stepping"]

_APART = 1_000_003  # between the seeds of processes that draw from slices of their own


class Stepper:
    """Turns batches into changed weights.

    The batch goes through the network in `accumulate` parts, of which each counts by its size, so
    that the gradient is that of the whole batch. Batch norm sees the parts, and so do losses that
    compare samples with each other, as triplet. The network computes in the type that autocast
    says, the loss in float32. With float16 the loss is scaled up before the backward pass; a step
    whose gradients overflow is left out and the factor halved.
    """

    def __init__(
        self,
        config: RunConfig,
        network: nn.Module,
        loss: Loss,
        device: torch.device,
        processes: ProcessGroup | None = None,
    ):
        check_stepping(config, loss, device)
        self.processes = processes or ProcessGroup()
        self.network, self.loss, self.device = network, loss, device
        self.optimizer = build_optimizer(config, network, loss)
        self._optimizers = [self.optimizer]
        if loss.update is not None:  # the centers' own, which works during the backward pass
            loss.update.configure(momentum=config.momentum, weight_decay=config.weight_decay)
            loss.update.param_groups[0]["share"] = config.center_rate
            self._optimizers.append(loss.update)
        self.parts, self.clip = config.accumulate, config.clip
        self.dtype = None if config.autocast == "none" else getattr(torch, config.autocast)
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.autocast == "float16")
        # Wrapped and compiled beside, so that names in saved weights stay the network's own.
        self._wrapped = self.processes.wrap(network)
        self._forward = torch.compile(self._wrapped) if config.compile else self._wrapped

    def set_rate(self, rate: float) -> None:
        """The learning rate from now on."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["share"]

    def rows(self, batch: int) -> list[list[slice]]:
        """The rows of a batch that go through the network together, and within that by whom."""
        return self.processes.split_rows(batch, self.parts)

    def backward(
        self, images: Tensor, labels: Tensor, rows: list[list[slice]] | None = None, seed: int = 0
    ) -> tuple[float, Tensor]:
        """Take the gradient of a batch: its loss, and its embeddings (B, D), detached.

        Where the centers are shared out, the embeddings are those of this process's rows.

        labels are those of the batch, images those of its rows that are this process's; `rows` are
        those that `self.rows` gives. What the loss draws follows from `seed`, and is the same in
        all processes. Raises `FloatingPointError` for a loss that is not finite, before anything
        is changed.
        """
        self.optimizer.zero_grad(set_to_none=True)
        rows = rows or self.rows(len(labels))
        first = self.processes.own_rows(rows[0]).start
        total, embedded = 0.0, []
        for number, some in enumerate(rows):
            own = self.processes.own_rows(some)
            count = sum(one.stop - one.start for one in some)
            last = number == len(rows) - 1
            with nullcontext() if last else self.processes.no_sync(self._wrapped):
                with torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None):
                    embeddings = self._forward(images[own.start - first : own.stop - first])
                embeddings, theirs = self._for_loss(embeddings, labels, some)
                drawing = self.processes.rank if self.loss.shared else 0  # each from its own slice
                seed_draws(seed + number + drawing * _APART, self.device)
                value = self.loss(_widened(embeddings), theirs)
                measured = value.item()
                if not math.isfinite(measured):
                    raise FloatingPointError(f"the loss is {measured}")
                share = count / len(labels)
                self.scaler.scale(value if share == 1 else value * share).backward()
            total += measured * share
            embedded.append(embeddings.detach())
        self.processes.average_buffers(self.network)
        return total, embedded[0] if len(embedded) == 1 else torch.cat(embedded)

    def _for_loss(
        self, embeddings: Tensor, labels: Tensor, some: list[slice]
    ) -> tuple[Tensor, Tensor]:
        """What the loss is given for `some` rows of a batch, of which `embeddings` are one's own.

        A batch too small to be shared went through every process's network; a loss whose centers
        are shared out must then get it from the first alone.
        """
        if not self.loss.shared:
            theirs = labels[some[0]] if len(some) == 1 else torch.cat([labels[one] for one in some])
            return self.processes.gather(embeddings, some), theirs
        own = labels[self.processes.own_rows(some)]
        if len(some) == 1 and not self.processes.is_main:
            return embeddings[:0], own[:0]
        return embeddings, own

    def update(self) -> float | None:
        """Clip and step; the gradient's norm before clipping where there is a limit to it."""
        norm = None
        if self.clip is not None:
            self.scaler.unscale_(self.optimizer)
            norm = self._clipped(self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.loss.advance()
        return norm

    def _clipped(self, most: float) -> float:
        """Shorten the gradient of network and loss together to `most`; its norm before."""
        everywhere, here = [*self.network.parameters()], [*self.loss.parameters()]
        if not self.loss.shared:
            return float(nn.utils.clip_grad_norm_([*everywhere, *here], most))
        shared = {id(one) for head in self.loss.modules() for one in _slices(head)}
        everywhere += [one for one in here if id(one) not in shared]
        here = [one for one in here if id(one) in shared]
        squares = _squares(here, self.device)
        dist.all_reduce(squares)
        norm = (squares + _squares(everywhere, self.device)).sqrt()
        factor = (most / (norm + 1e-6)).clamp(max=1.0)  # as torch has it
        for one in (*everywhere, *here):
            if one.grad is not None:
                one.grad *= factor.to(one.grad.dtype)
        return float(norm)


def _slices(module: nn.Module) -> list[nn.Parameter]:
    """Its parameters, where these are a slice of something that processes share."""
    shared = isinstance(module, Centers) and module.shard.shared
    return list(module.parameters()) if shared else []


def _squares(parameters: list[nn.Parameter], device: torch.device) -> Tensor:
    """The sum of all squared gradients."""
    total = torch.zeros((), dtype=torch.float64, device=device)
    for one in parameters:
        if one.grad is not None:
            total += one.grad.double().square().sum()
    return total


def _widened(embeddings: Tensor) -> Tensor:
    """In float32 at least."""
    return embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))


def build_optimizer(config: RunConfig, network: nn.Module, loss: Loss) -> Optimizer:
    """One optimizer over network and loss; weight decay on matrices and kernels only."""
    sources = [(network, 1.0), (loss, config.center_rate)]
    if config.center_rate == 1:
        sources = [(nn.ModuleList([network, loss]), 1.0)]
    groups = []
    for module, share in sources:
        trained = [one for one in module.parameters() if one.requires_grad]
        for decay, some in (
            (config.weight_decay, [one for one in trained if one.ndim >= 2]),
            (0.0, [one for one in trained if one.ndim < 2]),
        ):
            groups.append({"params": some, "weight_decay": decay, "share": share})
    if config.optimizer == "adamw":
        return AdamW(groups, lr=config.learning_rate)
    return SGD(groups, lr=config.learning_rate, momentum=config.momentum)


def check_stepping(config: RunConfig, loss: Loss, device: torch.device) -> None:
    """Refuse, with `OptionError`, settings of a step that do not go together or do not work here.

    The centers' own update happens in the backward pass, before anything could be added up.
    """
    if loss.update is not None:
        for name, wanted, refused in (
            ("accumulate", config.accumulate, config.accumulate > 1),
            ("clip", config.clip, config.clip is not None),
            ("autocast", config.autocast, config.autocast == "float16"),
        ):
            if refused:
                raise OptionError(
                    f"{name}={wanted} cannot go with update={config.options['update']}: "
                    "leave one of the two out"
                )
    if loss.shared and config.autocast == "float16":
        raise OptionError(
            "autocast=float16 cannot go with share_centers=true: each process would judge by its "
            "own centers whether a step overflows; use bfloat16"
        )
    if config.autocast != "none" and device.type == "cpu":
        check_autocast(config.autocast)


def check_autocast(dtype: str) -> None:
    """Refuse, with `OptionError`, a type whose convolutions kill the process on this CPU.

    Some virtual machines announce instructions that they do not let programs use, and the library
    that convolves believes them. Tried in a process of its own, which takes two seconds.
    """
    problem = _autocast_problem(dtype, torch.backends.mkldnn.enabled)
    if problem:
        raise OptionError(problem)


@functools.cache
def _autocast_problem(dtype: str, mkldnn: bool) -> str:
    """What is wrong with `dtype` here; nothing where it works."""
    trial = (
        "import torch;"
        f"x=torch.randn(32,8,8,8,requires_grad=True);d=torch.{dtype};"
        "c=torch.nn.Conv2d(8,16,3);l=torch.nn.Linear(576,64)\n"
        f"with torch.backends.mkldnn.flags(enabled={mkldnn}):\n"
        "  with torch.autocast('cpu',d): y=l(c(x).flatten(1))\n"
        "  y.float().sum().backward()"
    )
    done = subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False)
    if done.returncode < 0:
        return (
            f"autocast {dtype} ends in an illegal instruction on this CPU (signal "
            f"{-done.returncode}): leave it out, or try with ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI "
            "in the environment"
        )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return f"autocast {dtype} does not work on this CPU: {' '.join(said)}; leave it out"
    return ""
