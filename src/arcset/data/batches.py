"""Batches from images held in memory: indices are drawn once per epoch, pixels stay uint8.

images, labels = to_tensors(selection.train, device)
for index in shuffled_batches(len(labels), 256, seed=0, epoch=epoch, device=device):
    embeddings = network(as_float(images.index_select(0, index)))
    loss(embeddings, labels.index_select(0, index))
"""

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from arcset.data.dataset import ImageSet
from arcset.errors import InputError, OptionError

__all__ = ["as_float", "batch_count", "epoch_seed", "shuffled_batches", "to_tensors"]


def to_tensors(image_set: ImageSet, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Copies of the images, uint8 (N, C, H, W) with C = 1 or 3, and labels, int64 (N,).

    >>> pictures = ImageSet(np.zeros((2, 5, 4, 3), np.uint8), np.array([0, 1]), ("a", "b"))
    >>> images, labels = to_tensors(pictures)
    >>> images.shape, images.dtype, labels.tolist()
    (torch.Size([2, 3, 5, 4]), torch.uint8, [0, 1])
    """
    images = image_set.images
    channels_last = images[..., None] if images.ndim == 3 else images  # (N, H, W, C)
    channels_first = np.ascontiguousarray(channels_last.transpose(0, 3, 1, 2))  # (N, C, H, W)
    return (
        torch.tensor(channels_first, device=device),
        torch.tensor(image_set.labels, device=device),
    )


def as_float(images: Tensor) -> Tensor:
    """uint8 pixels as float32 in −1 .. 1: (x/255 − 0.5)/0.5, in any shape.

    >>> as_float(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist()
    [-1.0, -0.6000000238418579, 1.0]
    """
    if images.dtype != torch.uint8:
        raise InputError(f"images must be uint8, not {images.dtype}")
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
