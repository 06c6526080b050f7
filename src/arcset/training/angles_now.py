"""How far samples are from their own class's center and from the nearest other, while training."""

import math

import torch
from torch import Tensor, nn

from arcset.errors import OptionError
from arcset.losses import Loss

__all__ = ["angles_now"]

_SAMPLES, _OTHERS = 64, 4096  # most samples looked at, and most other centers


@torch.no_grad()
def angles_now(
    loss: Loss, embeddings: Tensor, labels: Tensor, generator: torch.Generator
) -> tuple[float, float] | None:
    """Mean angles in degrees: to the target's center, and to the nearest of the others.

    embeddings (B, D) and labels (B,) are a batch as the loss gets it. Of more than 4,096 classes a
    random 4,096 stand for the others. None for a loss without one center per class.
    """
    try:
        centers = loss.trained_centers()  # (C, D), not normalized
    except OptionError:
        return None
    embeddings, labels = embeddings[:_SAMPLES].float(), labels[:_SAMPLES]
    rows = torch.arange(loss.classes, device=centers.device)
    if loss.classes > _OTHERS:
        drawn = torch.randint(loss.classes, (_OTHERS,), generator=generator)
        rows = torch.unique(torch.cat([drawn.to(labels.device), labels]))
    unit = nn.functional.normalize(embeddings, dim=1)
    cosines = unit @ nn.functional.normalize(centers[rows].float(), dim=1).T  # (B, R)
    target = torch.searchsorted(rows, labels)[:, None]
    own = cosines.gather(1, target)
    other = cosines.scatter(1, target, -2.0).amax(dim=1)
    degrees = [math.degrees(angle.clamp(-1, 1).arccos().mean().item()) for angle in (own, other)]
    return degrees[0], degrees[1]
