"""What one process cannot do, all of them give up: nobody is left waiting."""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from arcset.centers import Centers, Shard
from arcset.errors import RunError
from arcset.losses.base import Loss

__all__ = ["in_step", "shard_of"]


def shard_of(loss: Loss) -> Shard | None:
    """This process's part of the centers; None where they are not shared."""
    shards = [one.shard for one in loss.modules() if isinstance(one, Centers)]
    return next((shard for shard in shards if shard is not None), None)


def in_step(stage: Callable[[], object], *, together: bool, group: Any = None) -> None:
    """Do `stage`, and with `together` wait until every process of the group has done its own.

    Where it fails in one process, that one raises its error, and all others a `RunError` that
    tells it.
    """
    problem = None
    try:
        stage()
    except Exception as error:
        if not together:
            raise
        problem = error
    if not together:
        return
    told: list[str | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, None if problem is None else str(problem), group=group)
    if problem is not None:
        raise problem
    for rank, what in enumerate(told):
        if what is not None:
            raise RunError(f"process {rank}: {what}")
