"""What a continued run needs: weights and optimizer state, without pickle.

Learning rate and shuffling are pure functions of configuration, epoch and step, so they need none.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from arcset.errors import RunError
from arcset.files import write_text
from arcset.losses import Loss
from arcset.runs.states import load_tensors, save_tensors

__all__ = ["latest_checkpoint", "load_checkpoint", "save_checkpoint"]


def save_checkpoint(
    folder: Path, epoch: int, network: nn.Module, loss: Loss, optimizer: Optimizer
) -> None:
    """Write `folder`/epoch-NNNN, complete or not at all, and remove the older ones."""
    final = folder / f"epoch-{epoch:04d}"
    part = folder / f".{final.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    tensors, numbers = _flatten(optimizer.state_dict()["state"])
    save_tensors(part / "network.safetensors", network.state_dict())
    save_tensors(part / "loss.safetensors", loss.state_dict())
    save_tensors(part / "optimizer.safetensors", tensors)
    write_text(part / "state.json", json.dumps({"epoch": epoch, "optimizer": numbers}))
    shutil.rmtree(final, ignore_errors=True)
    part.rename(final)
    for other in folder.iterdir():
        if other != final:
            shutil.rmtree(other, ignore_errors=True)


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint, or None."""
    return max(folder.glob("epoch-*"), default=None)


def load_checkpoint(place: Path, network: nn.Module, loss: Loss, optimizer: Optimizer) -> int:
    """Bring network, loss and optimizer to the state after the epoch that is returned."""
    try:
        state = json.loads((place / "state.json").read_text(encoding="utf-8"))
        epoch, numbers = int(state["epoch"]), state["optimizer"]
        network.load_state_dict(load_tensors(place / "network.safetensors"))
        loss.load_state_dict(load_tensors(place / "loss.safetensors"))
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise RunError(f"the checkpoint {place} cannot be used: {first}") from None
    content = optimizer.state_dict()
    content["state"] = _unflatten(load_tensors(place / "optimizer.safetensors"), numbers)
    optimizer.load_state_dict(content)
    return epoch


def _flatten(state: dict[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimizer's state as tensors for safetensors and the rest for JSON, by "index.name"."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for index, entries in state.items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{index}.{name}"] = value
            else:
                numbers[f"{index}.{name}"] = value
    return tensors, numbers


def _unflatten(tensors: dict[str, Tensor], numbers: dict[str, Any]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **numbers}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    return state
