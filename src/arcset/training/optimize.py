"""The update step: mixed precision, accumulated gradients, clipping, one or several processes.

The learning rate and the moving average of the weights are functions of the step alone, so that a
continued run needs no state for them.
"""

import copy
import functools
import math
import signal
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

_SEED_STEP = 1_000_003  # between the seeds of processes that draw from slices of their own


class Updater:
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
        group: ProcessGroup | None = None,
    ):
        self.group = group or ProcessGroup()
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
        self._wrapped = self.group.wrap(network)
        self._forward = torch.compile(self._wrapped) if config.compile else self._wrapped

    def set_learning_rate(self, rate: float) -> None:
        """From now on."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["share"]

    def rows(self, batch: int) -> slice:
        """The rows of a batch that this process takes through the network."""
        parts = self.group.split_rows(batch, self.parts)
        return slice(self.group.own_rows(parts[0]).start, self.group.own_rows(parts[-1]).stop)

    def backward(self, images: Tensor, labels: Tensor, seed: int = 0) -> tuple[float, Tensor]:
        """Take the gradient of a batch: its loss, and its embeddings (B, D), detached.

        labels (B,) are those of the batch, images those of this process's `rows`. Where the centers
        are shared out, the embeddings are those of these rows, too. What the loss draws follows
        from `seed`, and is the same in all processes. Raises `FloatingPointError` for a loss that
        is not finite, before anything is changed.
        """
        self.optimizer.zero_grad(set_to_none=True)
        parts = self.group.split_rows(len(labels), self.parts)
        offset = self.group.own_rows(parts[0]).start
        total, embedded = 0.0, []
        for number, part in enumerate(parts):
            rows = self.group.own_rows(part)
            share = sum(each.stop - each.start for each in part) / len(labels)
            is_last = number == len(parts) - 1
            with nullcontext() if is_last else self.group.no_sync(self._wrapped):
                with torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None):
                    embeddings = self._forward(images[rows.start - offset : rows.stop - offset])
                embeddings, targets = self._for_loss(embeddings, labels, part)
                rank = self.group.rank if self.loss.shared else 0  # each draws from its own slice
                seed_draws(seed + number + rank * _SEED_STEP, self.device)
                wide = torch.promote_types(embeddings.dtype, torch.float32)
                loss = self.loss(embeddings.to(wide), targets)
                value = loss.item()
                if not math.isfinite(value):
                    raise FloatingPointError(f"the loss is {value}")
                self.scaler.scale(loss if share == 1 else loss * share).backward()
            total += value * share
            embedded.append(embeddings.detach())
        self.group.average_buffers(self.network)
        return total, embedded[0] if len(embedded) == 1 else torch.cat(embedded)

    def update(self) -> None:
        """Clip and step."""
        if self.clip is not None:
            self.scaler.unscale_(self.optimizer)
            self._clip_gradient(self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.loss.advance()

    def _for_loss(
        self, embeddings: Tensor, labels: Tensor, part: list[slice]
    ) -> tuple[Tensor, Tensor]:
        """What the loss is given for the rows `part`, of which `embeddings` are this process's.

        A batch too small to be shared went through every process's network; a loss whose centers
        are shared out must then get it from the first alone.
        """
        if not self.loss.shared:
            targets = [labels[rows] for rows in part]
            return self.group.gather(embeddings, part), torch.cat(targets)
        targets_here = labels[self.group.own_rows(part)]
        if len(part) == 1 and not self.group.is_main:
            return embeddings[:0], targets_here[:0]
        return embeddings, targets_here

    def _clip_gradient(self, limit: float) -> None:
        """Shorten the gradient of network and loss together to `limit`."""
        parameters = [*self.network.parameters(), *self.loss.parameters()]
        if not self.loss.shared:
            nn.utils.clip_grad_norm_(parameters, limit)
            return
        # Slices of shared centers differ between processes; all else is the same in each.
        slices = {
            id(parameter)
            for module in self.loss.modules()
            if isinstance(module, Centers) and module.shard.shared
            for parameter in module.parameters()
        }
        squares = self._squares([each for each in parameters if id(each) in slices])
        dist.all_reduce(squares)
        squares += self._squares([each for each in parameters if id(each) not in slices])
        factor = (limit / (squares.sqrt() + 1e-6)).clamp(max=1.0)  # as torch has it
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad *= factor.to(parameter.grad.dtype)

    def _squares(self, parameters: list[nn.Parameter]) -> Tensor:
        """The sum of all squared gradients."""
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for parameter in parameters:
            if parameter.grad is not None:
                total += parameter.grad.double().square().sum()
        return total


def build_optimizer(config: RunConfig, network: nn.Module, loss: Loss) -> Optimizer:
    """One optimizer over network and loss; weight decay on matrices and kernels only."""
    sources = [(network, 1.0), (loss, config.center_rate)]
    if config.center_rate == 1:
        sources = [(nn.ModuleList([network, loss]), 1.0)]
    groups = []
    for module, share in sources:
        trained = [each for each in module.parameters() if each.requires_grad]
        for decay, parameters in (
            (config.weight_decay, [each for each in trained if each.ndim >= 2]),
            (0.0, [each for each in trained if each.ndim < 2]),
        ):
            groups.append({"params": parameters, "weight_decay": decay, "share": share})
    if config.optimizer == "adamw":
        return AdamW(groups, lr=config.learning_rate)
    return SGD(groups, lr=config.learning_rate, momentum=config.momentum)


def check_update_settings(config: RunConfig, loss: Loss, device: torch.device) -> None:
    """Refuse, with `OptionError`, settings of a step that do not go together or do not work here.

    The centers' own update happens in the backward pass, before anything could be added up.
    """
    if loss.update is not None:
        for name, value, is_refused in (
            ("accumulate", config.accumulate, config.accumulate > 1),
            ("clip", config.clip, config.clip is not None),
            ("autocast", config.autocast, config.autocast == "float16"),
        ):
            if is_refused:
                raise OptionError(
                    f"{name}={value} cannot go with update={config.options['update']}: "
                    "leave one of the two out"
                )
    if loss.shared and config.autocast == "float16":
        raise OptionError(
            "autocast=float16 cannot go with share_centers=true: each process would judge by its "
            "own centers whether a step overflows; use bfloat16"
        )
    if config.autocast != "none" and device.type == "cpu":
        problem = autocast_problem(config.autocast, torch.backends.mkldnn.enabled)
        if problem:
            raise OptionError(problem)


@functools.cache
def autocast_problem(dtype: str, mkldnn: bool) -> str:
    """What is wrong with computing in `dtype` on this CPU; empty where it works.

    Some virtual machines announce instructions that they do not let programs use, and the library
    that convolves, `mkldnn`, believes them. Tried in a process of its own, which takes two seconds.
    """
    trial = (
        "import torch;"
        f"x=torch.randn(32,8,8,8,requires_grad=True);d=torch.{dtype};"
        "c=torch.nn.Conv2d(8,16,3);l=torch.nn.Linear(576,64)\n"
        f"with torch.backends.mkldnn.flags(enabled={mkldnn}):\n"
        "  with torch.autocast('cpu',d): y=l(c(x).flatten(1))\n"
        "  y.float().sum().backward()"
    )
    done = subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False)
    if not done.returncode:
        return ""
    if done.returncode < 0:
        why = f"{signal.strsignal(-done.returncode)} (signal {-done.returncode})"
    else:
        why = " ".join(done.stderr.decode(errors="replace").strip().splitlines()[-1:])
        why = why or f"exit code {done.returncode}"
    return (
        f"autocast={dtype} does not work on this CPU, {why}: leave it out, or try with "
        "ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI in the environment"
    )


_RISE = 0.3  # share of all steps in which one-cycle rises
_START, _END = 1 / 25, 1e-5  # of the peak


def learning_rate(
    step: int, steps: int, peak: float, schedule: str, warm_up: float | None = None
) -> float:
    """The learning rate of step `step` (0 … steps − 1).

    `one-cycle` rises to the peak in the first 30 % of the steps and falls to almost nothing, both
    along a cosine (Smith and Topin, 2018); `cosine` falls from the peak; `constant` stays.
    `warm_up` is another share of the steps for the rise: along a cosine from 1/25 of the peak in
    one-cycle, along a line from next to nothing in the others, where it is 0 if not given.

        >>> [round(learning_rate(step, 10, 1.0, "one-cycle"), 3) for step in (0, 2, 9)]
        [0.04, 1.0, 0.0]
        >>> [round(learning_rate(step, 11, 1.0, "cosine"), 3) for step in (0, 5, 10)]
        [1.0, 0.5, 0.0]
        >>> [round(learning_rate(step, 10, 1.0, "cosine", 0.2), 3) for step in (0, 1, 2, 9)]
        [0.5, 1.0, 1.0, 0.0]
    """
    last = max(steps - 1, 1)
    if schedule == "one-cycle":
        share = _RISE if warm_up is None else warm_up
        warm = share * steps - 1  # the step of the peak, as torch's OneCycleLR counts
        if step < warm:
            return _along_cosine(_START * peak, peak, step / warm)
        return _along_cosine(peak, _END * peak, (step - warm) / (last - warm))
    rising = round((warm_up or 0.0) * steps)
    if step < rising:
        return peak * (step + 1) / rising
    if schedule == "constant":
        return peak
    return _along_cosine(peak, _END * peak, (step - rising) / max(last - rising, 1))


def _along_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


class WeightAverage:
    """A copy of a network whose weights follow it: average ← d·average + (1 − d)·weights.

    The average recognizes better than the weights themselves (Polyak and Juditsky, Acceleration of
    stochastic approximation by averaging, 1992). d grows from 0.1 to `decay` in the first steps,
    (1 + t)/(10 + t), so that the random weights at the start are forgotten soon. Running statistics
    are averaged like weights; whole numbers, as counts of batches, are copied.

        >>> network = nn.Linear(1, 1, bias=False)
        >>> _ = network.weight.data.fill_(0.0)
        >>> average = WeightAverage(network, decay=0.9)
        >>> _ = network.weight.data.fill_(1.0)
        >>> average.update(network, step=0)
        >>> round(average.network.weight.item(), 3)
        0.9
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        """Follow `network` after training step `step` (from 0)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averages: list[Tensor] = []
        weights: list[Tensor] = []
        for average, weight in zip(_tensors(self.network), _tensors(network), strict=True):
            if average.is_floating_point():
                averages.append(average)
                weights.append(weight.detach())
            else:
                average.copy_(weight)
        torch._foreach_lerp_(averages, weights, 1 - decay)


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]
