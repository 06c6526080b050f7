"""Who takes part: bare products, arcset's modes, its peers, and whole training steps.

Every step starts and ends without gradients. What it allocates it also frees before the clock
stops, so that one step costs what a step costs in a long training.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

import arcset

SCALE, MARGIN = 64.0, 0.5
BUILDING = (3.2, 0.0)  # what `build_loss` itself takes while it makes the first centers
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}


@dataclass(frozen=True)
class Cell:
    """One size of the problem; float32 throughout."""

    classes: int
    batch: int
    dim: int

    @property
    def weight_bytes(self) -> int:
        return 4 * self.classes * self.dim

    @property
    def logit_bytes(self) -> int:
        return 4 * self.batch * self.classes

    def data(self, seed: int) -> tuple[Tensor, Tensor]:
        """Embeddings (B, D) that want a gradient, and labels (B,): new ones for every round."""
        generator = torch.Generator().manual_seed(seed)
        embeddings = torch.randn(self.batch, self.dim, generator=generator).requires_grad_()
        return embeddings, torch.randint(self.classes, (self.batch,), generator=generator)


class Contender(ABC):
    """`prepare` and `release` go around the clock, `step` is what it measures."""

    name: ClassVar[str]
    label: ClassVar[str]
    kind: ClassVar[str]  # floor, head (forward and backward) or step (the optimizer's too)
    peer: ClassVar[bool] = False
    #: How many matrices as large as W, its own included, and how many as large as the logits are
    #: alive at the peak; two such pairs where it depends on the sizes which moment is the peak. As
    #: measured at 20,000 classes; only used to foresee what does not fit.
    peaks: ClassVar[Sequence[tuple[float, float]]]
    #: Whether the first step after `prepare` differs from the later ones.
    warms: ClassVar[bool] = False

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    @property
    def need(self) -> int:
        """Bytes at the peak, by estimate."""
        sizes = self.cell.weight_bytes, self.cell.logit_bytes
        return max(int(weights * sizes[0] + logits * sizes[1]) for weights, logits in self.peaks)

    @abstractmethod
    def prepare(self, weight: Tensor | None = None) -> None:
        """Make all that the first step needs, on the centers `weight` (C, D) or on its own."""

    @abstractmethod
    def step(self, embeddings: Tensor, labels: Tensor) -> None:
        """One step."""

    @abstractmethod
    def release(self) -> None:
        """Drop whatever is large, except `weight`."""


class Allocating(Contender):
    """The three products that no head can avoid, each into fresh memory."""

    name, label, kind = "allocating", "products, allocating", "floor"
    peaks = [(2.1, 2.3)]
    weight: Tensor | None  # (C, D)
    gradient: Tensor | None  # (B, C), stands for that of the logits

    def prepare(self, weight: Tensor | None = None) -> None:
        batch, classes, dim = self.cell.batch, self.cell.classes, self.cell.dim
        self.weight = torch.empty(classes, dim).normal_() if weight is None else weight
        self.gradient = torch.empty(batch, classes).uniform_(-1 / batch, 1 / batch)

    def step(self, embeddings: Tensor, labels: Tensor) -> None:
        embeddings = embeddings.detach()
        results = (  # all three alive until the last is done, as the gradients are in training
            torch.mm(embeddings, self.weight.T),  # (B, C)
            torch.mm(self.gradient, self.weight),  # (B, D)
            torch.mm(self.gradient.T, embeddings),  # (C, D)
        )
        del results

    def release(self) -> None:
        self.weight = self.gradient = None


class Preallocated(Allocating):
    """The same into memory that is there already, as no autograd can."""

    name, label = "preallocated", "products, preallocated"
    outputs: tuple[Tensor, Tensor, Tensor] | None

    def prepare(self, weight: Tensor | None = None) -> None:
        super().prepare(weight)
        batch, classes, dim = self.cell.batch, self.cell.classes, self.cell.dim
        self.outputs = (  # written to once, so that every page is there
            torch.ones(batch, classes),
            torch.ones(batch, dim),
            torch.ones(classes, dim),
        )

    def step(self, embeddings: Tensor, labels: Tensor) -> None:
        embeddings = embeddings.detach()
        torch.mm(embeddings, self.weight.T, out=self.outputs[0])
        torch.mm(self.gradient, self.weight, out=self.outputs[1])
        torch.mm(self.gradient.T, embeddings, out=self.outputs[2])

    def release(self) -> None:
        super().release()
        self.outputs = None


class Arcset(Contender):
    """Forward and backward of arcset's ArcFace in one of its modes."""

    kind = "head"
    mode: ClassVar[str]
    warms = True  # large blocks are kept from step to step

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        self.loss: Any = None

    def prepare(self, weight: Tensor | None = None) -> None:
        if self.loss is None:
            self.loss = arcset.build_loss(
                "arcface",
                self.cell.dim,
                self.cell.classes,
                scale=SCALE,
                margin=MARGIN,
                mode=self.mode,
            )
            if weight is not None:
                self.loss.trained_centers().data = weight

    def step(self, embeddings: Tensor, labels: Tensor) -> None:
        self.loss(embeddings, labels).backward()
        self.loss.zero_grad(set_to_none=True)
        embeddings.grad = None

    def release(self) -> None:
        self.loss.head.memory.release()  # on shared centers, what is left of the loss is small


