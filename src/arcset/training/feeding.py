"""What each step is fed: which samples, turned how, changed how; all from seed, epoch and step."""

from collections.abc import Iterator

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

__all__ = ["Feed"]


class Feed:
    """The batches of a run.

    Which samples make up the batches of an epoch depends on the seed and the epoch; how they are
    turned and changed depends on the seed and the step. Nothing else is drawn from, so that a
    continued run is fed what it would have been fed.
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
        shape = images.shape if len(images.shape) == 3 else (1, 1, 1)
        channels, height, width = shape
        self.augmentation = build_augmentation(config.augment, (channels, height, width))
        if config.per_class:
            if config.batch % config.per_class:
                raise OptionError(
                    f"batch={config.batch} is no multiple of per_class={config.per_class}"
                )
            self._balanced = (config.batch // config.per_class, config.per_class)
            present = len(self.samples.labels.unique())
            if self._balanced[0] > present:
                raise OptionError(
                    f"batch={config.batch} with per_class={config.per_class} needs "
                    f"{self._balanced[0]} classes, and there are {present}: take a batch of at "
                    f"most {present * config.per_class}"
                )
            self.per_epoch = balanced_batch_count(self.samples.labels.cpu(), *self._balanced)
        else:
            self.per_epoch = batch_count(len(self.samples), config.batch)

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return self.per_epoch * self.config.epochs

    def class_sizes(self) -> Tensor:
        """Samples of every class (C,), turned and mirrored ones included."""
        return torch.bincount(self.samples.labels, minlength=self.classes).repeat(
            self.transforms.count
        )

    def epoch(self, epoch: int) -> Iterator[Tensor]:
        """The places (B,) of each batch of an epoch."""
        seed = self.config.seed
        if self.config.per_class:
            labels = self.samples.labels
            return balanced_batches(
                labels, *self._balanced, seed=seed, epoch=epoch, device=self.device
            )
        count = len(self.samples)
        return shuffled_batches(
            count, self.config.batch, seed=seed, epoch=epoch, device=self.device
        )

    def batch(
        self, index: Tensor, generator: torch.Generator, own: slice | None = None
    ) -> tuple[Tensor, Tensor]:
        """Samples as the network takes them, floats (B, …), and their labels (B,).

        With `own`, only these rows of the samples, as they would have been among all; all labels.
        """
        labels = self.samples.labels.index_select(0, index)
        part = None if own is None else (len(index), own)
        rows = slice(None) if own is None else own
        images = self.samples.take(index[rows])
        if self.transforms.count > 1:
            # With several images of each class, all of them turn alike: they are one class then.
            alike = self.config.per_class or 1
            which = torch.randint(
                self.transforms.count, (len(index) // alike,), generator=generator
            )
            which = which.repeat_interleave(alike).to(self.device)
            images = self.transforms.apply(images, which[rows])
            labels = self.transforms.labels(labels, which, self.classes)
        images = as_float(images).to(getattr(torch, self.config.dtype))
        return self.augmentation(images, generator, part), labels

    def step_seed(self, step: int) -> int:
        """Of everything that is drawn in step `step` of the run."""
        return epoch_seed(self.config.seed, -1 - step)  # epochs have the numbers from 0 up
