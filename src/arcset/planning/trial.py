"""A setting tried for a few steps in a process of its own: what it really takes.

    python -m arcset.planning.trial STEPS '{"classes": 200000, "dim": 128}' …
    torchrun --nproc-per-node 2 -m arcset.planning.trial STEPS '{"classes": 200000, "processes": 2}'

One line of JSON comes out for each: bytes over those that the process held before the loss was
built, seconds and loss of every step. Each of several settings has a process of its own, which
begins with all modules imported and nothing else done. Linux only.

`try_settings` starts all that and reads what comes out.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from arcset.centers import Shard
from arcset.errors import TrainingError
from arcset.launch import leave
from arcset.losses import Loss, build_loss
from arcset.networks import build_network
from arcset.planning.setting import Setting
from arcset.runs import RunConfig

__all__ = ["Trial", "resident", "try_settings", "warmed"]

_PLANTED = 64  # classes that the samples belong to
_SMALL = 8192  # classes, of a step that only loads what steps need


def resident(field: str = "VmRSS") -> int:
    """Bytes of this process in memory now, or with `VmHWM` at its largest so far; 0 if unknown."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


class Trial:
    """Steps on planted data: a few dozen classes that are seen again and again.

    Every sample is its class's own direction, which is random, with some noise. So the centers
    have something to learn, and the loss falls. A network is given noise for images.
    """

    def __init__(self, setting: Setting, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.setting = setting
        self.rank = dist.get_rank() if setting.processes > 1 else 0
        self.network = self._network()
        options: dict[str, Any] = {"update": setting.update} if setting.update else {}
        self.loss: Loss = build_loss(
            setting.loss,
            setting.dim,
            setting.classes,
            subcenters=setting.subcenters,
            sample=setting.sample,
            mode=setting.mode,
            storage=setting.storage,
            group=True if setting.processes > 1 else None,
            **options,
        )
        self._optimizer = self._built_optimizer()
        generator = torch.Generator().manual_seed(seed + 1)  # the same in all processes
        count = min(_PLANTED, setting.classes)
        self._labels = torch.arange(count) * setting.classes // count
        self._directions = torch.randn(count, setting.dim, generator=generator)
        self._draws = torch.Generator().manual_seed(seed + 2 + self.rank)

    def step(self) -> float:
        """Forward, backward and the optimizer's step; the loss."""
        which = torch.randint(len(self._labels), (self.setting.batch,), generator=self._draws)
        if self._optimizer is not None:
            self._optimizer.zero_grad()
        value: Tensor = self.loss(self._embeddings(which), self._labels[which])
        value.backward()
        if self._optimizer is not None:
            self._optimizer.step()
        self.loss.advance()
        return value.item()

    def _embeddings(self, which: Tensor) -> Tensor:
        if self.network is not None:
            images = torch.rand(len(which), *self.setting.shape, generator=self._draws)
            return self.network(images)  # type: ignore[no-any-return]
        noise = torch.randn(len(which), self.setting.dim, generator=self._draws)
        return (self._directions[which] + 0.3 * noise).requires_grad_()

    def _network(self) -> nn.Module | None:
        setting = self.setting
        if setting.network is None:
            return None
        built = build_network(setting.network, setting.dim, setting.shape)
        return nn.parallel.DistributedDataParallel(built) if setting.processes > 1 else built

    def _built_optimizer(self) -> Optimizer | None:
        usual = RunConfig.model_fields
        rate, decay = usual["learning_rate"].default, usual["weight_decay"].default
        parameters = [*self.loss.parameters()] if self.setting.update is None else []
        parameters += [] if self.network is None else [*self.network.parameters()]
        if not parameters:
            return None
        if self.setting.optimizer == "adamw":
            return AdamW(parameters, lr=rate / 100, weight_decay=decay)
        return SGD(parameters, lr=rate, momentum=usual["momentum"].default, weight_decay=decay)


def warmed() -> int:
    """Bytes of this process once a small step has loaded all that a step needs."""
    Trial(Setting(classes=_SMALL, dim=16, batch=8)).step()
    Trial(Setting(classes=_SMALL, dim=16, batch=8, sample=0.5, update="adagrad")).step()
    if dist.is_initialized():
        count = dist.get_world_size()
        Trial(Setting(classes=_SMALL, dim=16, batch=8, processes=count)).step()
    trim()
    return resident()


def trim() -> None:
    """Give freed memory back to the system, as far as the C library can."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)


def _tried(setting: Setting, steps: int) -> dict[str, Any]:
    """The figures of this process."""
    start = warmed()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    trial = Trial(setting)
    built, losses, seconds = resident("VmHWM") - start, [], []
    for _ in range(steps):
        began = time.perf_counter()
        losses.append(trial.step())
        seconds.append(time.perf_counter() - began)
    return {
        "setting": setting.json(),
        "start": start,
        "building": built,
        "peak": resident("VmHWM") - start,
        "kept": resident() - start,
        "seconds": seconds,
        "losses": losses,
        "here": Shard.of(True, setting.classes).size if setting.processes > 1 else setting.classes,
    }


def try_settings(settings: list[Setting], steps: int, threads: int = 1) -> list[dict[str, Any]]:
    """What each setting takes, one after the other; those that share centers under torchrun.

    `peak` are bytes over the start, of the first process; `peaks` of every one. Raises
    `TrainingError` where a trial ends badly, as for want of memory.
    """
    alone = [setting for setting in settings if setting.processes == 1]
    lines = iter(_run([sys.executable], alone, steps, threads) if alone else [])
    found = []
    for setting in settings:
        if setting.processes == 1:
            found.append(next(lines))
        else:
            count = f"--nproc-per-node={setting.processes}"
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", count]
            found += _run(torchrun, [setting], steps, threads)
    return found


def _run(start: list[str], settings: list[Setting], steps: int, threads: int) -> list[Any]:
    words = [json.dumps(setting.json()) for setting in settings]
    done = subprocess.run(
        [*start, "-m", "arcset.planning.trial", str(steps), *words],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or len(lines) != len(settings):
        last = done.stderr.strip().splitlines()[-1:]
        raise TrainingError(f"a trial ended with code {done.returncode}: {' '.join(last)}")
    return lines


def _together(setting: Setting, steps: int) -> None:
    """Of processes under torchrun, the first one tells."""
    dist.init_process_group("gloo")
    found = _tried(setting, steps)
    every: list[dict[str, Any]] = [{} for _ in range(setting.processes)]
    dist.all_gather_object(every, found)
    if dist.get_rank() == 0:
        _tell({**found, "peaks": [one["peak"] for one in every]})
    dist.destroy_process_group()
    leave(0)


def _apart(settings: list[Setting], steps: int) -> int:
    """Each in a process of its own; how the worst of them ended."""
    SGD([torch.zeros(1, requires_grad=True)])  # imports what optimizers need, once for all
    codes = []
    for setting in settings:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _tell(_tried(setting, steps))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return max(codes, key=abs)


def _tell(found: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def _main() -> None:
    steps, *words = sys.argv[1:]
    contents = [json.loads(word) for word in words]
    settings = [
        Setting(**{**content, "shape": tuple(content.get("shape", (3, 112, 112)))})
        for content in contents
    ]
    if os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if settings[0].processes > 1:
        _together(settings[0], int(steps))
    else:
        sys.exit(_apart(settings, int(steps)))


if __name__ == "__main__":
    _main()
