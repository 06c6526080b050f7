"""When training breaks or does not move: what went wrong, where, and what to try."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from arcset.data import as_float
from arcset.errors import TrainingError
from arcset.losses import Loss
from arcset.runs import RunConfig
from arcset.training.expectation import chance_loss, least_loss

__all__ = ["Doctor", "first_broken_layer"]

_STUCK = 0.98  # of what guessing costs: a loss above this has learned nothing
_FAR_OFF = 2.0  # times what guessing costs: a first loss above this comes from somewhere else
_ALIKE = 0.99  # mean cosine to the mean direction: embeddings that all point the same way
_SLOW = 1e-4  # a learning rate that may be too small to see anything happen
_LEAST_SHARE = 0.1  # of all epochs that training gets before it is called stuck
_UNREACHABLE = 0.6  # of what guessing costs: a least loss above this leaves little to learn


@dataclass
class Doctor:
    """Watches one run for losses that are not finite or do not fall, and names likely causes."""

    config: RunConfig
    network: nn.Module
    loss: Loss
    warned: bool = False

    def first(self, value: float) -> str | None:
        """What is odd about the loss of the very first step, if anything."""
        chance = chance_loss(self.loss, step=0)
        if chance is None or value <= _FAR_OFF * chance + 1:
            return None
        return (
            f"the first loss is {value:.1f}, and guessing would cost {chance:.1f}"
            f"{self._described()}: the network's outputs are very large or the data is not what it "
            "should be; look at it with `arcset data check`"
        )

    def epoch(self, epoch: int, mean: float, step: int, embeddings: Tensor) -> str | None:
        """What is wrong, once, where the loss of an epoch is still that of guessing.

        mean: the epoch's loss. step: steps done. embeddings (B, D): of some of its samples.
        """
        if self.warned or epoch < max(2, _LEAST_SHARE * self.config.epochs):
            return None
        chance = chance_loss(self.loss, step=step)
        if chance is None or mean < _STUCK * chance:
            return None
        self.warned = True
        return (
            f"the loss is stuck: {mean:.2f} after {epoch} epochs, and guessing costs {chance:.2f}"
            f"{self._described()}: {self._cause(chance, embeddings)}"
        )

    def broken(self, what: str, images: Tensor, epoch: int, rate: float) -> TrainingError:
        """The error for a run that cannot go on; `images` are what the network was given."""
        layer = first_broken_layer(self.network, images)
        place = f"; the first values that are not finite come out of layer {layer}" if layer else ""
        dtype = next(self.network.parameters()).dtype
        advice = f"try a tenth of that rate{'' if self.config.clip else ', or --set clip=5'}"
        if self.config.autocast == "float16":
            dtype = torch.float16
            advice = "float16 ends at 65,504: try --set autocast=bfloat16 first"
        return TrainingError(
            f"training stopped in epoch {epoch}: {what}{place}; the learning rate was {rate:.3g} "
            f"and the weights are {dtype}: {advice} (the epochs before are kept)"
        )

    def check_health(self, network: nn.Module, images: Tensor, epoch: int, rate: float) -> None:
        """Refuse to keep an epoch whose weights or embeddings are not finite."""
        if first_broken_layer(network, images) is not None:
            raise self.broken("the embeddings are not finite", images, epoch, rate)

    def _described(self) -> str:
        settings = self.loss.settings()
        said = [f"{self.loss.classes:,} classes"]
        said += [f"{name} {settings[name]:g}" for name in ("scale", "margin") if name in settings]
        return f" (with {', '.join(said)})"

    def _cause(self, chance: float, embeddings: Tensor) -> str:
        unit = nn.functional.normalize(embeddings.float(), dim=1)
        rate = self.config.learning_rate
        if float((unit @ nn.functional.normalize(unit.mean(0), dim=0)).mean()) > _ALIKE:
            return (
                "all embeddings point the same way, as after a learning rate that is too high; try "
                f"--lr {rate / 10:g}"
            )
        scale = self.loss.settings().get("scale")
        if (
            isinstance(scale, float)
            and least_loss(scale, self.loss.classes) > _UNREACHABLE * chance
        ):
            least = least_loss(scale, self.loss.classes)
            return (
                f"with scale {scale} it cannot fall below {least:.2f} for so many classes; take "
                "a larger --scale, or leave it out"
            )
        margin = self.loss.settings().get("margin")
        if isinstance(margin, float) and margin > 0 and self.config.margin_warm_up == 0:
            return "the margin stands from the first step on; try --set margin_warm_up=0.3"
        if rate < _SLOW:
            return f"the learning rate is very small; try --lr {rate * 10:g}"
        return f"try another learning rate first, --lr {rate / 3:.2g} and {rate * 3:.2g}"


@torch.no_grad()
def first_broken_layer(network: nn.Module, images: Tensor) -> str | None:
    """The first layer with a weight or an output that is not finite, as "NAME (KIND)"."""
    found: list[str] = []

    def look(name: str, layer: nn.Module) -> None:
        def hook(_: nn.Module, __: object, output: Tensor) -> None:
            weights = [*layer.parameters(recurse=False), *layer.buffers(recurse=False), output]
            if not all(bool(tensor.isfinite().all()) for tensor in weights):
                found.append(f"{name} ({type(layer).__name__})")

        handles.append(layer.register_forward_hook(hook))

    handles: list[torch.utils.hooks.RemovableHandle] = []
    for name, layer in network.named_modules():
        if not list(layer.children()):
            look(name or "network", layer)
    training = network.training
    try:
        network.eval()(as_float(images))
    finally:
        network.train(training)
        for handle in handles:
            handle.remove()
    return found[0] if found else None
