"""What a continued run needs: weights, averages, optimizer state and how far it had come.

Learning rate, shuffling, augmentation and dropout are pure functions of configuration, epoch and
step, so they need none. A checkpoint is a folder, `checkpoint/step-NNNNNNNNN`: tensors as
safetensors and a state.json, which names the settings and the data it belongs to, and the size and
digest of every file beside it. Nothing in it is pickled. Where processes share the centers, all of
them write it together, and any number of them can read it: see `arcset.training.together`.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from arcset.distributed import ProcessGroup, on_main
from arcset.errors import RunError
from arcset.files import parse_json, replacing_folder, write_text
from arcset.losses import Loss
from arcset.losses.saving import load_sharded, save_sharded
from arcset.runs.folder import load_tensors, save_tensors
from arcset.training.belonging import Belonging
from arcset.training.together import all_tensors, empty_states
from arcset.training.together import state_shapes as shapes_of

__all__ = ["Progress", "State", "load_checkpoint", "load_newest", "save_checkpoint"]

_FORMAT = 2
_STATE = "state.json"


@dataclass
class Progress:
    """How far a run has come.

    epoch: complete ones. step: all that are done. best: the highest validation measure. waited:
    validations since then. Of the epoch that is under way: total, the sum of losses; seen, its
    samples so far; angles, as measured; seconds it took. diagnosis: what the doctor remembers.
    """

    epoch: int = 0
    step: int = 0
    best: float | None = None
    waited: int = 0
    total: float = 0.0
    seen: int = 0
    angles: list[tuple[float, float]] = field(default_factory=list)
    seconds: float = 0.0
    diagnosis: dict[str, Any] = field(default_factory=dict)

    def next_epoch(self) -> None:
        """One more is complete."""
        self.epoch += 1
        self.total, self.seen, self.angles, self.seconds = 0.0, 0, [], 0.0


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


def save_checkpoint(
    folder: Path,
    state: State,
    owner: Belonging,
    *,
    keep: int = 1,
    together: ProcessGroup | None = None,
) -> Path:
    """Write `folder`/step-NNNNNNNNN, complete or not at all; the newest `keep` remain.

    together: the processes that all call this, each with its slice of the centers; else one calls.
    Raises `RunError` where it cannot be written, as on a full disk; those that are there stay.
    """
    final = folder / f"step-{state.progress.step:09d}"
    tensors, numbers = _flatten(state.optimizer.state_dict()["state"])
    several = together is not None and together.size > 1
    is_main = together is None or together.is_main
    stage = on_main(is_main) if several else None
    with replacing_folder(final, on_main=stage) as part:
        if together is None:
            for name, module in state.modules().items():
                save_tensors(part / f"{name}.safetensors", module.state_dict())
            save_tensors(part / "optimizer.safetensors", tensors)
        else:
            save_sharded(part, all_tensors(state, tensors))
        shapes = None if together is None else shapes_of(state.optimizer)
        write = partial(_write_state, part, state, owner, numbers, shapes)
        write() if stage is None else stage(write)
    if is_main:
        _remove_others(final, keep)
    return final


def _write_state(
    part: Path,
    state: State,
    owner: Belonging,
    numbers: dict[str, Any],
    shapes: dict[str, Any] | None,
) -> None:
    """state.json, which lists the files beside it."""
    content = {
        "format": _FORMAT,
        "progress": vars(state.progress),
        "optimizer": numbers,
        "scaler": state.scaler.state_dict(),
        "belongs": owner.json(),
        "files": {file.name: _described(file) for file in sorted(part.iterdir())},
    }
    if shapes is not None:
        content["together"] = shapes
    write_text(part / _STATE, json.dumps(content))


def _remove_others(final: Path, keep: int) -> None:
    """All but the newest checkpoints, and what was left behind half-written."""
    folder = final.parent
    found = _found(folder)
    own = found.index(final) + 1  # what comes after it was passed over as damaged
    for other in [*found[: max(0, own - keep)], *found[own:], *folder.glob(".step-*.part")]:
        shutil.rmtree(other, ignore_errors=True)


def load_newest(
    folder: Path,
    state: State,
    owner: Belonging,
    warn: Callable[[str], None],
    *,
    together: ProcessGroup | None = None,
) -> Path | None:
    """Bring `state` to the newest complete checkpoint: its folder, or None where there is none.

    A damaged one is passed over for the one before it, with a warning. Raises `RunError` where all
    are damaged, and for one of other settings or other data.

    together: processes that all call this; the first of them looks for all.
    """
    if together is None:
        place, content, problems = _newest(folder, owner)
    else:
        place, content, problems = _told(folder, owner, together)
    if place is None:
        return None
    _apply(place, content, state)
    for problem in problems:
        warn(f"passed over a damaged checkpoint, {problem}; going on from {place.name}")
    return place


def _told(
    folder: Path, owner: Belonging, together: ProcessGroup
) -> tuple[Path | None, dict[str, Any], list[str]]:
    """As `_newest`, which the first process calls for all."""
    told: dict[str, Any] = {"error": None}
    if together.is_main:
        try:
            place, content, problems = _newest(folder, owner)
            told |= {"place": place and place.name, "content": content, "problems": problems}
        except (RunError, OSError) as error:
            told["error"] = str(error)
    told = together.broadcast(told)
    if told["error"] is not None:
        raise RunError(told["error"])
    place = None if told["place"] is None else folder / told["place"]
    return place, told["content"], told["problems"]


def _newest(folder: Path, owner: Belonging) -> tuple[Path | None, dict[str, Any], list[str]]:
    """The newest complete checkpoint, what its state.json says, and what is wrong with newer ones;
    no folder where there is none."""
    problems: list[str] = []
    for place in reversed(_found(folder)):
        try:
            content = _read(place)
        except _DamagedError as error:
            problems.append(f"{place.name}: {error}")
            continue
        owner.check(content["belongs"], place)
        return place, content, problems
    if problems:
        raise RunError(
            f"no checkpoint in {folder} can be used: {'; '.join(problems)}. Train the run anew "
            "with --force"
        )
    if strange := sorted(place.name for place in folder.glob("[!.]*")):
        raise RunError(
            f"{folder} holds {strange[0]}, which is no checkpoint that this version knows: remove "
            "it to begin anew"
        )
    return None, {}, []


def load_checkpoint(place: Path, state: State, owner: Belonging) -> None:
    """Bring `state` to what it was when the checkpoint `place` was written."""
    try:
        content = _read(place)
    except _DamagedError as error:
        raise RunError(f"the checkpoint {place} cannot be used: {error}") from None
    owner.check(content["belongs"], place)
    _apply(place, content, state)


class _DamagedError(Exception):
    """A checkpoint is not what was written."""


def _found(folder: Path) -> list[Path]:
    """The checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def _read(place: Path) -> dict[str, Any]:
    """state.json of a checkpoint whose files are all as they were written."""
    try:
        content = parse_json((place / _STATE).read_text(encoding="utf-8"))
        files = content["files"]
        if content["format"] != _FORMAT:
            raise _DamagedError(
                f"it is of format {content['format']}, and this version reads {_FORMAT}"
            )
    except OSError as error:
        raise _DamagedError(f"{_STATE} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise _DamagedError(f"{_STATE} is torn or no checkpoint's") from None
    for name, (size, digest) in files.items():
        file = place / name
        if not file.is_file():
            raise _DamagedError(f"{name} is missing")
        if (found := file.stat().st_size) != size:
            raise _DamagedError(f"{name} has {found:,} bytes instead of {size:,}")
        if _digest(file) != digest:
            raise _DamagedError(f"the content of {name} is not what was written")
    return dict(content)


def _apply(place: Path, content: dict[str, Any], state: State) -> None:
    try:
        if "together" in content:
            tensors = empty_states(state.optimizer, content["together"])
            load_sharded(place, all_tensors(state, tensors))
        else:
            for name, module in state.modules().items():
                module.load_state_dict(load_tensors(place / f"{name}.safetensors"))
            tensors = load_tensors(place / "optimizer.safetensors")
        state.scaler.load_state_dict(content["scaler"])
        whole = state.optimizer.state_dict()
        whole["state"] = _unflatten(tensors, content["optimizer"])
        state.optimizer.load_state_dict(whole)
        progress = Progress(**content["progress"])
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise RunError(f"the checkpoint {place} does not fit this run: {first}") from None
    progress.angles = [(target, other) for target, other in progress.angles]
    state.progress = progress


def _described(file: Path) -> tuple[int, str]:
    return file.stat().st_size, _digest(file)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


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
