"""The fixed samples whose embeddings are kept over the epochs."""

import torch
from torch import Tensor, nn

from arcset.data import ImageSet, Samples, Selection
from arcset.losses import Loss
from arcset.runs.model import embed

__all__ = ["Snapshots"]

_MOST_CENTERS = 10_000


class Snapshots:
    """A fixed, evenly spread choice of at most `count` samples of train, test and unseen."""

    def __init__(self, selection: Selection, count: int, device: torch.device) -> None:
        self.index: dict[str, Tensor] = {}
        self.images: dict[str, Tensor] = {}
        self.labels: dict[str, Tensor] = {}
        parts: dict[str, ImageSet | None] = {
            "train": selection.train,
            "test": selection.known,
            "unseen": selection.unseen,
        }
        for name, part in parts.items():
            if part is None or count == 0:
                continue
            samples = Samples(part, device)
            chosen = torch.linspace(0, len(samples) - 1, min(count, len(samples)), device=device)
            self.index[name] = chosen.round().long()
            self.images[name] = samples.take(self.index[name])
            self.labels[name] = samples.labels[self.index[name]]

    def samples(self) -> dict[str, Tensor]:
        """PART.index: places in the part; PART.labels: the classes there."""
        named = {"index": self.index, "labels": self.labels}
        return {
            f"{part}.{what}": tensor
            for what, parts in named.items()
            for part, tensor in parts.items()
        }

    def take(self, network: nn.Module, loss: Loss, classes: int) -> dict[str, Tensor]:
        """The embeddings of all parts, and centers and biases of the first `classes` classes.

        Those of more than 10,000 classes are not kept: no picture could show them.
        """
        found = {name: embed(network, images) for name, images in self.images.items()}
        if classes > _MOST_CENTERS:
            return found
        if loss.centers is not None:
            found["centers"] = loss.centers[:classes]
        if loss.biases is not None:
            found["biases"] = loss.biases[:classes]
        return found
