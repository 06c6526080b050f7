"""Batches from images held in memory: indices are drawn once per epoch, pixels stay uint8.

samples = Samples(selection.train, device)
for index in shuffled_batches(len(samples), 256, seed=0, epoch=epoch, device=device):
    embeddings = network(as_float(samples.take(index)))
    loss(embeddings, samples.labels.index_select(0, index))

`balanced_batches` draws P classes with K samples each, as losses on pairs and triplets need.
"""

import hashlib
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from arcset.checks import check_count
from arcset.data.dataset import ImageSet, LazyRows
from arcset.errors import InputError, OptionError


def to_tensors(image_set: ImageSet, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Copies of the samples, (N, C, H, W) or (N, D), and of the labels, int64 (N,).

    >>> pictures = ImageSet(np.zeros((2, 5, 4, 3), np.uint8), np.array([0, 1]), ("a", "b"))
    >>> images, labels = to_tensors(pictures)
    >>> images.shape, images.dtype, labels.tolist()
    (torch.Size([2, 3, 5, 4]), torch.uint8, [0, 1])
    """
    images = as_tensor(np.array(image_set.images), device).contiguous()
    return images, torch.tensor(image_set.labels, device=device)


def as_tensor(samples: npt.NDArray[Any], device: torch.device | str = "cpu") -> Tensor:
    """An array of samples as `ImageSet` has them as (N, C, H, W) or (N, D), channels last."""
    if samples.ndim == 3:
        samples = samples[..., None]  # (N, H, W, 1)
    with warnings.catch_warnings():
        # torch warns that writing to it is undefined; it is only read.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        images = torch.from_numpy(samples).to(device)
    return images.permute(0, 3, 1, 2) if images.ndim == 4 else images  # (N, C, H, W)


class Samples:
    """All samples of a set as training draws from them; those that lie in a file stay there.

    >>> pictures = ImageSet(np.zeros((3, 5, 4), np.uint8), np.array([0, 1, 1]), ("a", "b"))
    >>> samples = Samples(pictures)
    >>> len(samples), samples.take(torch.tensor([2, 0])).shape
    (3, torch.Size([2, 1, 5, 4]))
    """

    def __init__(self, image_set: ImageSet, device: torch.device | str = "cpu") -> None:
        images = image_set.images
        self.device = torch.device(device)
        self.labels = torch.tensor(image_set.labels, device=device)  # (N,)
        self._rows: Tensor | None = None
        if isinstance(images, LazyRows):
            # On another device only what fits there: a set in a file is sent batch by batch.
            self._rows, self._images = torch.from_numpy(images.rows), as_tensor(images.base)
        else:
            self._images = as_tensor(images, device)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> Tensor:
        """The samples `index` (B,), in memory of their own, channels last in it."""
        if self._rows is not None:
            index = self._rows[index.to(self._rows.device)]
        index = index.to(self._images.device)
        if self._images.ndim != 4:
            samples = self._images.index_select(0, index)
        else:
            samples = self._images.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
        return samples.to(self.device, non_blocking=True)


def as_float(images: Tensor) -> Tensor:
    """uint8 pixels as float32 in −1 .. 1: (x/255 − 0.5)/0.5, in any shape; floats as they are.

    >>> as_float(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist()
    [-1.0, -0.6000000238418579, 1.0]
    """
    if images.dtype in (torch.float32, torch.float64):
        return images
    if images.dtype != torch.uint8:
        raise InputError(f"images must be uint8, or float32 features, not {images.dtype}")
    # In place on the fresh copy: one allocation per batch.
    return images.to(torch.float32).div_(127.5).sub_(1.0)


def batch_count(count: int, batch: int) -> int:
    """How many batches `shuffled_batches` yields.

    >>> batch_count(10, 4), batch_count(9, 4)
    (3, 2)
    """
    return len(_batch_sizes(count, batch))


def shuffled_batches(
    count: int, batch: int, *, seed: int, epoch: int, device: torch.device | str = "cpu"
) -> Iterator[Tensor]:
    """Index tensors, int64 (B,), that together name each of `count` samples exactly once.

    The order depends on `seed` and `epoch` alone, not on the device nor on what was drawn before,
    so that a resumed run sees the batches it would have seen. A last batch of one sample, on which
    batch normalization fails, joins the one before it, which then holds batch + 1.

        >>> batches = list(shuffled_batches(9, 4, seed=0, epoch=0))
        >>> [len(index) for index in batches], sorted(torch.cat(batches).tolist())
        ([4, 5], [0, 1, 2, 3, 4, 5, 6, 7, 8])
    """
    generator = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    order = torch.randperm(count, generator=generator).to(device)
    return iter(torch.split(order, _batch_sizes(count, batch)))


def _batch_sizes(count: int, batch: int) -> list[int]:
    full, rest = divmod(count, batch)
    if rest == 1 and full > 0:
        return [batch] * (full - 1) + [batch + 1]
    return [batch] * full + ([rest] if rest else [])


def epoch_seed(seed: int, epoch: int) -> int:
    """A generator seed for this epoch. A sum would give (0, 1) and (1, 0) the same order."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{epoch}".encode()).digest()[:4], "big")


