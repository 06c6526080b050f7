"""Before anything is trained: whether it fits, in how many processes, and how long a step takes.

A plan puts a formula and a measurement together. The formula (`count_bytes`) says what grows: with
C classes in a process, K centers each, D dimensions, c of the classes in a step, and B samples of
all P processes,

    centers       C·K·D numbers of 4 bytes, or 2 in bfloat16
    their state   as much again for SGD with momentum, twice as much for AdamW; row-wise Adagrad
                  keeps 4 bytes a center
    gradient      as much again, and a copy (AdamW: two) in the optimizer; none where the backward
                  pass updates the centers
    logits        c·K·B numbers of 4 bytes, where they are stored
    embeddings    3 matrices B·D of 4 bytes, or 5 where processes exchange them
    network       weights, their gradient and state, two more gradients where P > 1; activations

The dry run takes real steps with fewer classes and images, in a process of its own, and measures
what no formula knows: Python and torch, copies in passing, what the allocator keeps. So

    memory = formula(asked) + measured(tried) − formula(tried)

and time grows with the images of the network and with the logits of the loss. To try a setting at
its full size and print what it took as JSON:

    python -m arcset.plan '{"classes": 200000, "dim": 128, "update": "sgd"}'
    torchrun --nproc-per-node 2 -m arcset.plan '{"classes": 200000, "processes": 2}'
"""

import ctypes
import gc
import statistics
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import torch.distributed as dist
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import SGD, AdamW, Optimizer

from arcset.centers import choose_mode
from arcset.centers.fused import classes_per_chunk
from arcset.centers.sharded import can_share
from arcset.devices import free_memory
from arcset.errors import OptionError, TrainingError
from arcset.files import parse_json
from arcset.launch import is_main_process, leave, world_size
from arcset.losses import build_loss
from arcset.losses.margin_softmax import STORAGES
from arcset.margins import MARGINS
from arcset.networks import NETWORKS, build_network
from arcset.registry import unknown_name
from arcset.runs.config import explain_refusal

_WIDE, _INDEX = 4, 8  # bytes of float32, in which everything is computed, and of int64
_COPIES = {"sgd": 1, "adamw": 2}  # of the weights that an optimizer keeps, and needs in passing
_LEAN: dict[str, Any] = {"storage": "bfloat16", "update": "adagrad"}
_MOST_SAMPLES, _MOST_LOGITS = 1 << 10, 1 << 24  # of a dry run, or it takes too long
_OPTIONS_OF_LOSS = {"dim", "classes", "subcenters", "sample", "mode", "storage"}
_Side = Annotated[int, Field(ge=1, le=1 << 14)]
_LONG = 0.5  # seconds of a network's step after which no more images are tried
_IMAGES = 32  # whose activations are counted
_PASSING = 4.5  # times the largest activation: what the backward pass was seen to need beside them


