"""Pieces that several networks are made of."""

from torch import nn

from arcset.errors import OptionError

__all__ = ["conv_block", "dense_block", "pooled_size"]


def conv_block(before: int, after: int) -> list[nn.Module]:
    """3×3 convolution without bias (batch norm has one), batch norm, ReLU; keeps H and W."""
    return [
        nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    ]


def dense_block(before: int, after: int) -> list[nn.Module]:
    """Fully connected without bias, batch norm, ReLU."""
    return [
        nn.Linear(before, after, bias=False),
        nn.BatchNorm1d(after),
        nn.ReLU(inplace=True),
    ]


def pooled_size(name: str, size: int, times: int) -> int:
    """What is left of `size` pixels after `times` halvings; at least 1, or an error."""
    left = size >> times
    if left < 1:
        raise OptionError(f"{name} needs images of at least {1 << times} pixels a side, not {size}")
    return left
