"""What a continued run needs: weights, averages, optimizer state and how far it had come.

Learning rate, shuffling, augmentation and dropout are pure functions of configuration, epoch and
step, so they need none. A checkpoint is a folder, `checkpoint/step-NNNNNNNNN`: tensors as
safetensors and a state.json, which names the settings and the data it belongs to, and the digest of
every file beside it. Nothing in it is pickled. Where processes share the centers, all of
them write it together, and any number of them can read it: see `arcset.losses.saving`.
"""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, field_validator
from torch import Tensor, nn
from torch.optim import Optimizer

from arcset.distributed import ProcessGroup, on_main
from arcset.errors import DataError, OptionError, RunError
from arcset.files import file_digest, read_json, replacing_folder, write_text
from arcset.losses import Loss
from arcset.losses.saving import by_class, heads_of, load_sharded, loss_tensors, save_sharded
from arcset.runs import Run, RunConfig
from arcset.runs.config import shorten
from arcset.runs.folder import load_tensors, save_tensors
from arcset.training.doctor import Diagnosis

#: Settings of a run that may change when it is continued: how long, and what is kept on the way.
MAY_CHANGE = (
    "epochs",
    "patience",
    "validate_every",
    "frames",
    "checkpoint_minutes",
    "checkpoint_steps",
    "checkpoints",
)
_CHANGEABLE = f"only {', '.join(MAY_CHANGE[:-1])} and {MAY_CHANGE[-1]} may change"
_STATE = "state.json"
_FORMAT = 3


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
    diagnosis: Diagnosis = field(default_factory=Diagnosis)

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
        modules: dict[str, nn.Module] = {"network": self.network, "loss": self.loss}
        return modules if self.average is None else {**modules, "average": self.average}


@dataclass(frozen=True)
class Fingerprint:
    """Whose checkpoint it is: what a continued run must have in common with it.

    settings: those that may not change, as JSON has them. samples: how many there are to train on.
    labels: a digest of their labels, in order, and of the classes' names.
    """

    settings: dict[str, Any]
    samples: int
    labels: str

    @classmethod
    def of(cls, config: RunConfig, labels: Tensor) -> "Fingerprint":
        """Of a run with this configuration, trained on samples with these labels (N,)."""
        settings = config.model_dump(mode="json", exclude={*MAY_CHANGE, "class_names"})
        digest = hashlib.sha256(labels.cpu().numpy().tobytes())
        digest.update("\0".join(config.class_names or ()).encode())
        return cls(settings, len(labels), digest.hexdigest())

    def check(self, stored: "Fingerprint", checkpoint: Path) -> None:
        """Raise `RunError` where the fingerprint `stored` in a checkpoint is another."""
        for name in sorted({*self.settings, *stored.settings}):
            now, then = self.settings.get(name), stored.settings.get(name)
            if now != then:
                raise RunError(
                    f"{name} is {shorten(now)} now, and the checkpoint {checkpoint} was written "
                    f"with {shorten(then)}: put it back, or train anew; {_CHANGEABLE}"
                )
        if (stored.samples, stored.labels) != (self.samples, self.labels):
            raise RunError(
                f"the data has changed since the checkpoint {checkpoint} was written: "
                f"{self.samples:,} samples to train on now, {stored.samples:,} then"
                f"{', with other labels' if stored.samples == self.samples else ''}; train anew"
            )


class _Saved(BaseModel):
    """state.json: what a checkpoint holds beside tensors.

    optimizer: the numbers of its state, by "index.name". files: the digest of each, by name.
    together: shapes of the optimizer's tensors, in a checkpoint that processes wrote together.
    """

    model_config = ConfigDict(ser_json_inf_nan="constants")

    format: int = _FORMAT
    progress: Progress
    optimizer: dict[str, Any]
    scaler: dict[str, Any]
    belongs: Fingerprint
    files: dict[str, str]
    together: dict[str, list[int] | None] | None = None

    @field_validator("format")
    @classmethod
    def _check_format(cls, value: int) -> int:
        if value != _FORMAT:
            raise ValueError(f"it is of format {value}, and this version reads {_FORMAT}")
        return value


