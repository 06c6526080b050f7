"""A trained run opened for looking at: what every picture is drawn from."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from arcset.data import ImageSet, Selection
from arcset.errors import OptionError
from arcset.losses import Loss
from arcset.numerics import unit_rows
from arcset.runs import Run
from arcset.runs.model import TrainedRun

Floats: TypeAlias = npt.NDArray[np.floating]
Labels: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A part of the data with its embeddings: rows belong together."""

    embeddings: npt.NDArray[np.float32]  # (N, D), unit rows where the loss is normalized
    labels: Labels  # (N,)
    class_names: tuple[str, ...]
    images: npt.NDArray[np.uint8]  # (N, H, W) or (N, H, W, 3)
    index: Labels  # (N,) rows of the dataset's part


@dataclass(frozen=True, eq=False)
class Frame:
    """One epoch as it was kept during training: the same samples in every frame."""

    epoch: int
    parts: dict[str, npt.NDArray[np.float32]]  # train, test, unseen: (N, D), as in `Embedded`
    centers: Floats | None  # (C, D)
    biases: Floats | None  # (C,)


class RunView:
    """A run with its data, its trained model and its kept epochs, each read when first needed.

    source: a run that is in memory already, so that nothing is loaded or embedded again; or a run
    folder. title: what the run is called in pictures, by default its folder's name.

    `test` and `unseen` are the complete parts, embedded by the trained network; `frames` are the
    fixed samples over the epochs, and `sampled(part)` says which samples those are.
    """

    def __init__(self, source: TrainedRun | Run | Path | str, title: str | None = None) -> None:
        if isinstance(source, TrainedRun):
            self.run: Run = source
            self.trained = source
        else:
            self.run = source if isinstance(source, Run) else Run.open(source)
        self.title = title or self.run.path.name
        self.config = self.run.config

    @cached_property
    def trained(self) -> TrainedRun:
        """Network, loss and data; on the CPU where they are loaded here."""
        return TrainedRun.load(self.run, device="cpu")

    @property
    def network(self) -> nn.Module:
        """The trained network, where it was trained or on the CPU."""
        return self.trained.network

    @cached_property
    def loss(self) -> Loss:
        """The trained loss, on the CPU."""
        loss = self.trained.loss
        return loss if self.trained.device.type == "cpu" else copy.deepcopy(loss).cpu()

    @property
    def selection(self) -> Selection:
        """The data: train, test and unseen."""
        return self.trained.selection

    @cached_property
    def test(self) -> Embedded:
        """All test samples of the known classes; of training where none are kept back from it."""
        return self._embed_part("train" if self.selection.test is None else "test")

    @cached_property
    def unseen(self) -> Embedded | None:
        """All samples of the classes held out, None where every class is known."""
        return None if self.selection.unseen is None else self._embed_part("unseen")

    @cached_property
    def frames(self) -> list[Frame]:
        """The kept epochs, first to last; epoch 0 is before training."""
        return [self._frame(epoch) for epoch in self.run.epochs()]

    def sampled(self, part: str) -> Embedded | None:
        """The kept samples of `train`, `test` or `unseen`, as the last frame has them, if any."""
        source: ImageSet | None = getattr(self.selection, "known" if part == "test" else part)
        if source is None or not self.frames or part not in self.frames[-1].parts:
            return None
        samples = self.run.samples()
        index = samples[f"{part}.index"].numpy()
        return Embedded(
            self.frames[-1].parts[part],
            samples[f"{part}.labels"].numpy(),
            source.class_names,
            as_pictures(source.images[index]),
            index,
        )

    def _embed_part(self, name: str) -> Embedded:
        part: ImageSet = getattr(self.selection, name)
        embeddings = torch.from_numpy(self.trained.embed_part(name).embeddings)
        return Embedded(
            self._as_the_loss_sees(embeddings),
            np.asarray(part.labels, np.int64),
            part.class_names,
            as_pictures(part.images),
            np.arange(len(part), dtype=np.int64),
        )

    def _frame(self, epoch: int) -> Frame:
        tensors = self.run.embeddings(epoch)
        centers, biases = (tensors.pop(name, None) for name in ("centers", "biases"))
        return Frame(
            epoch,
            {part: self._as_the_loss_sees(rows) for part, rows in tensors.items()},
            None if centers is None else centers.numpy(),
            None if biases is None else biases.numpy(),
        )

    def _as_the_loss_sees(self, embeddings: Tensor) -> npt.NDArray[np.float32]:
        """Unit rows where only the direction counts, else the embeddings as they are."""
        seen = unit_rows(embeddings)[0] if self.loss.normalized else embeddings
        rows: npt.NDArray[np.float32] = seen.detach().float().numpy()
        return rows


def check_alike(views: Sequence[RunView], *, dim: bool = False) -> None:
    """Raise `OptionError` unless there are runs, all with the same data and classes (and dim)."""
    if not views:
        raise OptionError("a picture needs at least one run")
    first = views[0]
    for view in views[1:]:
        for setting in ("data", "classes", *(["dim"] if dim else [])):
            values = [getattr(each.config, setting) for each in (first, view)]
            if values[0] != values[1]:
                one, other = ("all" if value is None else value for value in values)
                raise OptionError(
                    f"runs in one picture need the same {setting}: {first.title} has {one}, "
                    f"{view.title} has {other}"
                )


def titles(views: Sequence[RunView]) -> list[str]:
    """What each run is called; where two folders have one name, the folder above tells them apart.

    Runs that are still called the same are numbered.
    """
    names = [view.title for view in views]
    if len(set(names)) < len(names):
        names = [f"{view.run.path.resolve().parent.name}/{view.title}" for view in views]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    return names


def as_pictures(samples: Any) -> Any:
    """Samples of an `ImageSet` as uint8 (N, H, W) or (N, H, W, 3), to look at.

    uint8 pictures are given back as they are. Features are scaled together so that the least is
    black and the greatest white; a vector fills rows of about equal length, channels other than
    three are averaged.

        >>> as_pictures(np.array([[0.0, 1.0, 0.5]], np.float32))[0].tolist()
        [[0, 255], [128, 0]]
    """
    if samples.dtype == np.uint8:
        return samples
    values: npt.NDArray[Any] = np.asarray(samples, np.float64)
    low, high = float(values.min()), float(values.max())
    shades = (values - low) / (high - low or 1.0) * 255
    if shades.ndim == 2:
        columns = int(np.ceil(np.sqrt(shades.shape[1])))
        rows = -(-shades.shape[1] // columns)
        padded = np.zeros((len(shades), rows * columns))
        padded[:, : shades.shape[1]] = shades
        shades = padded.reshape(len(shades), rows, columns)
    if shades.ndim == 4 and shades.shape[-1] != 3:
        shades = shades.mean(axis=-1)
    return np.rint(shades).astype(np.uint8)


def unit_float64(rows: Floats) -> npt.NDArray[np.float64]:
    """Rows of length 1; a zero row stays zero."""
    wide = np.asarray(rows, np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: npt.NDArray[np.float64] = wide / np.where(length > 0, length, 1.0)
    return unit
