"""When training breaks or does not move: what went wrong, where, and what to try."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from arcset.data import as_float
from arcset.errors import TrainingError
from arcset.losses import Loss
from arcset.margins import Margin
from arcset.runs import RunConfig
from arcset.training.expectation import blind_loss, chance_loss, least_loss

__all__ = ["Doctor", "first_broken_layer"]

_STUCK = 0.98  # of what guessing costs, or of an earlier loss: not less than that is no progress
_FAR_OFF = 2.0  # times what guessing costs: a first loss above this comes from somewhere else
_ALIKE = 0.99  # mean cosine to the mean direction: embeddings that all point the same way
_SLOW = 1e-4  # a learning rate that may be too small to see anything happen
_FAST = {"sgd": 1.0, "adamw": 0.02}  # learning rates above which few networks learn
_LEAST_SHARE = 0.1  # of all epochs that training gets before it is called stuck
_LEAST_STEPS = 20  # that it gets as well
_WAITED = 2  # epochs without progress
_REMEMBERED = ("warned", "best", "waited", "done")
_UNREACHABLE = 0.6  # of what guessing costs: a least loss above this leaves little to learn


@dataclass
class Doctor:
    """Watches one run for losses that are not finite or do not fall, and names likely causes."""

    config: RunConfig
    network: nn.Module
    loss: Loss
    warned: bool = False
    best: float = math.inf  # loss of an epoch, since the margin is complete
    waited: int = 0  # epochs since then that were no better
    done: int = 0  # steps before this epoch

    def remembered(self) -> dict[str, Any]:
        """What a continued run needs to know, for `recall`."""
        return {name: getattr(self, name) for name in _REMEMBERED}

    def recall(self, remembered: dict[str, Any]) -> None:
        """Go on with what was `remembered`; nothing at the start of a run."""
        for name, value in remembered.items():
            setattr(self, name, value)

    def first(self, value: float) -> str | None:
        """What is odd about the loss of the very first step, if anything."""
        blind = blind_loss(self.loss, step=0)
        if blind is not None and (bounded := self._bounded(blind)):
            self.warned = True  # nothing else can be told before that is mended
            return bounded
        chance = chance_loss(self.loss, step=0)
        if chance is None or value <= _FAR_OFF * chance + 1:
            return None
        return (
            f"the first loss is {value:.1f}, and guessing would cost {chance:.1f}"
            f"{self._described()}: the network's outputs are very large or the data is not what it "
            "should be; look at it with `arcset data check`"
        )

    def epoch(self, epoch: int, mean: float, step: int, embeddings: Tensor) -> str | None:
        """What is wrong, once, where an epoch's loss tells that nothing is learned.

        That is a loss still as high as that of guessing, or higher than that of a network which
        gives the same answer to everything, and no longer falling.
        mean: the epoch's loss. step: steps done. embeddings (B, D): of some of its samples.
        """
        chance, blind = (of(self.loss, step=step) for of in (chance_loss, blind_loss))
        if self.warned or chance is None or blind is None:
            return None
        if self.done < self._complete() or mean < _STUCK * self.best:
            self.waited, self.best = 0, mean
        else:
            self.waited += 1
        self.done = step
        if epoch < max(2, _LEAST_SHARE * self.config.epochs) or step < _LEAST_STEPS:
            return None
        if mean >= _STUCK * chance:
            against = f"guessing costs {chance:.2f}"
        elif mean > blind and self.waited >= _WAITED:
            against = f"the same answer to everything costs {blind:.2f}"
        else:
            return None
        self.warned = True
        return (
            f"the loss is stuck: {mean:.2f} after {epoch} epochs, and {against}"
            f"{self._described()}: {self._cause(blind, embeddings)}"
        )

    def broken(self, what: str, images: Tensor, epoch: int, rate: float) -> TrainingError:
        """The error for a run that cannot go on; `images` are what the network was given."""
        layer = first_broken_layer(self.network, images, self.config.autocast)
        place = f"; the first values that are not finite come out of layer {layer}" if layer else ""
        dtype = next(self.network.parameters()).dtype
        advice = f"try a tenth of that rate{'' if self.config.clip else ', or --set clip=5'}"
        if self.config.autocast == "float16":
            dtype = torch.float16
            advice = "float16 ends at 65,504: try --set autocast=bfloat16 first"
        return TrainingError(
            f"training stopped in epoch {epoch}: {what}{place}; the learning rate was {rate:.3g} "
            f"and the weights are {dtype}: {advice}"
            f"{' (the epochs before are kept)' if epoch > 1 else ''}"
        )

    def check_health(self, network: nn.Module, images: Tensor, epoch: int, rate: float) -> None:
        """Refuse to keep an epoch whose weights or embeddings are not finite."""
        if first_broken_layer(network, images) is not None:
            raise self.broken("the embeddings are not finite", images, epoch, rate)

    def _complete(self) -> int:
        """The step from which on the margin is complete; before it, a loss may well rise."""
        margins = [part for part in self.loss.modules() if isinstance(part, Margin)]
        return max((margin.warmup.steps for margin in margins), default=0)

    def _described(self) -> str:
        settings = self.loss.settings()
        said = [f"{self.loss.classes:,} classes"]
        said += [f"{name} {settings[name]:g}" for name in ("scale", "margin") if name in settings]
        return f" (with {', '.join(said)})"

    def _cause(self, blind: float, embeddings: Tensor) -> str:
        if bounded := self._bounded(blind):
            return bounded
        rate = self.config.learning_rate
        if rate < _SLOW:
            return f"the learning rate is very small; try --lr {rate * 10:g}"
        unit = nn.functional.normalize(embeddings.float(), dim=1)
        if float((unit @ nn.functional.normalize(unit.mean(0), dim=0)).mean()) > _ALIKE:
            return (
                "all embeddings point the same way, as after a learning rate that is too high; try "
                f"--lr {rate / 10:g}"
            )
        if rate > _FAST[self.config.optimizer]:
            return f"the learning rate is very high; try --lr {rate / 10:g}"
        margin = self.loss.settings().get("margin")
        warmed = self.config.margin_warm_up > 0 or bool(self.config.options.get("warmup"))
        if isinstance(margin, float) and margin > 0 and not warmed:
            return "the margin stands from the first step on; try --set margin_warm_up=0.3"
        return f"try another learning rate first, --lr {rate / 3:.2g} and {rate * 3:.2g}"

    def _bounded(self, blind: float) -> str | None:
        """That the scale leaves little to learn, where it does."""
        scale, classes = self.loss.settings().get("scale"), self.loss.classes
        if not isinstance(scale, float) or least_loss(scale, classes) <= _UNREACHABLE * blind:
            return None
        return (
            f"with scale {scale:g} and {classes:,} classes the loss cannot fall below "
            f"{least_loss(scale, classes):.2f}, and the same answer to everything costs "
            f"{blind:.2f}; take a larger --scale, or leave it out"
        )


@torch.no_grad()
def first_broken_layer(network: nn.Module, images: Tensor, autocast: str = "none") -> str | None:
    """The first layer with a weight or an output that is not finite, as "NAME (KIND)".

    autocast: the type that the network computes in, as in the configuration.
    """
    found: list[str] = []

    def look(name: str, layer: nn.Module) -> None:
        def hook(_: nn.Module, __: object, output: object) -> None:
            outputs = output if isinstance(output, tuple | list) else [output]
            tensors = [
                *layer.parameters(recurse=False),
                *layer.buffers(recurse=False),
                *(each for each in outputs if isinstance(each, Tensor)),
            ]
            if not all(bool(tensor.isfinite().all()) for tensor in tensors):
                found.append(f"{name} ({type(layer).__name__})")

        handles.append(layer.register_forward_hook(hook))

    handles: list[torch.utils.hooks.RemovableHandle] = []
    for name, layer in network.named_modules():  # those with parts inside tell after their parts
        look(name or "network", layer)
    training = network.training
    dtype = None if autocast == "none" else getattr(torch, autocast)
    try:
        with torch.autocast(images.device.type, dtype, enabled=dtype is not None):
            network.eval()(as_float(images))
    finally:
        network.train(training)
        for handle in handles:
            handle.remove()
    return found[0] if found else None
