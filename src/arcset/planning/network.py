"""What a network needs, found out without memory for it: tensors that have a shape and no content.

The network is built on torch's meta device and taken through a step there, with a watch on what
autograd keeps for the way back and on the arithmetic of every operation.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from arcset.errors import OptionError
from arcset.networks import build_network

__all__ = ["NetworkCost", "network_cost"]

#: Activations as large as the largest that are alive for a moment on the way back; as measured.
_PASSING = 4.5
_TRIED = 32  # images that are taken through; what a batch needs grows with it


@dataclass(frozen=True)
class NetworkCost:
    """A network and a batch.

    Fields:
        weights: bytes of its parameters and buffers.
        largest: bytes of the largest parameter.
        kept: bytes of activations that the way back needs, images included.
        passing: bytes that come and go on the way back: gradients, and room for convolutions.
        flops: multiplications and additions of a step, forward and backward.
    """

    weights: int = 0
    largest: int = 0
    kept: int = 0
    passing: int = 0
    flops: int = 0


def network_cost(
    name: str | None, dim: int, shape: tuple[int, int, int], batch: int
) -> NetworkCost:
    """The cost of `batch` images of `shape` through the network `name`; nothing for None.

    Raises `OptionError` for a network that is unknown, or too deep or too large for such images.

        >>> cost = network_cost("simple", 2, (1, 28, 28), 64)
        >>> cost.weights > 0 and cost.kept > 64 * 28 * 28 * 4 and cost.flops > 0
        True
    """
    if name is None:
        return NetworkCost()
    try:
        tried = _cost(name, dim, shape)
    except RuntimeError as error:  # as of torch, for sizes that no number holds
        why = str(error).partition("\n")[0]
        raise OptionError(
            f"{name} cannot be built for such images and {dim:,} values: {why}"
        ) from None
    return replace(
        tried,
        kept=tried.kept * batch // _TRIED,
        passing=tried.passing * batch // _TRIED,
        flops=tried.flops * batch // _TRIED,
    )


@lru_cache(maxsize=64)
def _cost(name: str, dim: int, shape: tuple[int, int, int]) -> NetworkCost:
    """Of `_TRIED` images."""
    with torch.device("meta"):
        network = build_network(name, dim, shape)
        images = torch.empty(_TRIED, *shape)
    for module in network.modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase) and module.momentum is None:
            module.momentum = 0.1  # or it would be found from a counter, which has no content here
    parameters = [*network.parameters()]
    known = {tensor.untyped_storage()._cdata for tensor in parameters}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in known:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    alive: list[Tensor] = []  # so that no storage's number is given twice
    with FlopCounterMode(display=False) as counter:
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: alive.append(tensor) or keep(tensor),  # type: ignore[func-returns-value]
            lambda tensor: tensor,
        ):
            found = network(images)
        if found.shape != (len(images), dim):
            raise OptionError(f"{name} gives {tuple(found.shape)} for {len(images)} images")
        found.sum().backward()
    return NetworkCost(
        weights=sum(_size(tensor) for tensor in (*parameters, *network.buffers())),
        largest=max((_size(tensor) for tensor in parameters), default=0),
        kept=sum(kept.values()),
        passing=int(_PASSING * max(kept.values(), default=0)),
        flops=counter.get_total_flops(),
    )


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
