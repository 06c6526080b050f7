"""One image walked through a trained run: from its embedding to probabilities, class by class.

Every number is what the run's own network, loss and margin give; nothing is computed a second way.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arcset.losses import Loss
from arcset.losses.base import AuxiliaryLoss
from arcset.losses.margin_softmax import MarginSoftmax
from arcset.margins import Samples
from arcset.numerics import angle, unit_rows, widen
from arcset.reports.steps import ClassStep, Explanation, Margined, Neighbours
from arcset.reports.subject import Subject
from arcset.reports.view import RunView
from arcset.runs.model import embed

__all__ = ["ClassStep", "Explanation", "Margined", "Neighbours", "explain"]


@torch.no_grad()
def explain(view: RunView, subject: Subject) -> Explanation:
    """Walk `subject` through the run; the loss decides which steps there are."""
    pixels = subject.image[..., None] if subject.image.ndim == 2 else subject.image  # (H, W, C)
    images = torch.tensor(pixels.transpose(2, 0, 1).copy())[None]  # (1, C, H, W)
    x = embed(view.network, images)  # (1, D)
    loss, names = view.loss, view.config.class_names or ()
    steps: tuple[ClassStep, ...] = ()
    neighbours: tuple[Neighbours, ...] = ()
    margin, cross_entropy = None, None
    if loss.classifies:
        label = None if subject.target is None else torch.tensor([subject.target])
        steps = _steps(loss, x, label, names)
        if label is not None:
            margin = _margined(loss, x, label)
            cross_entropy = F.cross_entropy(loss.logits(x, label), label).item()
    else:
        neighbours = _neighbours(view, x, subject)
    return Explanation(
        run=str(view.run.path),
        loss=view.config.loss,
        settings=loss.settings(),
        subject=subject,
        embedding=tuple(x[0].tolist()),
        norm=unit_rows(x)[1].item(),
        steps=steps,
        neighbours=neighbours,
        margin=margin,
        cross_entropy=cross_entropy,
    )


def _steps(
    loss: Loss, x: Tensor, label: Tensor | None, names: tuple[str, ...]
) -> tuple[ClassStep, ...]:
    centers = widen(loss.trained_centers())  # (C, D)
    cosines = _cosines(loss, x)[0]  # (C,)
    logits = loss.logits(x)
    margined = loss.logits(x, label) if label is not None and _margin_of(loss) else None
    columns: list[list[float] | list[None]] = [
        (x @ centers.T)[0].tolist(),
        unit_rows(centers)[1].tolist(),
        cosines.tolist(),
        torch.rad2deg(angle(cosines)).tolist(),
        [None] * len(names) if loss.biases is None else loss.biases.tolist(),
        logits[0].tolist(),
        logits.softmax(dim=1)[0].tolist(),
        [None] * len(names) if margined is None else margined[0].tolist(),
        [None] * len(names) if margined is None else margined.softmax(dim=1)[0].tolist(),
    ]
    rows = zip(names, *columns, strict=True)
    return tuple(ClassStep(*row) for row in rows)


def _cosines(loss: Loss, x: Tensor) -> Tensor:
    """Cosines (B, C), by the same steps as in the loss."""
    assert loss.centers is not None
    directions = loss.centers if loss.normalized else unit_rows(loss.centers)[0]
    return unit_rows(widen(x))[0] @ directions.T


def _margin_of(loss: Loss) -> MarginSoftmax | None:
    """The part of the loss that holds the margin; None for softmax and where it does nothing."""
    base = loss.base if isinstance(loss, AuxiliaryLoss) else loss
    return base if isinstance(base, MarginSoftmax) and base.margin.settings() else None


def _margined(loss: Loss, x: Tensor, label: Tensor) -> Margined | None:
    holder = _margin_of(loss)
    if holder is None:
        return None
    cosine = _cosines(loss, x)[:, label].squeeze(1)  # (1,)
    step = int(holder.step)
    samples = Samples(label, unit_rows(widen(x))[1], step, holder.margin.warmup.strength(step))
    return Margined(
        angle=torch.rad2deg(angle(cosine)).item(),
        cosine=cosine.item(),
        margined=holder.margin(cosine, samples).item(),
    )


def _neighbours(view: RunView, x: Tensor, subject: Subject) -> tuple[Neighbours, ...]:
    test = view.test
    others = unit_rows(torch.from_numpy(test.embeddings))[0]
    cosines = (others @ unit_rows(x)[0].T)[:, 0]  # (N,)
    found = []
    for number, name in enumerate(test.class_names):
        members = np.flatnonzero(test.labels == number)
        if subject.part == "test":
            members = members[members != subject.index]  # it is no neighbour of its own
        if not len(members):
            continue
        own = cosines[torch.from_numpy(members)]
        nearest = int(own.argmax())
        best = own[nearest]
        degrees = torch.rad2deg(angle(best)).item()
        found.append(
            Neighbours(name, own.mean().item(), int(members[nearest]), best.item(), degrees)
        )
    return tuple(found)