class Setting(BaseModel):
    """One training step, in the words of `arcset.build_loss` and `arcset train`.

    Raises `OptionError` for what cannot be trained.

        >>> Setting(classes=1_000_000, processes=8).own_classes
        125000
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    classes: int = Field(ge=1, le=1 << 44, description="Identities in all, e.g. 500k, 100M or 1G.")
    dim: int = Field(512, ge=1, le=1 << 16, description="Dimension of the embedding.")
    processes: int = Field(1, ge=1, le=1 << 16, description="Processes that share the centers.")
    batch: int = Field(128, ge=1, le=1 << 20, description="Samples per process and step.")
    loss: str = Field("arcface", description="A margin; `arcset.loss_names()` has them.")
    subcenters: int = Field(1, ge=1, le=1 << 10, description="Centers per identity.")
    sample: float = Field(1.0, gt=0, le=1, description="Share of the identities in a step.")
    storage: Literal["float32", "bfloat16"] = Field("float32", description="Type of the centers.")
    update: Literal["none", "sgd", "adagrad"] = Field(
        "none", description="How the backward pass updates the centers; none: the optimizer does."
    )
    mode: Literal["auto", "store", "recompute", "plain"] = Field(
        "auto", description="How the softmax is computed."
    )
    optimizer: Literal["sgd", "adamw"] = Field("sgd", description="Optimizer of all else.")
    network: str | None = Field(None, description="The network, which counts if it is named.")
    shape: tuple[_Side, _Side, _Side] = (3, 112, 112)  # of an image: channels, height, width
    device: Literal["cpu", "cuda"] = Field("cpu", description="What a process computes on.")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise OptionError(explain_refusal(error)) from None
        if self.loss not in MARGINS:
            raise unknown_name("margin", self.loss, MARGINS.names())
        if self.network is not None and not self.network.startswith("timm:"):
            NETWORKS[self.network]  # raises for an unknown one
        if not can_share(self.classes, self.processes):
            raise OptionError(
                f"{self.classes:,} classes cannot be divided among {self.processes:,} processes"
            )
        if self.mode == "plain" and self.processes > 1:
            raise OptionError("mode=plain keeps all centers in one process: leave it out")

    @property
    def own_classes(self) -> int:
        """C: of the process that has the most."""
        return -(-self.classes // self.processes)

    @property
    def drawn(self) -> int:
        """c: classes of that process that take part in a step, on average; all without sampling."""
        sure = min(self.batch, self.own_classes)  # those of the batch
        return round(sure + self.sample * (self.own_classes - sure))

    @property
    def samples(self) -> int:
        """B: in a step of all processes."""
        return self.batch * self.processes


def count_bytes(setting: Setting, mode: str) -> dict[str, int]:
    """What a process holds at the peak of a step, part by part, by the formula above.

    `mode` is store, recompute or plain. Python and torch are not in it.

        >>> parts = count_bytes(Setting(classes=1_000_000, update="adagrad"), "recompute")
        >>> parts["centers"], parts["state of the centers"]
        (2048000000, 4000000)
    """
    samples, dim, copies = setting.samples, setting.dim, _COPIES[setting.optimizer]
    rows, drawn = (count * setting.subcenters for count in (setting.own_classes, setting.drawn))
    centers = rows * dim * STORAGES[setting.storage].itemsize
    state = {"none": copies * centers, "sgd": centers, "adagrad": rows * _WIDE}[setting.update]
    chunk = classes_per_chunk(setting.drawn, dim, setting.subcenters, samples, setting.device)
    copied = setting.sample < 1 or setting.storage != "float32"  # the rows of a chunk
    width = (4 if mode == "recompute" else 3) * samples + (3 * dim if copied else 0)
    sums = 2 * -(-setting.drawn // chunk) * samples + drawn
    parts = {
        "centers": centers,
        "state of the centers": state + (rows * _INDEX if setting.subcenters > 1 else 0),
        "gradient of the centers": (1 + copies) * centers if setting.update == "none" else 0,
        "logits": drawn * samples * _WIDE if mode == "store" else 0,
        "a chunk of classes": (chunk * setting.subcenters * width + sums) * _WIDE,
        "embeddings": (5 if setting.processes > 1 else 3) * samples * dim * _WIDE,
        "margin": _margin_bytes(setting.loss) * setting.classes,  # in each of the processes
        "classes drawn": 5 * setting.drawn * _INDEX if setting.sample < 1 else 0,
    }
    if setting.network:
        weights, activations = _network_bytes(setting.network, dim, setting.shape)
        parts["network"] = weights * (2 + copies + (2 if setting.processes > 1 else 0))
        parts["activations"] = activations * setting.batch
    return parts


@cache
def _margin_bytes(loss: str) -> int:
    """Bytes that a margin keeps for each class."""
    margin = MARGINS[loss]()
    margin.bind(1024)
    return sum(buffer.nbytes for buffer in margin.buffers()) // 1024


@cache
def _network_bytes(name: str, dim: int, shape: tuple[int, ...]) -> tuple[int, int]:
    """Bytes of a network's weights, and of an image's activations: what autograd keeps of them, and
    what comes and goes in the backward pass. Tensors on torch's meta device have no content."""
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.device("meta"), saved_tensors_hooks(keep, lambda tensor: tensor):
        network = build_network(name, dim, shape)
        for module in network.modules():
            if isinstance(module, _BatchNorm) and module.momentum is None:  # it asks for a content
                module.momentum = 0.1
        output = network(torch.empty(_IMAGES, *shape))
    for parameter in network.parameters():
        saved.pop(parameter.untyped_storage()._cdata, None)
    activations = sum(saved.values()) + _PASSING * max(saved.values())
    del output  # which kept all of that alive
    weights = sum(tensor.nbytes for tensor in network.state_dict().values())
    return weights, int(activations / _IMAGES)


