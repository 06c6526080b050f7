"""Input checks with one sentence each."""

import math

import torch
from torch import Tensor

from arcset.errors import InputError

__all__ = [
    "check_batch",
    "check_centers",
    "check_embeddings",
    "check_overflow",
]


def check_embeddings(embeddings: object, dim: int, least: int = 1) -> Tensor:
    """`embeddings` if it is a finite floating-point (B, dim) tensor with B ≥ `least`."""
    if not isinstance(embeddings, Tensor):
        raise InputError(f"embeddings must be a torch tensor, not {type(embeddings).__name__}")
    if embeddings.dim() != 2 or embeddings.shape[1] != dim or embeddings.shape[0] < least:
        shape = tuple(embeddings.shape)
        raise InputError(f"embeddings must have shape (B, {dim}) with B ≥ {least}, not {shape}")
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


def check_batch(
    embeddings: object,
    labels: object,
    dim: int,
    classes: int,
    ignore: int | None = None,
    *,
    least: int = 1,
) -> Tensor:
    """Check a batch; returns the labels as int64 (B,) in 0 … classes − 1, or equal to `ignore`."""
    checked = check_embeddings(embeddings, dim, least)
    if not isinstance(labels, Tensor):
        raise InputError(f"labels must be a torch tensor, not {type(labels).__name__}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(f"labels must be whole numbers (int64), not {labels.dtype}")
    if labels.shape != checked.shape[:1]:
        raise InputError(f"labels must have shape ({len(checked)},), not {tuple(labels.shape)}")
    labels = labels.long()
    wrong = (labels < 0) | (labels >= classes)
    if ignore is not None:
        wrong &= labels != ignore
    if bool(wrong.any()):
        outside = wrong.nonzero()
        first = int(outside[0])
        raise InputError(
            f"labels must lie in 0 … {classes - 1} ({classes} classes), but "
            f"label {int(labels[first])} stands at position {first}"
        )
    return labels


def check_overflow(value: Tensor, embeddings: Tensor) -> Tensor:
    """`value` of a loss to which lengths count, unless the embeddings are too large for its dtype.

    A value that is not finite for another reason, such as weights that diverged, is returned.
    """
    if math.isfinite(value.item()):
        return value
    largest = embeddings.detach().abs().amax().item()
    if largest > 1e-3 * torch.finfo(value.dtype).max ** 0.5:
        dtype = str(value.dtype).removeprefix("torch.")
        raise InputError(
            f"embeddings with entries as large as {largest:.3g} overflow {dtype} in this loss: "
            "normalize or scale them first"
        )
    return value


def check_centers(full: object, shape: tuple[int, int]) -> Tensor:
    """`full` if it is a finite floating-point tensor of the centers' shape."""
    if not isinstance(full, Tensor) or tuple(full.shape) != shape:
        given = tuple(full.shape) if isinstance(full, Tensor) else type(full).__name__
        raise InputError(f"centers must be a tensor of shape {shape}, not {given}")
    if not full.is_floating_point() or not bool(torch.isfinite(full).all()):
        raise InputError("centers must be finite floating-point numbers")
    return full