def balanced_batch_count(labels: Tensor, classes_per_batch: int, samples_per_class: int) -> int:
    """How many batches `balanced_batches` yields: ⌈N / (P K)⌉, N samples or a few more.

    >>> balanced_batch_count(torch.tensor([0, 0, 0, 1, 1, 2, 2]), 2, 2)
    2
    """
    classes = len(labels.unique())
    check_count("classes_per_batch", classes_per_batch)
    check_count("samples_per_class", samples_per_class)
    if classes_per_batch > classes:
        raise OptionError(
            f"classes_per_batch={classes_per_batch}: the samples have {classes} classes; "
            f"take at most {classes}"
        )
    return math.ceil(len(labels) / (classes_per_batch * samples_per_class))


def balanced_batches(
    labels: Tensor,
    classes_per_batch: int,
    samples_per_class: int,
    *,
    seed: int,
    epoch: int,
    device: torch.device | str = "cpu",
) -> Iterator[Tensor]:
    """Index tensors, int64 (P·K,): P different classes, K samples of one class after the other.

    `labels` (N,) int64 are those of the samples, and may leave numbers out. Over the epoch, each
    class is drawn as often as any other, or once less, however many samples it has. A class goes
    through all of its samples, in random order, before one comes again; within a batch a sample
    comes twice only where its class has fewer than K. So large classes show a part of their samples
    per epoch, another one in the next. There are `balanced_batch_count` batches, all of P·K.

    The order depends on `seed` and `epoch` alone, not on the device nor on what was drawn before.
    Raises `OptionError` where the labels have fewer than P classes.

        >>> labels = torch.tensor([7, 7, 7, 4, 4, 9, 9])
        >>> [labels[index].tolist() for index in balanced_batches(labels, 2, 2, seed=0, epoch=0)]
        [[9, 9, 4, 4], [7, 7, 4, 4]]
    """
    labels = labels.cpu()
    batches = balanced_batch_count(labels, classes_per_batch, samples_per_class)
    generator = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    order = torch.randperm(len(labels), generator=generator)
    by_class = order[labels[order].argsort(stable=True)]  # classes in turn, each shuffled
    sizes = labels[by_class].unique_consecutive(return_counts=True)[1]  # (C,)
    starts = sizes.cumsum(0) - sizes  # (C,)
    classes = len(sizes)
    slots = batches * classes_per_batch
    chosen = _draw_classes(classes, classes_per_batch, slots, generator)  # (slots,)
    # Each pass draws every class once: in pass t a class gives its samples t K … t K + K − 1,
    # counted around.
    turn = torch.arange(slots) // classes  # (slots,)
    sample = turn[:, None] * samples_per_class + torch.arange(samples_per_class)  # (slots, K)
    index = by_class[starts[chosen][:, None] + sample % sizes[chosen][:, None]]
    return iter(index.reshape(batches, -1).to(device).unbind())


def _draw_classes(classes: int, per_batch: int, slots: int, generator: torch.Generator) -> Tensor:
    """`slots` class numbers: passes through all classes, each in random order, such that no batch
    holds a class twice even where one pass ends and the next begins."""
    chosen = torch.empty(slots, dtype=torch.int64)
    for begin in range(0, slots, classes):
        order = torch.randperm(classes, generator=generator)
        begun = begin % per_batch  # so many of this batch are from the pass before
        if begun > 0:
            order = _move_back(order, chosen[begin - begun : begin], per_batch - begun)
        chosen[begin : begin + classes] = order[: slots - begin]
    return chosen


def _move_back(order: Tensor, taken: Tensor, lead: int) -> Tensor:
    """`order` with its first `lead` swapped where need be, so that none of them is `taken`.

    Those taken and those leading make a batch, of no more classes than there are: so behind the
    lead stand at least as many that are not taken as the lead has that are.
    """
    is_taken = torch.zeros(len(order), dtype=torch.bool)
    is_taken[taken] = True
    clash = is_taken[order]
    wrong = clash[:lead].nonzero().squeeze(1)
    others = (~clash[lead:]).nonzero().squeeze(1)[: len(wrong)] + lead
    order[wrong], order[others] = order[others], order[wrong]
    return order
