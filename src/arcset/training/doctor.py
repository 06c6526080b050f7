"""When training breaks or does not move: what went wrong, where, and what to try.

A loss is judged beside what it costs before anything is learned (`chance_loss`, `blind_loss`) and
at best (`lowest_loss`).
"""

import copy
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from arcset.data import as_float
from arcset.devices import seed_draws
from arcset.errors import TrainingError
from arcset.losses import Loss
from arcset.losses.build import lowest_loss
from arcset.margins import Margin
from arcset.runs import RunConfig

_STUCK = 0.98  # of what guessing costs, or of an earlier loss: not less than that is no progress
_FAR_OFF = 2.0  # times what guessing costs: a first loss above this comes from somewhere else
_ALIKE = 0.99  # mean cosine to the mean direction: embeddings that all point the same way
_SLOW = 1e-4  # a learning rate that may be too small to see anything happen
_FAST = {"sgd": 1.0, "adamw": 0.02}  # learning rates above which few networks learn
_LEAST_SHARE = 0.1  # of all epochs that training gets before it is called stuck
_LEAST_STEPS = 20  # that it gets as well
_WAITED = 2  # epochs without progress
_UNREACHABLE = 0.6  # of what guessing costs: a lowest loss above this leaves little to learn

_TRIALS = 256  # samples whose loss is tried
_SEED = 982_451_653  # nobody's choice: the same numbers may have made the centers, which then match
_MOST_CENTERS = 50_000_000  # numbers: beyond, copying the loss costs more than the answer is worth


@dataclass
class Diagnosis:
    """What the doctor remembers of a run.

    warned: whether it has complained. best: the lowest loss of an epoch since the margin is
    complete. waited: epochs since then that were no better. done: steps before this epoch.
    """

    warned: bool = False
    best: float = math.inf
    waited: int = 0
    done: int = 0


@dataclass
class Doctor:
    """Watches one run for losses that are not finite or do not fall, and names likely causes."""

    config: RunConfig
    network: nn.Module
    loss: Loss
    diagnosis: Diagnosis = field(default_factory=Diagnosis)

    def check_first_loss(self, value: float) -> str | None:
        """What is odd about the loss of the very first step, if anything."""
        blind = blind_loss(self.loss, step=0)
        if blind is not None and (bounded := self._scale_too_small(blind)):
            self.diagnosis.warned = True  # nothing else can be judged before that is mended
            return bounded
        chance = chance_loss(self.loss, step=0)
        if chance is None or value <= _FAR_OFF * chance + 1:
            return None
        return (
            f"the first loss is {value:.1f}, and guessing would cost {chance:.1f}"
            f"{self._in_words()}: the network's outputs are very large or the data is not what it "
            "should be; look at it with `arcset data check`"
        )

    def check_epoch(self, epoch: int, mean: float, step: int, embeddings: Tensor) -> str | None:
        """What is wrong, once, where an epoch's loss tells that nothing is learned.

        That is a loss still as high as that of guessing, or higher than that of a network which
        gives the same answer to everything, and no longer falling.
        mean: the epoch's loss. step: steps done. embeddings (B, D): of some of its samples.
        """
        chance, blind = chance_loss(self.loss, step=step), blind_loss(self.loss, step=step)
        if self.diagnosis.warned or chance is None or blind is None:
            return None
        if self.diagnosis.done < self._margin_complete() or mean < _STUCK * self.diagnosis.best:
            self.diagnosis.waited, self.diagnosis.best = 0, mean
        else:
            self.diagnosis.waited += 1
        self.diagnosis.done = step
        if epoch < max(2, _LEAST_SHARE * self.config.epochs) or step < _LEAST_STEPS:
            return None
        if mean >= _STUCK * chance:
            against = f"guessing costs {chance:.2f}"
        elif mean > blind and self.diagnosis.waited >= _WAITED:
            against = f"the same answer to everything costs {blind:.2f}"
        else:
            return None
        self.diagnosis.warned = True
        return (
            f"the loss is stuck: {mean:.2f} after {epoch} epochs, and {against}"
            f"{self._in_words()}: {self._cause(blind, embeddings)}"
        )

    def explain_break(self, what: str, images: Tensor, epoch: int, rate: float) -> TrainingError:
        """The error for a run that cannot go on; `images` are what the network was given."""
        layer = first_broken_layer(self.network, images, self.config.autocast)
        where = f"; the first values that are not finite come out of layer {layer}" if layer else ""
        dtype = next(self.network.parameters()).dtype
        advice = f"try a tenth of that rate{'' if self.config.clip else ', or --set clip=5'}"
        if self.config.autocast == "float16":
            dtype = torch.float16
            advice = "float16 ends at 65,504: try --set autocast=bfloat16 first"
        return TrainingError(
            f"training stopped in epoch {epoch}: {what}{where}; the learning rate was {rate:.3g} "
            f"and the weights are {dtype}: {advice}"
            f"{' (the epochs before are kept)' if epoch > 1 else ''}"
        )

    def check_health(self, network: nn.Module, images: Tensor, epoch: int, rate: float) -> None:
        """Refuse to keep an epoch whose weights or embeddings are not finite."""
        if first_broken_layer(network, images) is not None:
            raise self.explain_break("the embeddings are not finite", images, epoch, rate)

    def _margin_complete(self) -> int:
        """The step from which on the margin is complete; before it, a loss may well rise."""
        margins = [part for part in self.loss.modules() if isinstance(part, Margin)]
        return max((margin.warmup.steps for margin in margins), default=0)

    def _in_words(self) -> str:
        settings = self.loss.settings()
        words = [f"{self.loss.classes:,} classes"]
        words += [f"{name} {settings[name]:g}" for name in ("scale", "margin") if name in settings]
        return f" (with {', '.join(words)})"

    def _cause(self, blind: float, embeddings: Tensor) -> str:
        if bounded := self._scale_too_small(blind):
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

    def _scale_too_small(self, blind: float) -> str | None:
        """That the scale leaves little to learn, where it does."""
        scale, classes = self.loss.settings().get("scale"), self.loss.classes
        if not isinstance(scale, float) or lowest_loss(scale, classes) <= _UNREACHABLE * blind:
            return None
        return (
            f"with scale {scale:g} and {classes:,} classes the loss cannot fall below "
            f"{lowest_loss(scale, classes):.2f}, and the same answer to everything costs "
            f"{blind:.2f}; take a larger --scale, or leave it out"
        )


