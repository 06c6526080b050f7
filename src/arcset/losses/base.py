"""What a loss is, what one that adds a term to another is, and the checks of their batches."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from arcset.centers import CenterUpdate
from arcset.checks import check_choice, check_count, check_number
from arcset.errors import InputError, OptionError
from arcset.margins.base import Law, format_options
from arcset.numerics import widen
from arcset.registry import Registry

REDUCTIONS = ("mean", "none")


class Loss(nn.Module, ABC):
    """`loss(embeddings, labels)` is a scalar to minimize; embeddings (B, D), labels (B,) int64.

    A loss is a module: its parameters (class centers, biases) are trained with the network's and
    saved beside them.

    In a loop of one's own, `loss(embeddings, labels, reduction="none")` gives what every sample
    costs, (B,), and `weights` (B,), finite and not negative, say how much each sample counts:

        mean: Σ w_i ℓ_i / Σ w_i, so that a weight of 2 is the same as the sample twice
        none: w_i ℓ_i

    Both are as in torch's `cross_entropy`, whose weights are those of classes. Samples of
    `ignore_index` cost 0.

        >>> from arcset import build_loss
        >>> loss = build_loss("arcface", dim=8, classes=3)
        >>> x, y = torch.randn(4, 8), torch.tensor([0, 1, 2, 2])
        >>> loss(x, y, reduction="none").shape
        torch.Size([4])
        >>> value = loss(x, y, weights=torch.tensor([1.0, 1.0, 0.5, 0.0]))
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
    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        weights: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """The loss in at least float32: a scalar, or (B,) with `reduction="none"`."""

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
        raise OptionError(f"{self._name} has no class centers")

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
        raise OptionError(f"{self._name} cannot fuse the update of its centers")

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

    @property
    def _name(self) -> str:
        return self._get_name().lower()

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"


