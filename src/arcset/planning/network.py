"""What a network needs, found out without memory for it: tensors that have a shape and no content.

The network is built on torch's meta device and taken through a step there, with a watch on what
autograd keeps for the way back and on the arithmetic of every operation.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from arcset.errors import OptionError
from arcset.networks import build_network

__all__ = ["NetworkCost", "network_cost"]

#: Activations as large as the largest that are alive for a moment on the way back; as measured.
_PASSING = 4.5


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


@lru_cache(maxsize=64)
def network_cost(
    name: str | None, dim: int, shape: tuple[int, int, int], batch: int
) -> NetworkCost:
    """The cost of `batch` images of `shape` through the network `name`; nothing for None.

    Raises `OptionError` for a network that is unknown, or too deep for such images.

        >>> cost = network_cost("simple", 2, (1, 28, 28), 64)
        >>> cost.weights > 0 and cost.kept > 64 * 28 * 28 * 4 and cost.flops > 0
        True
    """
    if name is None:
        return NetworkCost()
    with torch.device("meta"):
        network = build_network(name, dim, shape)
        images = torch.empty(max(batch, 2), *shape)
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
    share = batch / len(images)
    return NetworkCost(
        weights=sum(_size(tensor) for tensor in (*parameters, *network.buffers())),
        largest=max((_size(tensor) for tensor in parameters), default=0),
        kept=int(sum(kept.values()) * share),
        passing=int(_PASSING * max(kept.values(), default=0) * share),
        flops=int(counter.get_total_flops() * share),
    )


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