class DryRun(BaseModel):
    """What a few real steps took; bytes are those at the peak, over those held before."""

    setting: Setting  # what was tried: in one process, with the samples of all
    process: int  # bytes held before anything was built
    building: int  # bytes while the centers were made
    loss: int  # bytes in steps of the loss, with the centers' optimizer
    network: int = 0  # bytes in steps of the network, with its optimizer
    images: int = 0  # in the last of these steps
    seconds: dict[str, float]  # of a step, by `loss` and `network`, each with its optimizer
    losses: list[float]  # their course, on a few dozen classes that can be told apart


@dataclass(frozen=True)
class Plan:
    """A setting in processes that may use `limit` bytes each, `process` of them for Python.

    Without a dry run, time is unknown.

        >>> plan = Plan(Setting(classes=1_000_000), limit=32 * 2**30)
        >>> plan.fits, plan.fewest_processes
        (True, 1)
        >>> plan.but(storage="bfloat16", update="adagrad").parts["centers"]
        1024000000
    """

    setting: Setting
    limit: int
    process: int = 0
    dry: DryRun | None = None

    def but(self, **changes: Any) -> "Plan":
        """The plan of a setting that differs in these fields."""
        return replace(self, setting=self.setting.model_copy(update=changes))

    @cached_property
    def mode(self) -> str:
        """How the softmax is computed: as the loss chooses it in a training step."""
        setting = self.setting
        held = count_bytes(setting, "recompute")
        chosen = choose_mode(
            setting.mode,
            setting.samples,
            setting.drawn * setting.subcenters,
            torch.float32,
            torch.device(setting.device),
            free=max(self.limit - self.process - held["centers"] - held["state of the centers"], 0),
        )
        is_fused = setting.processes > 1 or setting.update != "none"
        return "recompute" if chosen == "plain" and is_fused else chosen

    @cached_property
    def parts(self) -> dict[str, int]:
        """Bytes of a process at its largest, by what they are for."""
        parts, rest, dry = count_bytes(self.setting, self.mode), self.process, self.dry
        if dry is not None:
            tried = count_bytes(dry.setting.model_copy(update={"network": None}), dry.setting.mode)
            building = dry.building - tried["centers"] + parts["centers"]
            rest = dry.process + max(dry.loss - sum(tried.values()), building - sum(parts.values()))
            if dry.images:
                one = dry.setting.model_copy(update={"batch": dry.images})
                counted = count_bytes(one, "recompute")
                rest += dry.network - counted["network"] - counted["activations"]
        return {name: size for name, size in parts.items() if size} | {
            "Python, torch and all else": rest
        }

    @property
    def total(self) -> int:
        """Bytes of a process at its largest."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether that stays within the limit."""
        return self.total <= self.limit

    @property
    def sent(self) -> int:
        """Bytes that a process sends in a step around a ring, and receives.

        Embeddings are gathered; their gradient and the network's are added up, which sends twice as
        much; labels, lengths, maxima and sums are a few numbers per sample.
        """
        setting = self.setting
        numbers = setting.samples * (3 * setting.dim + 11)
        if setting.network:
            numbers += 2 * _network_bytes(setting.network, setting.dim, setting.shape)[0] // _WIDE
        return numbers * _WIDE * (setting.processes - 1) // setting.processes

    @property
    def seconds(self) -> dict[str, float]:
        """Of a step on this machine, by what takes them, without the time of sending; empty without
        a dry run."""
        if self.dry is None:
            return {}
        now, tried, seconds = self.setting, self.dry.setting, self.dry.seconds
        scaled = {"loss": seconds["loss"] * now.drawn * now.samples / (tried.drawn * tried.samples)}
        if self.dry.images:
            scaled["network"] = seconds["network"] * now.batch / self.dry.images
        return scaled

    @cached_property
    def fewest_processes(self) -> int | None:
        """The smallest number of processes, with as large a batch each, that fits; None if none
        does: more of them have fewer classes each, but a larger batch together."""

        def is_enough(count: int) -> bool:
            if not can_share(self.setting.classes, count):
                return False
            return (count == 1 or self.setting.mode != "plain") and self.but(processes=count).fits

        enough = next((1 << power for power in range(17) if is_enough(1 << power)), None)
        return enough and bisect_left(range(enough), True, lo=enough // 2 + 1, key=is_enough)

    @cached_property
    def most_classes(self) -> int | None:
        """The largest number of classes that fits, all else equal; None if not even one does."""

        def is_too_many(each: int) -> bool:
            return not self.but(classes=each * self.setting.processes).fits

        own = self.setting.own_classes
        low, high = (own, 1 << 44) if self.fits else (1, own)
        each = bisect_left(range(high), True, lo=low, key=is_too_many) - 1
        return each * self.setting.processes or None

    @cached_property
    def changes(self) -> list[dict[str, Any]]:
        """Up to three ways to make it fit, as fields of the setting: first those that change
        nothing about what is learned. Where no single one does, the leanest centers, a smaller
        batch and as many processes as that takes."""
        if self.fits:
            return []
        batches = [self.setting.batch >> power for power in range(self.setting.batch.bit_length())]
        sampled = {**_LEAN, "sample": min(self.setting.sample, 0.1)}
        ways: list[dict[str, Any]] = [{"mode": "recompute"}, {"update": "sgd"}, _LEAN, sampled]
        ways += [{"batch": batch} for batch in batches[1:] if self.but(batch=batch).fits][:1]
        if self.fewest_processes:
            ways.insert(2, {"processes": self.fewest_processes})
        if enough := [way for way in ways if self.but(**way).fits]:
            return enough[:3]
        for batch in batches:
            leanest = self.but(**sampled, batch=batch)
            if leanest.fewest_processes:
                return [{**sampled, "batch": batch, "processes": leanest.fewest_processes}]
        return []

    def json(self) -> dict[str, Any]:
        """All of it."""
        held = self.parts["centers"] + self.parts["state of the centers"]
        return {
            "setting": self.setting.model_dump(),
            "limit": self.limit,
            "fits": self.fits,
            "total": self.total,
            "parts": self.parts,
            "mode": self.mode,
            "bytes_per_class": held / self.setting.own_classes,
            "sent": self.sent,
            "seconds": self.seconds,
            "step": sum(self.seconds.values()) if self.dry else None,
            "fewest_processes": self.fewest_processes,
            "most_classes": self.most_classes,
            "changes": [{"options": way, "bytes": self.but(**way).total} for way in self.changes],
            "tried": self.dry.model_dump() if self.dry else None,
        }


def _can_measure(device: str) -> bool:
    """Whether a dry run can measure memory here: of CUDA by torch, of a process through /proc."""
    return torch.cuda.is_available() if device == "cuda" else Path("/proc/self/status").exists()


def plan_training(
    setting: Setting, *, limit: int, measured: bool = True, room: int = 1 << 29
) -> Plan:
    """Plan a setting for processes that may use `limit` bytes each, with a dry run if asked for.

    room: bytes that the loss of the dry run may take.
    """
    plan = Plan(setting, limit, process=0 if setting.device == "cuda" else _resident())
    if not measured or not _can_measure(setting.device):
        return plan
    room = min(room, free_memory(torch.device(setting.device)) // 4)
    alone = {"classes": setting.own_classes, "processes": 1, "mode": plan.mode}
    batch = min(setting.samples, _MOST_SAMPLES)
    whole = setting.model_copy(update={**alone, "batch": batch})

    def is_too_large(classes: int) -> bool:
        loss = whole.model_copy(update={"classes": classes, "network": None})
        is_slow = loss.drawn * loss.subcenters * loss.samples > _MOST_LOGITS
        return is_slow or sum(count_bytes(loss, plan.mode).values()) > room

    classes = bisect_left(range(setting.own_classes + 1), True, lo=2, key=is_too_large) - 1
    tried = whole.model_copy(update={"classes": classes})
    return replace(plan, dry=measure(tried, images=setting.batch))


def measure(
    setting: Setting, *, images: int = 0, steps: int = 4, start: Sequence[str] = (sys.executable,)
) -> DryRun:
    """Take steps of the loss, and of the network with up to so many images, in another process.

    images: as many as the batch has, if 0. start: what starts Python, or torchrun where several
    processes share the centers: then the one that takes the most counts. Raises `TrainingError`
    where it fails, as for want of memory.
    """
    words = ["-m", "arcset.plan", setting.model_dump_json(), str(images), str(steps)]
    done = subprocess.run([*start, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise TrainingError(f"the dry run ended with code {done.returncode}: {' '.join(last)}")
    return DryRun.model_validate_json(done.stdout)


def _take_steps(setting: Setting, images: int, steps: int) -> DryRun:
    """In this process, which has done nothing yet; several of them share the centers."""
    group = True if world_size() > 1 else None
    if group:
        dist.init_process_group("gloo")
    small = Setting(classes=8192, dim=16, batch=8, sample=0.5, device=setting.device)
    _try_loss(small, 1)  # loads all that steps need
    process = 0 if setting.device == "cuda" else _Meter("cpu").before
    building, loss, seconds, losses = _try_loss(setting, steps, group)
    if group:
        peaks: list[Any] = [None] * setting.processes
        dist.all_gather_object(peaks, (building, loss))
        building, loss = map(max, zip(*peaks, strict=True))
    dry = DryRun(
        setting=setting,
        process=process,
        building=building,
        loss=loss,
        seconds={"loss": seconds},
        losses=losses,
    )
    if setting.network:
        dry.network, dry.images, dry.seconds["network"] = _try_network(
            setting, images or setting.batch
        )
    return dry


def _try_loss(
    setting: Setting, steps: int, group: bool | None = None
) -> tuple[int, int, float, list[float]]:
    """Bytes while the centers are made and in steps, seconds of a step, and the loss of each.

    The samples are of a few dozen classes, each a direction with some noise.
    """
    torch.manual_seed(0)
    meter = _Meter(setting.device)
    options: dict[str, Any] = setting.model_dump(include=_OPTIONS_OF_LOSS)
    if setting.update != "none":
        options["update"] = setting.update
    loss = build_loss(setting.loss, **options, group=group).to(setting.device)
    optimizer = _build_optimizer(setting, loss) if setting.update == "none" else None
    building = meter.peak()
    meter.reset()
    labels = torch.linspace(0, setting.classes - 1, min(64, setting.classes)).long()
    directions = torch.randn(len(labels), setting.dim)
    draws = torch.Generator().manual_seed(dist.get_rank() if group else 0)
    seconds, losses = [], []
    for _ in range(steps):
        which = torch.randint(len(labels), (setting.batch,), generator=draws)
        noise = torch.randn(setting.batch, setting.dim, generator=draws)
        embeddings = (directions[which] + 0.3 * noise).to(setting.device)
        began = time.perf_counter()
        value = loss(embeddings.requires_grad_(), labels[which].to(setting.device))
        value.backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(value.item())
        seconds.append(_seconds_since(began, setting.device))
        loss.advance()
    return building, meter.peak(), statistics.median(seconds[1:] or seconds), losses


def _try_network(setting: Setting, most: int) -> tuple[int, int, float]:
    """Bytes in steps of the network, images of the last one and its seconds: each has twice as many
    as the one before, until that takes a while."""
    meter, images, seconds = _Meter(setting.device), 0, 0.0
    network = build_network(str(setting.network), setting.dim, setting.shape).to(setting.device)
    optimizer = _build_optimizer(setting, network)
    while not images or (images < most and seconds < _LONG):
        images = min(max(2 * images, 4), max(most, 2))  # batch norm needs two
        for _ in range(2):  # the first may load and allocate
            batch = torch.rand(images, *setting.shape, device=setting.device)
            began = time.perf_counter()
            network(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            seconds = _seconds_since(began, setting.device)
    return meter.peak(), images, seconds


def _build_optimizer(setting: Setting, module: nn.Module) -> Optimizer:
    if setting.optimizer == "adamw":
        return AdamW(module.parameters(), lr=0.001)
    return SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)


def _seconds_since(began: float, device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _resident(field: str = "VmRSS") -> int:
    """Bytes of this process in memory now, or with `VmHWM` at most; 0 where the system hides it."""
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return int(dict(line.split(":", 1) for line in lines)[field].split()[0]) * 1024
    return 0


class _Meter:
    """The most memory in use, over that in use when this was made."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"
        gc.collect()
        with suppress(OSError, AttributeError):  # freed memory goes back to the system, under glibc
            ctypes.CDLL(None).malloc_trim(0)
        self.before = torch.cuda.memory_allocated() if self._cuda else _resident()
        self.reset()

    def reset(self) -> None:
        """Forget the peak so far."""
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
            return
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def peak(self) -> int:
        """Bytes at most since then."""
        now = torch.cuda.max_memory_allocated() if self._cuda else _resident("VmHWM")
        return now - self.before


def _main(setting: str, images: str = "0", steps: str = "4") -> None:
    dry = _take_steps(Setting(**parse_json(setting)), int(images), int(steps))
    if is_main_process():
        sys.stdout.write(dry.model_dump_json() + "\n")
    leave(0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
