"""What a loss is worth before anything is learned, and at best: to tell training that is stuck."""

import copy
import math

import torch

from arcset.losses import Loss

__all__ = ["chance_loss", "least_loss"]

_SAMPLES = 256
_MOST_CENTERS = 50_000_000  # numbers: beyond, copying the loss costs more than the answer is worth


@torch.no_grad()
def chance_loss(loss: Loss, *, step: int | None = None) -> float | None:
    """The mean loss of random directions with random labels: what guessing costs.

    step: how far the margin has come in; as far as it is now if left out. For s·cos θ with C
    classes in D dimensions this is about ln C + s²/2D, and a margin m2 adds s·sin m2.
    None for losses without centers, and where there are too many to try.
    """
    if not loss.classifies or loss.classes * loss.dim > _MOST_CENTERS:
        return None
    trial = copy.deepcopy(loss).train()  # some losses change when they are asked
    if step is not None and isinstance(getattr(trial, "step", None), torch.Tensor):
        trial.step.fill_(step)  # type: ignore[operator]
    device = next(trial.parameters()).device
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(_SAMPLES, loss.dim, generator=generator)
    labels = torch.randint(loss.classes, (_SAMPLES,), generator=generator)
    return float(trial(directions.to(device), labels.to(device)))


def least_loss(scale: float, classes: int) -> float:
    """The least that s·cos θ can reach: every sample on its center, the centers evenly apart.

    ln(1 + (C − 1)·exp(−s·C/(C − 1))), Wang et al., NormFace (2017).

        >>> round(least_loss(1.0, 10), 2), least_loss(64.0, 10) < 1e-20
        (1.38, True)
    """
    if classes < 2:
        return 0.0
    return math.log1p((classes - 1) * math.exp(-scale * classes / (classes - 1)))
