"""A trained run opened for looking at: what every picture is drawn from."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from arcset.data import ImageSet, Selection, to_tensors
from arcset.losses import Loss
from arcset.numerics import unit_rows
from arcset.reports.samples import pictured
from arcset.runs import Run
from arcset.runs.data import selection_of
from arcset.runs.model import embed, load_model

__all__ = ["Embedded", "Frame", "RunView"]

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A part of the data with its embeddings: rows belong together."""

    embeddings: Floats  # (N, D), unit rows where the loss is normalized
    labels: npt.NDArray[np.int64]  # (N,)
    class_names: tuple[str, ...]
    images: npt.NDArray[np.uint8]  # (N, H, W) or (N, H, W, 3)
    index: npt.NDArray[np.int64]  # (N,) places in the dataset's part


@dataclass(frozen=True, eq=False)
class Frame:
    """One epoch as it was kept during training: the same samples in every frame."""

    epoch: int
    parts: dict[str, Floats]  # train, test, unseen: (N, D), unit rows where the loss is normalized
    centers: Floats | None  # (C, D)
    biases: Floats | None  # (C,)


class RunView:
    """A run with its data, its trained model and its kept epochs; everything on the CPU.

    `test` and `unseen` are the complete parts, embedded by the trained network; `frames` are the
    fixed samples over the epochs, and `sampled(part)` says which samples those are. `title` is
    what the run is called in pictures: its folder's name, unless given.
    """

    def __init__(self, path: Path | str, title: str | None = None) -> None:
        self.run = Run.open(path)
        self.title = title or self.run.path.name
        self.config = self.run.config
        self.network: nn.Module
        self.loss: Loss
        self.network, self.loss = load_model(self.run)

    @cached_property
    def selection(self) -> Selection:
        """The data: train, test and unseen."""
        return selection_of(self.run)

    @cached_property
    def test(self) -> Embedded:
        """All test samples of the known classes; of training where none are kept back from it."""
        return self._embedded(self.selection.known)

    @cached_property
    def unseen(self) -> Embedded | None:
        """All samples of the classes held out, None where every class is known."""
        part = self.selection.unseen
        return None if part is None else self._embedded(part)

    @cached_property
    def frames(self) -> list[Frame]:
        """The kept epochs, first to last; epoch 0 is before training."""
        return [self._frame(epoch) for epoch in self.run.epochs()]

    def sampled(self, part: str) -> Embedded | None:
        """The kept samples of `train`, `test` or `unseen`, as the last frame has them."""
        source: ImageSet | None = getattr(self.selection, "known" if part == "test" else part)
        if source is None or part not in self.frames[-1].parts:
            return None
        samples = self.run.samples()
        index = samples[f"{part}.index"].numpy()
        return Embedded(
            self.frames[-1].parts[part],
            samples[f"{part}.labels"].numpy(),
            source.class_names,
            pictured(source.images[index]),
            index,
        )

    def _embedded(self, part: ImageSet) -> Embedded:
        images, labels = to_tensors(part)
        embeddings = self._shown(embed(self.network, images))
        index = np.arange(len(part), dtype=np.int64)
        return Embedded(embeddings, labels.numpy(), part.class_names, pictured(part.images), index)

    def _frame(self, epoch: int) -> Frame:
        kept = self.run.embeddings(epoch)
        centers, biases = (kept.pop(name, None) for name in ("centers", "biases"))
        return Frame(
            epoch,
            {part: self._shown(embeddings) for part, embeddings in kept.items()},
            None if centers is None else centers.numpy(),
            None if biases is None else biases.numpy(),
        )

    def _shown(self, embeddings: Tensor) -> Floats:
        """Embeddings as the loss sees them: unit rows where only the direction counts."""
        rows = unit_rows(embeddings)[0] if self.loss.normalized else embeddings
        shown: Floats = rows.detach().float().numpy()
        return shown