class Store(Arcset):
    name, label, mode = "store", "arcset store", "store"
    peaks = [(2.2, 1.5), BUILDING]


class Recompute(Arcset):
    name, label, mode = "recompute", "arcset recompute", "recompute"
    peaks = [(2.3, 0.5), BUILDING]


class Plain(Arcset):
    name, label, mode = "plain", "arcset plain", "plain"
    peaks = [(7.0, 1.6), (3.7, 6.2)]


class Arccos(Contender):
    """An angle for every class and back again: arccos and cos of the whole matrix of logits.

    Versions of InsightFace's code do so (others touch the target only). Here it is the cheapest
    form in circulation: in place and without gradient through the two, d logit / d cos θ = s.
    """

    name, label, kind, peer = "arccos", "arccos of all logits", "head", True
    peaks = [(6.4, 1.3), (2.5, 5.4)]
    weight: Tensor | None  # (C, D)

    def prepare(self, weight: Tensor | None = None) -> None:
        classes, dim = self.cell.classes, self.cell.dim
        weight = torch.empty(classes, dim).normal_() if weight is None else weight
        self.weight = weight.detach().requires_grad_()  # a leaf of its own on the same memory

    def step(self, embeddings: Tensor, labels: Tensor) -> None:
        cosines = F.linear(F.normalize(embeddings), F.normalize(self.weight)).clamp(-1, 1)
        with torch.no_grad():
            angles = cosines.arccos_()  # (B, C)
            angles[torch.arange(len(labels)), labels] += MARGIN
            angles.cos_()
        F.cross_entropy(SCALE * cosines, labels).backward()
        embeddings.grad = self.weight.grad = None

    def release(self) -> None:
        self.weight = None


class MetricLearning(Contender):
    """pytorch-metric-learning's ArcFaceLoss; it keeps its centers as (D, C), so has its own."""

    name, label, kind, peer = "pml", "pytorch-metric-learning", "head", True
    peaks = [(6.3, 0.7), (2.1, 5.0)]

    def prepare(self, weight: Tensor | None = None) -> None:
        from pytorch_metric_learning.losses import ArcFaceLoss

        degrees = round(math.degrees(MARGIN), 1)  # 28.6
        self.loss: Any = ArcFaceLoss(self.cell.classes, self.cell.dim, margin=degrees, scale=SCALE)

    def step(self, embeddings: Tensor, labels: Tensor) -> None:
        self.loss(embeddings, labels).backward()
        self.loss.zero_grad(set_to_none=True)
        embeddings.grad = None

    def release(self) -> None:
        self.loss = None


class OptimizerStep(Store):
    """Forward, backward, and torch's fused SGD on the centers."""

    name, label, kind = "sgd", "arcset store, then SGD", "step"
    peaks = [(3.2, 1.6), BUILDING]

    def prepare(self, weight: Tensor | None = None) -> None:
        super().prepare(weight)
        self.optimizer: Any = torch.optim.SGD(self.loss.parameters(), fused=True, **SGD)

    def step(self, embeddings: Tensor, labels: Tensor) -> None:
        self.loss(embeddings, labels).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        embeddings.grad = None

    def release(self) -> None:
        super().release()
        self.optimizer = None


class FusedStep(Store):
    """The same update within backward, without a gradient as large as W."""

    name, label, kind = "fused", "arcset, SGD fused", "step"
    peaks = [(2.1, 1.6), BUILDING]

    def prepare(self, weight: Tensor | None = None) -> None:
        super().prepare(weight)
        self.loss.fuse_update("sgd", **SGD)

    def release(self) -> None:
        self.loss = None


CONTENDERS: dict[str, type[Contender]] = {
    kind.name: kind
    for kind in (
        Preallocated,
        Allocating,
        Store,
        Recompute,
        Plain,
        Arccos,
        MetricLearning,
        OptimizerStep,
        FusedStep,
    )
}
