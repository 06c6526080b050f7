"""What a loss is."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from arcset.centers import CenterUpdate
from arcset.checks import check_count
from arcset.errors import OptionError
from arcset.margins.base import format_options
from arcset.margins.laws import Law

__all__ = ["Loss"]


class Loss(nn.Module, ABC):
    """`loss(embeddings, labels)` is a scalar to minimize; embeddings (B, D), labels (B,) int64.

    A loss is a module: its parameters (class centers, biases) are trained with the network's and
    saved beside them.
    """

    #: Whether it has class centers, so that it can name the class of a sample.
    classifies: ClassVar[bool] = True
    #: A label whose samples do not count; None where every label must be a class.
    ignore_index: int | None = None

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.dim = check_count("dim", dim)
        self.classes = check_count("classes", classes)

    @property
    def normalized(self) -> bool:
        """Whether only an embedding's direction counts, so that it is used as a unit vector."""
        return True

    @property
    def shared(self) -> bool:
        """Whether several processes hold the centers, each of which brings its own samples."""
        return False

    @property
    @abstractmethod
    def laws(self) -> frozenset[Law]:
        """The common laws that this loss obeys, as it is configured."""

    @abstractmethod
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss, a scalar in at least float32."""

    @property
    @abstractmethod
    def centers(self) -> Tensor | None:
        """(C, D): unit rows for normalized losses, raw for softmax, None without a classifier."""

    @property
    def biases(self) -> Tensor | None:
        """(C,): what is added to each logit, None without a bias."""
        return None

    @abstractmethod
    def set_centers(self, full: Tensor) -> None:
        """Replace all class centers by `full` (C, D)."""

    def trained_centers(self) -> Tensor:
        """The parameter behind `centers` (C, D), as trained: not normalized, with gradient."""
        raise OptionError(f"{type(self).__name__.lower()} has no class centers")

    @abstractmethod
    def logits(self, embeddings: Tensor, labels: Tensor | None = None) -> Tensor:
        """Class scores (B, C): without labels they carry no margin, with labels as in training."""

    @torch.no_grad()
    def classify(self, embeddings: Tensor, among: int | None = None) -> Tensor:
        """The class (B,) of the highest score without a margin; among the first `among` only."""
        return self.logits(embeddings)[:, :among].argmax(dim=1)

    def advance(self, steps: int = 1) -> None:
        """Tell the loss that training took `steps` more steps; most losses do not care."""

    def set_class_sizes(self, sizes: Tensor) -> None:
        """Told before training how many samples each class has (C,); most losses do not care."""

    def fuse_update(self, kind: str, **options: float | bool) -> CenterUpdate:
        """Update the class centers during `backward()` from now on; see `CenterUpdate`.

        `kind` is `sgd` (lr, momentum, weight_decay, nesterov) or `adagrad` (row-wise; lr,
        weight_decay, eps). The centers then get no gradient, and other optimizers pass them by.
        """
        raise OptionError(f"{type(self).__name__.lower()} cannot fuse the update of its centers")

    @property
    def update(self) -> CenterUpdate | None:
        """What `fuse_update` returned, None before it."""
        return None

    def settings(self) -> dict[str, float | str]:
        """Scale, margin and the like as they are in use, chosen or given."""
        return {}

    def extra_repr(self) -> str:
        """Dimension, classes and settings, for printing."""
        return format_options({"dim": self.dim, "classes": self.classes, **self.settings()})

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"
