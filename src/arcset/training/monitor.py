"""What training measures on its way: held-out identities, kept samples, angles to the centers."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from arcset.data import ImageSet, Samples, Selection, to_tensors
from arcset.data.dataset import take_rows
from arcset.errors import OptionError
from arcset.evaluation import retrieval, verification
from arcset.evaluation.assessment import measure_shape
from arcset.evaluation.measures import validated
from arcset.evaluation.results import Missing
from arcset.losses import Loss
from arcset.runs import RunConfig
from arcset.runs.model import embed

_MOST = 4_000  # validation images: more would take longer than they tell
_MOST_CENTERS = 10_000  # in a snapshot: no picture could show more
_ANGLE_SAMPLES, _OTHER_CENTERS = 64, 4096


class Validator:
    """The validation identities, at most 4,000 images of them, whole identities first to last.

    Identities with a single image have no pair and are left out.
    """

    def __init__(self, images: ImageSet, device: torch.device) -> None:
        self._images, self._labels = to_tensors(_with_pairs(images), device)

    def __len__(self) -> int:
        return len(self._labels)

    def measure(self, network: nn.Module) -> dict[str, float]:
        """All measures of the table that are `validated` and that the samples can tell, by key."""
        embeddings = embed(network, self._images).float().cpu()
        labels = self._labels.cpu()
        values = {
            **verification(embeddings, labels).measures(),
            **retrieval(embeddings, labels).measures(),
            **measure_shape(embeddings, labels, Missing(), keyed=True),
        }
        measured = {key: values[measure.strict_name] for key, measure in validated().items()}
        return {key: value for key, value in measured.items() if not math.isnan(value)}


def build_validator(images: ImageSet | None, device: torch.device) -> Validator | None:
    """A validator, or None where the images hold no pair of one identity or none of two."""
    if images is None:
        return None
    counts = np.bincount(images.labels)
    if counts.max() < 2 or (counts > 0).sum() < 2:
        return None
    return Validator(images, device)


def validates_after(config: RunConfig, epoch: int) -> bool:
    """Whether there is a validation after an epoch (from 1); after the last one always."""
    every = config.validate_every or max(1, config.epochs // 20)
    return epoch % every == 0 or epoch == config.epochs


def _with_pairs(images: ImageSet) -> ImageSet:
    """The images of the first identities that have at least two, up to `_MOST` images."""
    counts = np.bincount(images.labels, minlength=len(images.class_names))
    several = np.flatnonzero(counts >= 2)
    within = np.searchsorted(np.cumsum(counts[several]), _MOST, side="right")
    chosen = several[: max(2, int(within))]
    rows = np.flatnonzero(np.isin(images.labels, chosen))
    if len(chosen) < 2:
        rows = np.arange(len(images))
    return ImageSet(take_rows(images.images, rows), images.labels[rows], images.class_names)


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
        """PART.index: rows of the part; PART.labels: their classes."""
        return {
            f"{part}.{name}": tensor
            for name, by_part in (("index", self.index), ("labels", self.labels))
            for part, tensor in by_part.items()
        }

    def take(self, network: nn.Module, loss: Loss, classes: int) -> dict[str, Tensor]:
        """The embeddings of all parts, and centers and biases of the first `classes` classes.

        Those of more than 10,000 classes are left out: no picture could show them.
        """
        snapshot = {name: embed(network, images) for name, images in self.images.items()}
        if classes > _MOST_CENTERS:
            return snapshot
        if loss.centers is not None:
            snapshot["centers"] = loss.centers[:classes]
        if loss.biases is not None:
            snapshot["biases"] = loss.biases[:classes]
        return snapshot

    def accuracies(
        self, snapshot: dict[str, Tensor], loss: Loss, classes: int, parts: list[str]
    ) -> dict[str, float]:
        """PART_accuracy: the share of a part's samples that the classifier names rightly.

        classes: how many it chooses from, the first ones.
        """
        accuracies: dict[str, float] = {}
        for part in parts if loss.classifies else ():
            if part in snapshot:
                labels = loss.classify(snapshot[part], classes)
                rightly = (labels == self.labels[part]).sum().item()
                accuracies[f"{part}_accuracy"] = rightly / len(labels)
        return accuracies


@torch.no_grad()
def measure_angles(
    loss: Loss, embeddings: Tensor, labels: Tensor, generator: torch.Generator
) -> tuple[float, float] | None:
    """Mean angles in degrees: to the target's center, and to the nearest of the others.

    embeddings (B, D) and labels (B,) are a batch as the loss gets it; 64 of it are looked at. Of
    more than 4,096 classes a random 4,096 stand for the others. None for a loss without one center
    per class.
    """
    try:
        centers = loss.trained_centers()  # (C, D), not normalized
    except OptionError:
        return None
    embeddings, labels = embeddings[:_ANGLE_SAMPLES].float(), labels[:_ANGLE_SAMPLES]
    rows = torch.arange(loss.classes, device=centers.device)
    if loss.classes > _OTHER_CENTERS:
        drawn = torch.randint(loss.classes, (_OTHER_CENTERS,), generator=generator)
        rows = torch.unique(torch.cat([drawn.to(labels.device), labels]))
    unit = nn.functional.normalize(embeddings, dim=1)  # (B, D)
    cosines = unit @ nn.functional.normalize(centers[rows].float(), dim=1).T  # (B, R)
    column = torch.searchsorted(rows, labels)[:, None]  # (B, 1)
    target = cosines.gather(1, column)  # (B, 1)
    nearest = cosines.scatter(1, column, -2.0).amax(dim=1)  # (B,)
    target_angle, nearest_angle = (
        math.degrees(cosine.clamp(-1, 1).arccos().mean().item()) for cosine in (target, nearest)
    )
    return target_angle, nearest_angle
