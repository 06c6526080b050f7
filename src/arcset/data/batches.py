"""Batches from images held in memory: indices are drawn once per epoch, pixels stay uint8.

samples = Samples(selection.train, device)
for index in shuffled_batches(len(samples), 256, seed=0, epoch=epoch, device=device):
    embeddings = network(as_float(samples.take(index)))
    loss(embeddings, samples.labels.index_select(0, index))
"""

import hashlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from arcset.data.dataset import ImageSet
from arcset.data.rows import RowsView, in_file
from arcset.errors import InputError, OptionError

__all__ = [
    "Samples",
    "as_float",
    "as_tensor",
    "batch_count",
    "epoch_seed",
    "shuffled_batches",
    "to_tensors",
]


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
        # torch says that writing to it is undefined, and nobody writes.
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
        if isinstance(images, RowsView):
            self._rows, images = torch.from_numpy(images.rows), images.base
        # On another device only what fits there: a set in a file is sent batch by batch.
        self._stays = in_file(images)
        self._images = as_tensor(images, "cpu" if self._stays else device)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> Tensor:
        """The samples `index` (B,), in memory of their own, channels last in it."""
        if self._rows is not None:
            index = self._rows[index.to(self._rows.device)]
        index = index.to(self._images.device)
        if self._images.ndim != 4:
            found = self._images.index_select(0, index)
        else:
            found = self._images.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
        return found.to(self.device, non_blocking=True)


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


def batch_count(count: int, batch: int, *, drop_last: bool = False) -> int:
    """How many batches `shuffled_batches` yields.

    >>> batch_count(10, 4), batch_count(9, 4), batch_count(10, 4, drop_last=True)
    (3, 2, 2)
    """
    return len(_sizes(count, batch, drop_last))


def shuffled_batches(
    count: int,
    batch: int,
    *,
    seed: int,
    epoch: int,
    drop_last: bool = False,
    device: torch.device | str = "cpu",
) -> Iterator[Tensor]:
    """Index tensors, int64 (B,), that together name each of `count` samples exactly once.

    The order depends on `seed` and `epoch` alone, not on the device nor on what was drawn before,
    so that a resumed run sees the batches it would have seen. A last batch of one sample, on which
    batch normalization fails, joins the one before it (which then holds batch + 1); `drop_last`
    leaves out whatever does not fill a batch. Raises `OptionError` where no batch would come out.

        >>> batches = list(shuffled_batches(9, 4, seed=0, epoch=0))
        >>> [len(index) for index in batches], sorted(torch.cat(batches).tolist())
        ([4, 5], [0, 1, 2, 3, 4, 5, 6, 7, 8])
    """
    sizes = _sizes(count, batch, drop_last)
    generator = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    order = torch.randperm(count, generator=generator).to(device)
    return iter(torch.split(order[: sum(sizes)], sizes))


def _sizes(count: int, batch: int, drop_last: bool) -> list[int]:
    if count < 1 or batch < 1:
        raise OptionError(f"count and batch must be at least 1, not {count} and {batch}")
    full, rest = divmod(count, batch)
    if drop_last:
        if full == 0:
            raise OptionError(
                f"a batch of {batch} is never filled by {count} samples; "
                f"take a batch of at most {count}, or keep the last one"
            )
        return [batch] * full
    if rest == 1 and full > 0:
        return [batch] * (full - 1) + [batch + 1]
    return [batch] * full + ([rest] if rest else [])


def epoch_seed(seed: int, epoch: int) -> int:
    """A generator seed for this epoch. A sum would give (0, 1) and (1, 0) the same order."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{epoch}".encode()).digest()[:4], "big")
