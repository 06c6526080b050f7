"""One step of the optimizers: mixed precision, accumulation, clipping, and what was measured."""

import functools
import math
import subprocess
import sys

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from arcset.errors import OptionError
from arcset.losses import Loss
from arcset.runs import RunConfig

__all__ = ["Stepper", "build_optimizer", "check_autocast", "check_stepping"]


class Stepper:
    """Turns batches into changed weights.

    The batch goes through the network in `accumulate` parts, of which each counts by its size, so
    that the gradient is that of the whole batch. Batch norm sees the parts, and so do losses that
    compare samples with each other, as triplet. The network computes in the type that autocast
    says, the loss in float32. With float16 the loss is scaled up before the backward pass; a step
    whose gradients overflow is left out and the factor halved.
    """

    def __init__(self, config: RunConfig, network: nn.Module, loss: Loss, device: torch.device):
        check_stepping(config, loss, device)
        self.network, self.loss, self.device = network, loss, device
        self.optimizer = build_optimizer(config, network, loss)
        self._optimizers = [self.optimizer]
        if loss.update is not None:  # the centers' own, which works during the backward pass
            loss.update.configure(momentum=config.momentum, weight_decay=config.weight_decay)
            self._optimizers.append(loss.update)
        self.parts, self.clip = config.accumulate, config.clip
        self.dtype = None if config.autocast == "none" else getattr(torch, config.autocast)
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.autocast == "float16")
        # Compiled beside, so that names in saved weights stay the network's own.
        self._forward = torch.compile(network) if config.compile else network

    def set_rate(self, rate: float) -> None:
        """The learning rate from now on."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def backward(self, images: Tensor, labels: Tensor) -> tuple[float, Tensor]:
        """Take the gradient of a batch: its loss, and its embeddings (B, D), detached.

        Raises `FloatingPointError` for a loss that is not finite, before anything is changed.
        """
        self.optimizer.zero_grad(set_to_none=True)
        # As even as they get, and none of a single sample, on which batch norm fails.
        parts = max(1, min(self.parts, len(labels) // 2))
        total, embedded = 0.0, []
        for some, theirs in zip(
            images.tensor_split(parts), labels.tensor_split(parts), strict=True
        ):
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None):
                embeddings = self._forward(some)  # (B, D)
            value = self.loss(embeddings.float(), theirs)
            if not math.isfinite(value.item()):
                raise FloatingPointError(f"the loss is {value.item()}")
            share = len(theirs) / len(labels)
            self.scaler.scale(value if share == 1 else value * share).backward()
            total += value.item() * share
            embedded.append(embeddings.detach())
        return total, embedded[0] if len(embedded) == 1 else torch.cat(embedded)

    def update(self) -> float | None:
        """Clip and step; the gradient's norm before clipping where there is a limit to it."""
        norm = None
        if self.clip is not None:
            self.scaler.unscale_(self.optimizer)
            parameters = [*self.network.parameters(), *self.loss.parameters()]
            norm = float(nn.utils.clip_grad_norm_(parameters, self.clip))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.loss.advance()
        return norm


def build_optimizer(config: RunConfig, network: nn.Module, loss: Loss) -> Optimizer:
    """One optimizer over network and loss; weight decay on matrices and kernels only."""
    parameters = [*network.parameters(), *loss.parameters()]
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
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