#: Losses that are not a margin on class centers (those come from the margins).
LOSSES: Registry[type[Loss]] = Registry("loss", "arcset.losses")


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

    def __init__(self, base: Loss, *, weight: float = 1.0) -> None:
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

    @abstractmethod
    def terms(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The same for every sample, (B,); their mean is `term`."""

    @property
    def normalized(self) -> bool:
        return self.base.normalized

    @property
    def laws(self) -> frozenset[Law]:
        broken = {Law.NEUTRAL} if self.scale_free else {Law.NEUTRAL, Law.SCALE_FREE}
        return self.base.laws - broken

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        weights: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """The base loss plus λ times the term."""
        labels = check_batch(self, embeddings, labels)
        weights = check_weights(weights, reduction, embeddings)
        counts = None
        if self.ignore_index is not None:
            counts = labels != self.ignore_index
            if not bool(counts.any()):
                return self.base(embeddings, labels, reduction=reduction)  # type: ignore[no-any-return]
            embeddings, labels = embeddings[counts], labels[counts]
            weights = None if weights is None else weights[counts]
        with torch.autocast(embeddings.device.type, enabled=False):
            wide = widen(embeddings)  # once: both gradients are summed before they are narrowed
            if weights is None and reduction == "mean":
                value: Tensor = self.base(wide, labels)
                value = value + self.weight * self.term(wide, labels)
            else:
                losses = self.base(wide, labels, reduction="none")
                losses = losses + self.weight * self.terms(wide, labels)
                value = reduce_losses(losses, weights, reduction)
            value = value if self.scale_free else check_overflow(value, wide)
        if reduction == "none" and counts is not None:
            return place_rows(value, counts)
        return value

    def logits(self, embeddings: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.base.logits(embeddings, labels)

    def classify(self, embeddings: Tensor, among: int | None = None) -> Tensor:
        return self.base.classify(embeddings, among)

    @property
    def centers(self) -> Tensor | None:
        return self.base.centers

    @property
    def biases(self) -> Tensor | None:
        return self.base.biases

    def trained_centers(self) -> Tensor:
        return self.base.trained_centers()

    def set_centers(self, full: Tensor) -> None:
        self.base.set_centers(full)

    def advance(self, steps: int = 1) -> None:
        self.base.advance(steps)

    def set_class_sizes(self, sizes: Tensor) -> None:
        self.base.set_class_sizes(sizes)

    def fuse_update(self, kind: str, **options: float | bool) -> CenterUpdate:
        if self.uses_centers:
            raise OptionError(f"{self._name} cannot fuse the update of the centers it looks at")
        return self.base.fuse_update(kind, **options)

    @property
    def update(self) -> CenterUpdate | None:
        return self.base.update

    def settings(self) -> dict[str, float | str]:
        return {**self.base.settings(), "weight": self.weight}

    def extra_repr(self) -> str:
        return f"{self.base!r}, weight={self.weight:g}"


def check_embeddings(loss: Loss, embeddings: object, least: int = 1) -> Tensor:
    """`embeddings` if it is a finite floating-point (B, D) tensor with B ≥ `least`."""
    if not isinstance(embeddings, Tensor):
        raise InputError(f"embeddings must be a torch tensor, not {type(embeddings).__name__}")
    shape = tuple(embeddings.shape)
    if len(shape) != 2 or shape[1] != loss.dim or shape[0] < least:
        raise InputError(
            f"embeddings must have shape (B, {loss.dim}) with B ≥ {least}, not {shape}"
        )
    if not embeddings.is_floating_point():
        raise InputError(f"embeddings must be floating-point, not {embeddings.dtype}")
    values = embeddings.detach()
    if math.isfinite(values.sum().item()):  # quick; a sum may overflow, so no is not yet a no
        return embeddings
    bad = (~torch.isfinite(values).all(dim=1)).nonzero().squeeze(1)
    if len(bad):
        raise InputError(
            f"embeddings must be finite, but {len(bad)} of {len(embeddings)} rows hold NaN or "
            f"infinity, the first at position {int(bad[0])}"
        )
    return embeddings


def check_batch(loss: Loss, embeddings: object, labels: object, least: int = 1) -> Tensor:
    """Check a batch; returns the labels as int64 (B,), each a class or `ignore_index`."""
    checked = check_embeddings(loss, embeddings, least)
    if not isinstance(labels, Tensor):
        raise InputError(f"labels must be a torch tensor, not {type(labels).__name__}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(f"labels must be whole numbers (int64), not {labels.dtype}")
    if labels.shape != checked.shape[:1]:
        raise InputError(f"labels must have shape ({len(checked)},), not {tuple(labels.shape)}")
    labels = labels.long()
    wrong = (labels < 0) | (labels >= loss.classes)
    if loss.ignore_index is not None:
        wrong &= labels != loss.ignore_index
    if bool(wrong.any()):
        first = int(wrong.nonzero()[0])
        raise InputError(
            f"labels must lie in 0 … {loss.classes - 1} ({loss.classes} classes), but "
            f"label {int(labels[first])} stands at position {first}"
        )
    return labels


def check_centers(loss: Loss, full: object) -> Tensor:
    """`full` if it is a finite floating-point tensor with a row for each class, (C, D)."""
    shape = (loss.classes, loss.dim)
    if not isinstance(full, Tensor) or tuple(full.shape) != shape:
        given = tuple(full.shape) if isinstance(full, Tensor) else type(full).__name__
        raise InputError(f"centers must be a tensor of shape {shape}, not {given}")
    if not full.is_floating_point() or not bool(torch.isfinite(full).all()):
        raise InputError("centers must be finite floating-point numbers")
    return full


def check_overflow(value: Tensor, embeddings: Tensor) -> Tensor:
    """`value` of a loss to which lengths count, unless the embeddings are too large for its dtype.

    A value that is not finite for another reason, such as weights that diverged, is returned.
    """
    if math.isfinite(value.detach().sum().item()):
        return value
    largest = embeddings.detach().abs().amax().item()
    if largest > 1e-3 * torch.finfo(value.dtype).max ** 0.5:
        dtype = str(value.dtype).removeprefix("torch.")
        raise InputError(
            f"embeddings with entries as large as {largest:.3g} overflow {dtype} in this loss: "
            "normalize or scale them first"
        )
    return value


def check_weights(weights: object, reduction: str, embeddings: Tensor) -> Tensor | None:
    """Check how samples count: `reduction`, and `weights` (B,), which are returned."""
    check_choice("reduction", reduction, REDUCTIONS)
    if weights is None:
        return None
    if not isinstance(weights, Tensor):
        raise InputError(f"weights must be a torch tensor, not {type(weights).__name__}")
    if weights.shape != embeddings.shape[:1] or weights.is_complex():
        raise InputError(
            f"weights must have shape ({len(embeddings)},), one number per sample, not "
            f"{tuple(weights.shape)} of {weights.dtype}"
        )
    wrong = ~torch.isfinite(weights) | (weights < 0)
    if bool(wrong.any()):
        first = int(wrong.nonzero()[0])
        raise InputError(
            f"weights must be finite and not negative, but {weights[first].item():g} stands at "
            f"position {first}"
        )
    return weights.to(embeddings.device)


def reduce_losses(losses: Tensor, weights: Tensor | None, reduction: str) -> Tensor:
    """From losses (B,) and weights (B,) to what `Loss` promises; 0 where all weights are 0."""
    if weights is None:
        return losses if reduction == "none" else losses.mean()
    weights = weights.to(losses.dtype)
    if reduction == "none":
        return weights * losses
    total = weights.sum()
    return (weights * losses).sum() / torch.where(total > 0, total, 1.0)


def place_rows(values: Tensor, counts: Tensor) -> Tensor:
    """Values of the samples that count, at their places among all (B,); 0 for the others."""
    return values.new_zeros(len(counts)).masked_scatter(counts, values)