@torch.no_grad()
def first_broken_layer(network: nn.Module, images: Tensor, autocast: str = "none") -> str | None:
    """The first layer with a weight or an output that is not finite, as "NAME (KIND)".

    autocast: the type that the network computes in, as in the configuration.
    """
    broken: list[str] = []

    def watch(name: str, layer: nn.Module) -> None:
        def hook(_: nn.Module, __: object, output: object) -> None:
            outputs = output if isinstance(output, tuple | list) else [output]
            tensors = [
                *layer.parameters(recurse=False),
                *layer.buffers(recurse=False),
                *(each for each in outputs if isinstance(each, Tensor)),
            ]
            if not all(bool(tensor.isfinite().all()) for tensor in tensors):
                broken.append(f"{name} ({type(layer).__name__})")

        handles.append(layer.register_forward_hook(hook))

    handles: list[torch.utils.hooks.RemovableHandle] = []
    for name, layer in network.named_modules():  # a layer with parts is looked at after its parts
        watch(name or "network", layer)
    training = network.training
    dtype = None if autocast == "none" else getattr(torch, autocast)
    try:
        with torch.autocast(images.device.type, dtype, enabled=dtype is not None):
            network.eval()(as_float(images))
    finally:
        network.train(training)
        for handle in handles:
            handle.remove()
    return broken[0] if broken else None


@torch.no_grad()
def chance_loss(loss: Loss, *, step: int | None = None) -> float | None:
    """The mean loss of random directions with random labels: what guessing costs.

    step: how far the margin has come in; as far as it is now if left out. For s·cos θ with C
    classes in D dimensions this is about ln C + s²/2D, and a margin m2 adds s·sin m2.
    None for losses without centers, and where there are too many to try.
    """
    generator = torch.Generator().manual_seed(_SEED)
    directions = torch.randn(_TRIALS, loss.dim, generator=generator)
    return _trial_loss(loss, directions, generator, step, centers=None)


@torch.no_grad()
def blind_loss(loss: Loss, *, step: int | None = None) -> float | None:
    """What one embedding for all samples costs at best: the least that knows nothing of them.

    Reached where all class centers lie together and the embedding on them: ln C for softmax and
    s·cos θ, to which a margin m2 adds about s·(1 − cos m2). None as for `chance_loss`.
    """
    generator = torch.Generator().manual_seed(_SEED)
    same = torch.zeros(1, loss.dim)
    same[0, 0] = 1
    return _trial_loss(
        loss, same.expand(_TRIALS, -1), generator, step, same.expand(loss.classes, -1)
    )


def _trial_loss(
    loss: Loss,
    embeddings: Tensor,
    generator: torch.Generator,
    step: int | None,
    centers: Tensor | None,
) -> float | None:
    """The loss of embeddings (B, D) with random labels, of a copy."""
    if not loss.classifies or loss.classes * loss.dim > _MOST_CENTERS:
        return None
    trial = copy.deepcopy(loss).train()  # some losses change when they are asked
    device = next(trial.parameters()).device
    if centers is not None:
        trial.set_centers(centers.to(device))
    for module in trial.modules():  # a loss, or the one that it is built on
        if step is not None and isinstance(getattr(module, "step", None), Tensor):
            module.step.fill_(step)  # type: ignore[operator]
    labels = torch.randint(loss.classes, (len(embeddings),), generator=generator)
    with torch.random.fork_rng(devices=[]):  # some margins are drawn
        seed_draws(_SEED, device)
        return float(trial(embeddings.to(device), labels.to(device)))
