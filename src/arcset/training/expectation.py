"""What a loss is worth before anything is learned, and at best: to tell training that is stuck."""

import copy

import torch
from torch import Tensor

from arcset.devices import seed_draws
from arcset.losses import Loss
from arcset.losses.build import lowest_loss

__all__ = ["blind_loss", "chance_loss", "least_loss"]

_SAMPLES = 256
_SEED = 982_451_653  # nobody's choice: the same numbers may have made the centers, which then match
_MOST_CENTERS = 50_000_000  # numbers: beyond, copying the loss costs more than the answer is worth

#: The least that s·cos θ can reach: every sample on its center, the centers evenly apart.
least_loss = lowest_loss


@torch.no_grad()
def chance_loss(loss: Loss, *, step: int | None = None) -> float | None:
    """The mean loss of random directions with random labels: what guessing costs.

    step: how far the margin has come in; as far as it is now if left out. For s·cos θ with C
    classes in D dimensions this is about ln C + s²/2D, and a margin m2 adds s·sin m2.
    None for losses without centers, and where there are too many to try.
    """
    generator = torch.Generator().manual_seed(_SEED)
    directions = torch.randn(_SAMPLES, loss.dim, generator=generator)
    return _tried(loss, directions, generator, step, centers=None)


@torch.no_grad()
def blind_loss(loss: Loss, *, step: int | None = None) -> float | None:
    """What one embedding for all samples costs at best: the least that knows nothing of them.

    Reached where all class centers lie together and the embedding on them: ln C for softmax and
    s·cos θ, to which a margin m2 adds about s·(1 − cos m2). None as for `chance_loss`.
    """
    generator = torch.Generator().manual_seed(_SEED)
    same = torch.zeros(1, loss.dim)
    same[0, 0] = 1
    return _tried(loss, same.expand(_SAMPLES, -1), generator, step, same.expand(loss.classes, -1))


def _tried(
    loss: Loss,
    embeddings: Tensor,
    generator: torch.Generator,
    step: int | None,
    centers: Tensor | None,
) -> float | None:
    """The loss of embeddings (B, D) with random labels, asked of a copy."""
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
