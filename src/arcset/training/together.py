"""Tensors of several processes on the disk, of which each writes and reads what it holds.

torch.distributed.checkpoint does this, in its safetensors form: every process writes its slice of
the centers, and of whatever belongs to them, into files of its own, and of what all have alike each
a part. Any other number of processes can read that again.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from arcset.centers import Centers
from arcset.errors import OptionError, RunError

if TYPE_CHECKING:
    from arcset.training.checkpoint import State

__all__ = ["all_tensors", "empty_states", "load_together", "save_together", "state_shapes"]

_LARGE = 1 << 26  # bytes: a tensor of more gets a file of its own, as each file is made in memory


def all_tensors(state: "State", optimizer: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor of `state` under one name, those with rows per class in the form that processes
    share: see `Shard.distributed`.

    optimizer: its tensors by "index.name".
    """
    heads = {name: one for name, one in state.loss.named_modules() if isinstance(one, Centers)}
    found: dict[str, Tensor] = {}
    for kind, module in state.modules().items():
        for name, tensor in module.state_dict().items():
            head = heads.get(name.rpartition(".")[0]) if module is state.loss else None
            found[f"{kind}.{name}"] = tensor if head is None else _by_class(head, tensor)
    owners = {id(one): head for head in heads.values() for one in head.parameters()}
    parameters = _parameters(state.optimizer)
    for key, tensor in optimizer.items():
        parameter = parameters[int(key.partition(".")[0])]
        head = owners.get(id(parameter)) if tensor.shape == parameter.shape else None
        found[f"optimizer.{key}"] = tensor if head is None else _by_class(head, tensor)
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


def save_together(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Write named tensors into a folder that is there; all processes call this."""
    checkpoint = _library()
    flat = {name: tensor.contiguous() for name, tensor in tensors.items()}
    files = dict.fromkeys(flat, 1)
    for name, tensor in flat.items():
        if tensor.numel() * tensor.element_size() > _LARGE:
            files[name] = max(files.values()) + 1
    writer = checkpoint.HuggingFaceStorageWriter(
        str(folder), fqn_to_index_mapping=files, save_distributed=True
    )
    checkpoint.save(flat, storage_writer=writer, no_dist=not dist.is_initialized())


@torch.no_grad()
def load_together(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Fill named tensors with what `save_together` wrote, by however many processes.

    Raises `RunError` where the folder does not hold them.
    """
    checkpoint = _library()
    try:
        reader = checkpoint.HuggingFaceStorageReader(str(folder))
        checkpoint.load(dict(tensors), storage_reader=reader, no_dist=not dist.is_initialized())
    except (checkpoint.CheckpointException, OSError, RuntimeError, ValueError) as error:
        why = error
        if isinstance(error, checkpoint.CheckpointException) and error.failures:
            why = next(iter(error.failures.values()))[0]
        first = (str(why).splitlines() or [type(why).__name__])[0]
        raise RunError(f"{folder} does not fit: {first}") from None


def _library() -> Any:
    import torch.distributed.checkpoint as checkpoint  # takes a second

    if not hasattr(checkpoint, "HuggingFaceStorageWriter"):
        raise OptionError(
            f"share_centers needs torch 2.8 or newer for its checkpoints, not {torch.__version__}"
        )
    return checkpoint


def _by_class(head: Centers, rows: Tensor) -> Tensor:
    """As (C, …) or, with K > 1 rows per class, (C, K, …); of all processes' classes."""
    if head.shard is not None:
        return head.shard.distributed(rows.detach())
    each = len(rows) // head.classes
    return rows.detach() if each == 1 else rows.detach().view(head.classes, each, *rows.shape[1:])


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    """In the order of the optimizer's state."""
    return [one for group in optimizer.param_groups for one in group["params"]]
