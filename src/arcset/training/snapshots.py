"""The fixed samples whose embeddings are kept over the epochs."""

import torch
from torch import Tensor, nn

from arcset.data import ImageSet, Selection, to_tensors
from arcset.losses import Loss
from arcset.models import embed

__all__ = ["Snapshots"]


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
            images, labels = to_tensors(part, device)
            chosen = torch.linspace(0, len(labels) - 1, min(count, len(labels)), device=device)
            self.index[name] = chosen.round().long()
            self.images[name] = images[self.index[name]]
            self.labels[name] = labels[self.index[name]]

    def samples(self) -> dict[str, Tensor]:
        """PART.index: places in the part; PART.labels: the classes there."""
        named = {"index": self.index, "labels": self.labels}
        return {
            f"{part}.{what}": tensor
            for what, parts in named.items()
            for part, tensor in parts.items()
        }

    def take(self, network: nn.Module, loss: Loss) -> dict[str, Tensor]:
        """The embeddings of all parts, and class centers and biases as they are now."""
        found = {name: embed(network, images) for name, images in self.images.items()}
        if loss.centers is not None:
            found["centers"] = loss.centers
        if loss.biases is not None:
            found["biases"] = loss.biases
        return found
