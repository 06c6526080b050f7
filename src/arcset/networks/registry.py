"""The one list of networks."""

from collections.abc import Callable

from torch import nn

from arcset.errors import OptionError
from arcset.registry import Registry

__all__ = ["NETWORKS", "Shape", "build_network", "network_names"]

#: Channels, height and width of the images that come in.
Shape = tuple[int, int, int]

NETWORKS: Registry[Callable[[Shape, int], nn.Module]] = Registry("network", "arcset.networks")


def network_names() -> list[str]:
    """Every registered network."""
    return NETWORKS.names()


def build_network(name: str, dim: int, shape: Shape = (1, 28, 28)) -> nn.Module:
    """Build a network for images of `shape` (channels, height, width) with `dim` ≥ 2 outputs.

    >>> import torch
    >>> network = build_network("simple", dim=2)
    >>> network(torch.zeros(4, 1, 28, 28)).shape
    torch.Size([4, 2])

    Raises:
        OptionError: the name is unknown, `dim` is below 2, or the images are too small.
    """
    if not isinstance(dim, int) or dim < 2:
        raise OptionError(f"dim must be a whole number of at least 2, not {dim!r}")
    if len(shape) != 3 or min(shape) < 1:
        raise OptionError(f"shape must be (channels, height, width), not {shape!r}")
    return NETWORKS[name](shape, dim)
