"""What a continued run needs: weights, averages and optimizer state, without pickle.

Learning rate, shuffling and augmentation are pure functions of configuration, epoch and step, so
they need none.
"""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from arcset.errors import RunError
from arcset.files import write_text
from arcset.losses import Loss
from arcset.runs.states import load_tensors, save_tensors

__all__ = ["Progress", "State", "latest_checkpoint", "load_checkpoint", "save_checkpoint"]


@dataclass
class Progress:
    """How far a run has come.

    epoch: complete ones. best: the highest validation measure. waited: validations since then.
    """

    epoch: int = 0
    best: float | None = None
    waited: int = 0


@dataclass
class State:
    """Everything that changes while a run is trained.

    average: the network with averaged weights, None without one.
    """

    network: nn.Module
    loss: Loss
    optimizer: Optimizer
    average: nn.Module | None
    scaler: torch.amp.GradScaler
    progress: Progress = field(default_factory=Progress)

    def modules(self) -> dict[str, nn.Module]:
        """By the name of the file that holds it."""
        found: dict[str, nn.Module] = {"network": self.network, "loss": self.loss}
        return found if self.average is None else {**found, "average": self.average}


def save_checkpoint(folder: Path, state: State) -> None:
    """Write `folder`/epoch-NNNN, complete or not at all, and remove the older ones."""
    final = folder / f"epoch-{state.progress.epoch:04d}"
    part = folder / f".{final.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    tensors, numbers = _flatten(state.optimizer.state_dict()["state"])
    for name, module in state.modules().items():
        save_tensors(part / f"{name}.safetensors", module.state_dict())
    save_tensors(part / "optimizer.safetensors", tensors)
    content = {
        **vars(state.progress),
        "optimizer": numbers,
        "scaler": state.scaler.state_dict(),
    }
    write_text(part / "state.json", json.dumps(content))
    shutil.rmtree(final, ignore_errors=True)
    part.rename(final)
    for other in folder.iterdir():
        if other != final:
            shutil.rmtree(other, ignore_errors=True)


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint, or None."""
    return max(folder.glob("epoch-*"), default=None)


def load_checkpoint(place: Path, state: State) -> None:
    """Bring `state` to what it was when the checkpoint was written."""
    try:
        content = json.loads((place / "state.json").read_text(encoding="utf-8"))
        numbers, scaler = content.pop("optimizer"), content.pop("scaler")
        progress = Progress(**content)
        for name, module in state.modules().items():
            module.load_state_dict(load_tensors(place / f"{name}.safetensors"))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise RunError(f"the checkpoint {place} cannot be used: {first}") from None
    state.scaler.load_state_dict(scaler)
    whole = state.optimizer.state_dict()
    whole["state"] = _unflatten(load_tensors(place / "optimizer.safetensors"), numbers)
    state.optimizer.load_state_dict(whole)
    state.progress = progress


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
