"""Open-set measures on held-out identities, between the epochs."""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from arcset.data import ImageSet, to_tensors
from arcset.data.dataset import take_rows
from arcset.evaluation import retrieval, verification
from arcset.evaluation.assessment import measure_shape
from arcset.evaluation.measures import validated
from arcset.evaluation.results import Missing
from arcset.runs.model import embed

if TYPE_CHECKING:
    from arcset.runs import RunConfig

__all__ = ["Validator", "build_validator", "validates_after"]

_MOST = 4_000  # samples: more would take longer than they tell


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
        found = {key: values[measure.strict_name] for key, measure in validated().items()}
        return {key: value for key, value in found.items() if not math.isnan(value)}


def build_validator(images: ImageSet | None, device: torch.device) -> Validator | None:
    """A validator, or None where the images hold no pair of one identity or none of two."""
    if images is None:
        return None
    counts = np.bincount(images.labels)
    if counts.max() < 2 or (counts > 0).sum() < 2:
        return None
    return Validator(images, device)


def validates_after(config: "RunConfig", epoch: int) -> bool:
    """Whether there is a validation after an epoch (from 1); after the last one always."""
    every = config.validate_every or max(1, config.epochs // 20)
    return epoch % every == 0 or epoch == config.epochs


def _with_pairs(images: ImageSet) -> ImageSet:
    """The images of the first identities that have at least two, up to `_MOST` images."""
    counts = np.bincount(images.labels, minlength=len(images.class_names))
    several = np.flatnonzero(counts >= 2)
    within = np.searchsorted(np.cumsum(counts[several]), _MOST, side="right")
    kept = several[: max(2, int(within))]
    rows = np.flatnonzero(np.isin(images.labels, kept))
    if len(kept) < 2:
        rows = np.arange(len(images))
    return ImageSet(take_rows(images.images, rows), images.labels[rows], images.class_names)
