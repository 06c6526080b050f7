"""The batches of a run: which samples, turned how, augmented how; all from seed, epoch and step."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from arcset.data import (
    ImageSet,
    Samples,
    as_float,
    batch_count,
    epoch_seed,
    shuffled_batches,
)
from arcset.data.augment import build_augmentation
from arcset.data.batches import balanced_batch_count, balanced_batches
from arcset.data.rotated_classes import class_transforms
from arcset.errors import OptionError
from arcset.runs import RunConfig


class TrainingBatches:
    """The batches of a run.

    Which samples make up the batches of an epoch depends on the seed and the epoch; how they are
    turned and augmented depends on the seed and the step. Nothing else has a part in it, so that a
    continued run gets the batches that it would have got.

    per_epoch, steps: how many there are in an epoch, and in the whole run. classes: of the images
    as they are; turned and mirrored ones follow as classes of their own.
    """

    def __init__(self, config: RunConfig, images: ImageSet, device: torch.device) -> None:
        self.config, self.device = config, device
        self.samples = Samples(images, device)
        self.classes = len(images.class_names)
        self.transforms = class_transforms(config.new_classes)
        if config.augment and len(images.shape) != 3:
            raise OptionError(
                f"augment {config.augment[0]!r} changes images, and the data are vectors: "
                "leave it out"
            )
        channels, height, width = images.shape if len(images.shape) == 3 else (1, 1, 1)
        self.augmentation = build_augmentation(config.augment, (channels, height, width))
        if config.per_class:
            self._balanced = self._classes_and_samples()
            self.per_epoch = balanced_batch_count(self.samples.labels.cpu(), *self._balanced)
        else:
            self.per_epoch = batch_count(len(self.samples), config.batch)
        self.steps = self.per_epoch * config.epochs

    def class_sizes(self) -> Tensor:
        """Samples of every class (C,), turned and mirrored ones included."""
        sizes = torch.bincount(self.samples.labels, minlength=self.classes)
        return sizes.repeat(self.transforms.count)

    def epoch(self, epoch: int) -> Iterator[Tensor]:
        """The samples of each batch of an epoch, by their numbers (B,)."""
        drawn_by: Any = {"seed": self.config.seed, "epoch": epoch, "device": self.device}
        if self.config.per_class:
            return balanced_batches(self.samples.labels, *self._balanced, **drawn_by)
        return shuffled_batches(len(self.samples), self.config.batch, **drawn_by)

    def batch(
        self, index: Tensor, generator: torch.Generator, rows: slice | None = None
    ) -> tuple[Tensor, Tensor]:
        """Samples as the network takes them, floats (B, …), and their labels (B,).

        With `rows`, only these of the samples, as they would have been among all; and all labels.
        """
        labels = self.samples.labels.index_select(0, index)
        part = None if rows is None else (len(index), rows)
        rows = rows or slice(None)
        images = self.samples.take(index[rows])  # (b, C, H, W), uint8
        if self.transforms.count > 1:
            # With several images of each class, all of them turn alike: they are one class then.
            alike = self.config.per_class or 1
            which = torch.randint(
                self.transforms.count, (len(index) // alike,), generator=generator
            )
            which = which.repeat_interleave(alike).to(self.device)  # (B,)
            images = self.transforms.apply(images, which[rows])
            labels = self.transforms.labels(labels, which, self.classes)
        images = as_float(images).to(getattr(torch, self.config.dtype))
        return self.augmentation(images, generator, part), labels

    def step_seed(self, step: int) -> int:
        """The seed of everything that is drawn in step `step` of the run."""
        return epoch_seed(self.config.seed, -1 - step)  # epochs have the numbers from 0 up

    def _classes_and_samples(self) -> tuple[int, int]:
        """How many classes a batch draws, and how many samples of each."""
        batch, per_class = self.config.batch, self.config.per_class
        if batch % per_class:
            raise OptionError(f"batch={batch} is no multiple of per_class={per_class}")
        classes, present = batch // per_class, len(self.samples.labels.unique())
        if classes > present:
            raise OptionError(
                f"batch={batch} with per_class={per_class} needs {classes} classes, and there are "
                f"{present}: take a batch of at most {present * per_class}"
            )
        return classes, per_class