def change_settings(config: RunConfig, changes: dict[str, Any]) -> RunConfig:
    """The configuration with `changes`, if these are such as a continued run may have.

    >>> config = RunConfig(data="mnist-sample", epochs=10)
    >>> change_settings(config, {"epochs": 20, "seed": 0}).epochs
    20
    >>> change_settings(config, {"seed": 1})
    Traceback (most recent call last):
    arcset.errors.OptionError: a run goes on with the seed that it began with, 0, not with 1; ...
    """
    new = config.replace(**changes)
    for name in changes:
        if name not in MAY_CHANGE and getattr(new, name) != getattr(config, name):
            raise OptionError(
                f"a run goes on with the {name} that it began with, "
                f"{shorten(getattr(config, name))}, not with {shorten(getattr(new, name))}; "
                f"{_CHANGEABLE}"
            )
    return new


def check_same_settings(
    run: Run, config: RunConfig, *, may_change: Sequence[str] = MAY_CHANGE
) -> None:
    """Raise `RunError` where a run that is there has other settings than `config`.

    may_change: settings that need not be the same.
    """
    for name in RunConfig.model_fields:
        stored, expected = getattr(run.config, name), getattr(config, name)
        if stored != expected and name not in may_change:
            raise RunError(
                f"{run.path} holds a run with {name} {shorten(stored)}, not {shorten(expected)}: "
                "name another folder, or replace it with --force"
            )


def save_checkpoint(
    folder: Path,
    state: State,
    fingerprint: Fingerprint,
    *,
    keep: int = 1,
    group: ProcessGroup | None = None,
) -> Path:
    """Write `folder`/step-NNNNNNNNN, complete or not at all; the newest `keep` remain.

    group: the processes that all call this, each with its slice of the centers; else one calls.
    Raises `RunError` where it cannot be written, as on a full disk; those that are there stay.
    """
    final = folder / f"step-{state.progress.step:09d}"
    tensors, numbers = _flatten(state.optimizer.state_dict()["state"])
    is_main = group is None or group.is_main
    stage = on_main(is_main) if group is not None and group.size > 1 else None
    with replacing_folder(final, on_main=stage) as part:
        if group is None:
            for name, module in state.modules().items():
                save_tensors(part / f"{name}.safetensors", module.state_dict())
            save_tensors(part / "optimizer.safetensors", tensors)
        else:
            save_sharded(part, _all_tensors(state, tensors))

        def write_state() -> None:
            saved = _Saved(
                progress=state.progress,
                optimizer=numbers,
                scaler=state.scaler.state_dict(),
                belongs=fingerprint,
                files={file.name: file_digest(file) for file in sorted(part.iterdir())},
                together=None if group is None else _optimizer_shapes(state.optimizer),
            )
            write_text(part / _STATE, saved.model_dump_json())

        write_state() if stage is None else stage(write_state)
    if is_main:
        _remove_others(final, keep)
    return final


def _remove_others(final: Path, keep: int) -> None:
    """All but the newest checkpoints, and what was left behind half-written."""
    checkpoints = _checkpoints(final.parent)
    number = checkpoints.index(final) + 1  # what comes after it was passed over as damaged
    too_many = [*checkpoints[: max(0, number - keep)], *checkpoints[number:]]
    for other in [*too_many, *final.parent.glob(".step-*.part")]:
        shutil.rmtree(other, ignore_errors=True)


def load_newest(
    folder: Path,
    state: State,
    fingerprint: Fingerprint,
    warn: Callable[[str], None],
    *,
    group: ProcessGroup | None = None,
) -> Path | None:
    """Bring `state` to the newest complete checkpoint: its folder, or None where there is none.

    A damaged one is passed over for the one before it, with a warning. Raises `RunError` where all
    are damaged, and for one of other settings or other data.

    group: processes that all call this; the first of them looks for all.
    """
    group = group or ProcessGroup()
    newest: tuple[str, _Saved, list[str]] | str | None = None
    if group.is_main:
        try:
            newest = _find_newest(folder, fingerprint)
        except (RunError, OSError) as error:
            newest = str(error)
    newest = group.broadcast(newest)
    if isinstance(newest, str):
        raise RunError(newest)
    if newest is None:
        return None
    name, saved, problems = newest
    checkpoint = folder / name  # each process may know the folder by another path
    _restore(checkpoint, saved, state)
    for problem in problems:
        warn(f"passed over a damaged checkpoint, {problem}; going on from {checkpoint.name}")
    return checkpoint


