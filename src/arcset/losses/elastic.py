"""Losses on the disk, whose centers several processes hold: each writes and reads its own.

torch.distributed.checkpoint does this, in its safetensors form: every process writes its slice of
the centers, and of whatever belongs to them, into files of its own, and of what all have alike each
a part. Any other number of processes can read that again. Nothing is pickled.
"""

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from arcset.centers import Centers
from arcset.errors import OptionError, RunError
from arcset.losses.base import Loss

__all__ = [
    "by_class",
    "heads_of",
    "load_loss",
    "load_together",
    "loss_tensors",
    "save_loss",
    "save_together",
]

_LARGE = 1 << 26  # bytes: a tensor of more gets a file of its own, as each file is made in memory


def save_loss(loss: Loss, folder: Path | str) -> None:
    """Write the state of `loss`, with that of a fused update, to a new folder.

    Where processes share the centers, all of them call this, with a folder that all can reach. It
    appears when it is complete. Raises `RunError` where something stands in its place.
    """
    folder = Path(folder)
    part = folder.parent / f".{folder.name}.part"
    chief = not loss.shared or dist.get_rank(_group(loss)) == 0
    problem = folder.exists()
    _wait(loss)  # all have looked
    if problem:
        raise RunError(f"{folder} is there already")
    if chief:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    _wait(loss)
    save_together(part, loss_tensors(loss), _group(loss))
    if chief:
        part.rename(folder)
    _wait(loss)


def load_loss(loss: Loss, folder: Path | str) -> None:
    """Bring `loss` to what `save_loss` wrote, from however many processes.

    All of those that share it now call this. For other classes see `export_loss` and `regrow`.
    Raises `RunError` where the folder does not hold such a loss.
    """
    folder = Path(folder)
    if not any(folder.glob("*.safetensors")):
        raise RunError(f"{folder} holds no saved loss")
    load_together(folder, loss_tensors(loss), _group(loss))


def heads_of(loss: Loss) -> dict[str, Centers]:
    """The parts of a loss that have rows per class, by their names."""
    return {name: one for name, one in loss.named_modules() if isinstance(one, Centers)}


def loss_tensors(loss: Loss) -> dict[str, Tensor]:
    """Its state, those with rows per class as all processes have them together."""
    heads = heads_of(loss)
    return {
        name: by_class(heads[owner], tensor)
        if (owner := name.rpartition(".")[0]) in heads
        else tensor
        for name, tensor in loss.state_dict().items()
    }


def by_class(head: Centers, rows: Tensor) -> Tensor:
    """As (C, …) or, with K > 1 rows per class, (C, K, …); of all processes' classes."""
    if head.shard is not None:
        return head.shard.distributed(rows.detach())
    each = len(rows) // head.classes
    return rows.detach() if each == 1 else rows.detach().view(head.classes, each, *rows.shape[1:])


def save_together(folder: Path, tensors: dict[str, Tensor], group: Any = None) -> None:
    """Write named tensors into a folder that is there; all processes of the group call this."""
    checkpoint = _library()
    flat = {name: tensor.contiguous() for name, tensor in tensors.items()}
    files = dict.fromkeys(flat, 1)
    for name, tensor in flat.items():
        if tensor.numel() * tensor.element_size() > _LARGE:
            files[name] = max(files.values()) + 1
    writer = checkpoint.HuggingFaceStorageWriter(
        str(folder), fqn_to_index_mapping=files, save_distributed=True
    )
    with _quietly():
        checkpoint.save(
            flat, storage_writer=writer, process_group=group, no_dist=not dist.is_initialized()
        )


@torch.no_grad()
def load_together(folder: Path, tensors: dict[str, Tensor], group: Any = None) -> None:
    """Fill named tensors with what `save_together` wrote, by however many processes.

    Raises `RunError` where the folder does not hold them.
    """
    checkpoint = _library()
    try:
        reader = checkpoint.HuggingFaceStorageReader(str(folder))
        with _quietly():
            checkpoint.load(
                dict(tensors),
                storage_reader=reader,
                process_group=group,
                no_dist=not dist.is_initialized(),
            )
    except (checkpoint.CheckpointException, OSError, RuntimeError, ValueError) as error:
        why = error
        if isinstance(error, checkpoint.CheckpointException) and error.failures:
            why = next(iter(error.failures.values()))[0]
        first = (str(why).splitlines() or [type(why).__name__])[0]
        raise RunError(f"{folder} does not fit: {first}") from None


@contextmanager
def _quietly() -> Iterator[None]:
    """Without being told that a single process is alone."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        yield


def _library() -> Any:
    import torch.distributed.checkpoint as checkpoint  # takes a second

    if not hasattr(checkpoint, "HuggingFaceStorageWriter"):
        raise OptionError(
            f"share_centers needs torch 2.8 or newer for its checkpoints, not {torch.__version__}"
        )
    return checkpoint


def _group(loss: Loss) -> Any:
    """The processes that share its centers, None for torch's default group or none at all."""
    shards = [head.shard for head in heads_of(loss).values()]
    return next((shard.group for shard in shards if shard is not None), None)


def _wait(loss: Loss) -> None:
    if loss.shared:
        dist.barrier(group=_group(loss))
