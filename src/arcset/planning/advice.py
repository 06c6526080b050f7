"""What would make a setting fit, and how far one can go."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from arcset.centers.sharded import can_share
from arcset.planning.duration import plan_seconds
from arcset.planning.machine import Machine
from arcset.planning.memory import plan_memory
from arcset.planning.setting import Setting
from arcset.planning.traffic import plan_traffic

__all__ = ["Change", "fewest_processes", "most_classes", "worthwhile_changes"]

_MOST_PROCESSES = 1 << 16
_MOST_CLASSES = 1 << 44
_LESS = 0.97  # of the memory, or a change is not worth naming
_FASTER = 0.8  # of the time
_LEAN: dict[str, Any] = {"update": "adagrad", "storage": "bfloat16"}


@dataclass(frozen=True)
class Change:
    """Another setting, in words and as options, its memory per process and its time of a step."""

    words: str
    options: dict[str, Any]
    total: int
    fits: bool
    seconds: float | None = None

    def json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "words": self.words,
            "options": self.options,
            "bytes": self.total,
            "fits": self.fits,
            "step": self.seconds,
        }


def worthwhile_changes(
    setting: Setting, *, limit: int, process: int, machine: Machine | None = None
) -> list[Change]:
    """Changes that need less memory, or where a machine is known less time; the smallest first."""

    def changed(words: str, options: dict[str, Any]) -> Change:
        other = setting.but(**options)
        memory = plan_memory(other, limit=limit, process=process)
        seconds = None
        if machine is not None:
            seconds = sum(plan_seconds(other, memory, plan_traffic(other), machine).values())
        return Change(words, options, memory.total, memory.total <= limit, seconds)

    now = changed("", {})
    found = [changed(*candidate) for candidate in _candidates(setting, limit, process)]
    found = [change for change in found if _better(change, now)]
    fewest = None if now.fits else fewest_processes(setting, limit=limit, process=process)
    if fewest is not None:
        found.append(changed(_processes(fewest), {"processes": fewest}))
    batch = setting.batch
    while batch and not any(change.fits for change in (now, *found)):
        leaner = {**_LEAN} if batch == setting.batch else {**_LEAN, "batch": batch}
        fewest = fewest_processes(setting.but(**leaner), limit=limit, process=process)
        if fewest is not None:
            words = f"bfloat16, adagrad and {_processes(fewest)}"
            words += f", a batch of {batch:,}" if "batch" in leaner else ""
            found.append(changed(words, {**leaner, "processes": fewest}))
        batch //= 2
    return sorted(found, key=lambda change: change.total)


def _processes(count: int) -> str:
    return "one process" if count == 1 else f"{count:,} processes"


def _better(change: Change, now: Change) -> bool:
    faster = (
        change.seconds is not None
        and now.seconds is not None
        and change.seconds <= _FASTER * now.seconds
    )
    return change.total <= _LESS * now.total or faster


def _candidates(setting: Setting, limit: int, process: int) -> list[tuple[str, dict[str, Any]]]:
    singles: list[tuple[str, dict[str, Any]]] = []
    if setting.update is None:
        singles.append(("centers updated in the backward pass, by sgd", {"update": "sgd"}))
    if setting.update != "adagrad":
        singles.append(("row-wise adagrad: a number of state per center", {"update": "adagrad"}))
    if setting.storage != "bfloat16":
        narrow: dict[str, Any] = {"storage": "bfloat16"}
        words = "centers in bfloat16"
        if setting.update is None:  # which is rounded at random only by an update of its own
            narrow["update"], words = "sgd", words + ", updated in the backward pass"
        singles.append((words, narrow))
    if setting.sample > 0.1:
        singles.append(("a tenth of the classes in each step", {"sample": 0.1}))
    if plan_memory(setting, limit=limit, process=process).mode != "recompute":
        singles.append(("logits formed anew on the way back", {"mode": "recompute"}))
    if setting.batch > 1:
        singles.append(_smaller_batch(setting, limit, process))
    if setting.subcenters > 1:
        singles.append(("one center per class", {"subcenters": 1}))
    if not all(getattr(setting, key) == value for key, value in _LEAN.items()):
        singles.append(("bfloat16 and adagrad", _LEAN))
        if setting.sample > 0.1:
            words = "bfloat16, adagrad and a tenth of the classes"
            singles.append((words, {**_LEAN, "sample": 0.1}))
    return singles


def _smaller_batch(setting: Setting, limit: int, process: int) -> tuple[str, dict[str, Any]]:
    """The largest that fits where that is less than half of a batch that does not; else half."""
    half = setting.batch // 2

    def exceeds(batch: int) -> bool:
        plan = plan_memory(setting.but(batch=batch), limit=limit, process=process)
        return plan.total > limit

    if exceeds(setting.batch) and exceeds(half) and not exceeds(1):
        batch = _first(1, half, exceeds) - 1
        return "a smaller batch", {"batch": batch}
    return "half the batch", {"batch": half}


def fewest_processes(setting: Setting, *, limit: int, process: int) -> int | None:
    """The smallest number of processes, with as large a batch each, that fits; None if none does.

    More of them have fewer classes each, but a larger batch together: it need not fit for ever. And
    where `auto` has room to keep the logits, fewer may take less: so every number is looked at.
    """

    def fits(count: int) -> bool:
        if not can_share(setting.classes, count) or (count > 1 and setting.mode == "plain"):
            return False
        plan = plan_memory(setting.but(processes=count), limit=limit, process=process)
        return plan.total <= limit

    held = plan_memory(setting.but(processes=1), limit=limit).moments[-1].parts
    whole = held["centers"] + held["their optimizer's state"]
    if limit <= process:
        return None
    least = -(-whole // (limit - process))  # or the shares of the centers alone are too large
    enough = least
    while enough <= _MOST_PROCESSES and not fits(enough):
        enough *= 2
    if enough > _MOST_PROCESSES:
        return None
    return next(count for count in range(least, enough + 1) if fits(count))


def most_classes(setting: Setting, *, limit: int, process: int) -> int | None:
    """The largest number of classes that fits, all else equal; None if not even one does.

    Where the setting does not fit, that is a smaller one: also if a larger one would fit again,
    because `auto` no longer keeps its logits.
    """

    def exceeds(each: int) -> bool:
        changed = setting.but(classes=each * setting.processes)
        return plan_memory(changed, limit=limit, process=process).total > limit

    own = setting.own_classes
    low, high = (1, own) if exceeds(own) else (own, _MOST_CLASSES)
    return (_first(low, high, exceeds) - 1) * setting.processes or None


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first in low … high for which it holds, as it does from there on."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