def _find_newest(folder: Path, fingerprint: Fingerprint) -> tuple[str, _Saved, list[str]] | None:
    """The name of the newest complete checkpoint, what its state.json says, and what is wrong with
    newer ones; None where there is no checkpoint."""
    problems: list[str] = []
    for checkpoint in reversed(_checkpoints(folder)):
        try:
            saved = _read_state(checkpoint)
        except DataError as error:
            problems.append(str(error))
            continue
        fingerprint.check(saved.belongs, checkpoint)
        return checkpoint.name, saved, problems
    if problems:
        raise RunError(
            f"no checkpoint in {folder} can be used: {'; '.join(problems)}. Train the run anew "
            "with --force"
        )
    return None


def _checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(folder.glob("step-*"))


def _read_state(checkpoint: Path) -> _Saved:
    """state.json of a checkpoint; raises `DataError` unless all files are as they were written."""
    saved: _Saved = read_json(checkpoint / _STATE, "checkpoint", _Saved)
    for name, digest in saved.files.items():
        if file_digest(checkpoint / name) != digest:
            raise DataError(f"{checkpoint / name} is not what was written")
    return saved


def _restore(checkpoint: Path, saved: _Saved, state: State) -> None:
    try:
        if saved.together is not None:
            tensors = _empty_states(state.optimizer, saved.together)
            load_sharded(checkpoint, _all_tensors(state, tensors))
        else:
            for name, module in state.modules().items():
                module.load_state_dict(load_tensors(checkpoint / f"{name}.safetensors"))
            tensors = load_tensors(checkpoint / "optimizer.safetensors")
        state.scaler.load_state_dict(saved.scaler)
        whole = state.optimizer.state_dict()
        whole["state"] = _unflatten(tensors, saved.optimizer)
        state.optimizer.load_state_dict(whole)
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise RunError(f"the checkpoint {checkpoint} does not fit this run: {first}") from None
    state.progress = saved.progress


def _flatten(state: dict[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimizer's state as tensors for safetensors and the rest for JSON, by "index.name"."""
    flat = {
        f"{index}.{name}": value for index, each in state.items() for name, value in each.items()
    }
    tensors = {key: value for key, value in flat.items() if isinstance(value, Tensor)}
    return tensors, {key: value for key, value in flat.items() if key not in tensors}


def _unflatten(tensors: dict[str, Tensor], numbers: dict[str, Any]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **numbers}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    return state


def _all_tensors(state: State, optimizer: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor of `state`, those with rows per class as all processes have them together.

    optimizer: its tensors by "index.name".
    """
    tensors = {
        f"{kind}.{name}": tensor
        for kind, module in state.modules().items()
        for name, tensor in (
            loss_tensors(state.loss) if module is state.loss else module.state_dict()
        ).items()
    }
    heads = heads_of(state.loss).values()
    owners = {id(parameter): head for head in heads for parameter in head.parameters()}
    parameters = _parameters(state.optimizer)
    for key, tensor in optimizer.items():
        parameter = parameters[int(key.partition(".")[0])]
        head = owners.get(id(parameter)) if tensor.shape == parameter.shape else None
        name = f"optimizer.{key}"
        tensors |= {name: tensor} if head is None else by_class(head, name, tensor)
    return tensors


def _optimizer_shapes(optimizer: Optimizer) -> dict[str, list[int] | None]:
    """Of its tensors, by "index.name"; None for one that is as large as the parameter."""
    parameters = _parameters(optimizer)
    tensors, _ = _flatten(optimizer.state_dict()["state"])
    return {
        key: None if tensor.shape == parameters[int(key.split(".")[0])].shape else [*tensor.shape]
        for key, tensor in tensors.items()
    }


def _empty_states(optimizer: Optimizer, shapes: dict[str, Any]) -> dict[str, Tensor]:
    """Tensors to be filled with the optimizer's, by what `_optimizer_shapes` gave."""
    parameters = _parameters(optimizer)
    tensors = {}
    for key, shape in shapes.items():
        parameter = parameters[int(key.partition(".")[0])]
        like = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        tensors[key] = like.detach() if shape is None else torch.zeros(shape)
    return tensors


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    """In the order of the optimizer's state."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
