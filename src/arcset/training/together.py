"""The tensors of a run whose centers several processes may hold, under one name each.

See `arcset.losses.saving` for how they come to the disk and back.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from arcset.losses.saving import by_class, heads_of, loss_tensors

if TYPE_CHECKING:
    from arcset.training.checkpoint import State

__all__ = ["all_tensors", "empty_states", "state_shapes"]


def all_tensors(state: "State", optimizer: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor of `state`, those with rows per class as all processes have them together.

    optimizer: its tensors by "index.name".
    """
    found = {
        f"{kind}.{name}": tensor
        for kind, module in state.modules().items()
        for name, tensor in (
            loss_tensors(state.loss) if module is state.loss else module.state_dict()
        ).items()
    }
    heads = heads_of(state.loss).values()
    owners = {id(one): head for head in heads for one in head.parameters()}
    parameters = _parameters(state.optimizer)
    for key, tensor in optimizer.items():
        parameter = parameters[int(key.partition(".")[0])]
        head = owners.get(id(parameter)) if tensor.shape == parameter.shape else None
        name = f"optimizer.{key}"
        found |= {name: tensor} if head is None else by_class(head, name, tensor)
    return found


def state_shapes(optimizer: Optimizer) -> dict[str, Any]:
    """What an optimizer keeps, by "index.name": None where it is as large as the parameter."""
    parameters = _parameters(optimizer)
    return {
        f"{index}.{name}": None if value.shape == parameters[index].shape else list(value.shape)
        for index, entries in optimizer.state_dict()["state"].items()
        for name, value in entries.items()
        if isinstance(value, Tensor)
    }


def empty_states(optimizer: Optimizer, shapes: dict[str, Any]) -> dict[str, Tensor]:
    """Tensors to be filled with what an optimizer has kept, from `state_shapes`."""
    parameters = _parameters(optimizer)
    found = {}
    for key, shape in shapes.items():
        parameter = parameters[int(key.partition(".")[0])]
        like = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        found[key] = like.detach() if shape is None else torch.zeros(shape)
    return found


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    """In the order of the optimizer's state."""
    return [one for group in optimizer.param_groups for one in group["params"]]
