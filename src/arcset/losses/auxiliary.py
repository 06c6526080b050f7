"""Losses that add a term to another loss."""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from arcset.centers import CenterUpdate
from arcset.checks import check_number
from arcset.errors import OptionError
from arcset.losses.base import Loss
from arcset.losses.checks import check_batch, check_overflow
from arcset.margins.laws import Law
from arcset.numerics import widen

__all__ = ["AuxiliaryLoss"]


class AuxiliaryLoss(Loss):
    """base(x, y) + λ · term(x, y). Classifier, centers and logits are the base's.

    `base` is built by name (`build_loss("center", ..., base="arcface")`); `weight` is λ ≥ 0.
    """

    #: The base loss where none is named.
    default_base: ClassVar[str]
    #: Whether the term depends on directions only.
    scale_free: ClassVar[bool] = True
    #: Whether the term looks at the base's class centers.
    uses_centers: ClassVar[bool] = False

    def __init__(self, base: Loss, *, weight: float) -> None:
        super().__init__(base.dim, base.classes)
        if base.shared:
            raise OptionError(
                f"{self._name} sees one process's samples only: leave group, or share_centers, out"
            )
        if self.uses_centers:
            base.trained_centers()  # raises where there is not one center per class
            if base.update is not None:
                raise OptionError(f"{self._name} cannot fuse the update of the centers it looks at")
        self.base = base
        self.ignore_index = base.ignore_index
        self.weight = check_number("weight", weight, 0, 1e6)

    @abstractmethod
    def term(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The added term before λ, a scalar; embeddings come in float32 or wider."""

    @property
    def normalized(self) -> bool:
        """As the base."""
        return self.base.normalized

    @property
    def laws(self) -> frozenset[Law]:
        """The base's, less what an added term breaks."""
        broken = {Law.NEUTRAL} if self.scale_free else {Law.NEUTRAL, Law.SCALE_FREE}
        return self.base.laws - broken

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The base loss plus λ times the term."""
        labels = check_batch(embeddings, labels, self.dim, self.classes, self.ignore_index)
        if self.ignore_index is not None:
            counts = labels != self.ignore_index
            if not bool(counts.any()):
                return self.base(embeddings, labels)  # type: ignore[no-any-return]
            embeddings, labels = embeddings[counts], labels[counts]
        with torch.autocast(embeddings.device.type, enabled=False):
            wide = widen(embeddings)  # once: both gradients are summed before they are narrowed
            value: Tensor = self.base(wide, labels)
            value = value + self.weight * self.term(wide, labels)
            return value if self.scale_free else check_overflow(value, wide)

    def logits(self, embeddings: Tensor, labels: Tensor | None = None) -> Tensor:
        """The base's."""
        return self.base.logits(embeddings, labels)

    def classify(self, embeddings: Tensor, among: int | None = None) -> Tensor:
        """The base's."""
        return self.base.classify(embeddings, among)

    @property
    def centers(self) -> Tensor | None:
        """The base's class centers."""
        return self.base.centers

    @property
    def biases(self) -> Tensor | None:
        """The base's biases."""
        return self.base.biases

    def trained_centers(self) -> Tensor:
        """The base's."""
        return self.base.trained_centers()

    def set_centers(self, full: Tensor) -> None:
        """Replace the base's class centers."""
        self.base.set_centers(full)

    def advance(self, steps: int = 1) -> None:
        """Pass the steps on to the base."""
        self.base.advance(steps)

    def set_class_sizes(self, sizes: Tensor) -> None:
        """Pass the sizes on to the base."""
        self.base.set_class_sizes(sizes)

    def fuse_update(self, kind: str, **options: float | bool) -> CenterUpdate:
        """The base's, unless the term looks at the centers too."""
        if self.uses_centers:
            raise OptionError(f"{self._name} cannot fuse the update of the centers it looks at")
        return self.base.fuse_update(kind, **options)

    @property
    def update(self) -> CenterUpdate | None:
        """The base's."""
        return self.base.update

    @property
    def _name(self) -> str:
        return type(self).__name__.lower()

    def settings(self) -> dict[str, float | str]:
        """The base's, and λ."""
        return {**self.base.settings(), "weight": self.weight}

    def extra_repr(self) -> str:
        """What it is built on, and λ."""
        return f"{self.base!r}, weight={self.weight:g}"
