"""What would make a setting fit, and how far one can go."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
    found = [changed(*candidate) for candidate in _candidates(setting)]
    found = [change for change in found if _better(change, now)]
    fewest = fewest_processes(setting, limit=limit, process=process)
    if fewest is not None and fewest > setting.processes:
        found.append(changed(f"{fewest:,} processes", {"processes": fewest}))
    elif not any(change.fits for change in (now, *found)):
        fewest = fewest_processes(setting.but(**_LEAN), limit=limit, process=process)
    if fewest is not None and not any(change.fits for change in (now, *found)):
        both = {**_LEAN, "processes": fewest}
        found.append(changed(f"bfloat16, adagrad and {fewest:,} processes", both))
    return sorted(found, key=lambda change: change.total)


def _better(change: Change, now: Change) -> bool:
    faster = (
        change.seconds is not None
        and now.seconds is not None
        and change.seconds <= _FASTER * now.seconds
    )
    return change.total <= _LESS * now.total or faster


def _candidates(setting: Setting) -> list[tuple[str, dict[str, Any]]]:
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
    if setting.mode not in ("auto", "recompute"):
        singles.append(("logits formed anew on the way back", {"mode": "recompute"}))
    if setting.batch > 1:
        singles.append(("half the batch", {"batch": setting.batch // 2}))
    if setting.subcenters > 1:
        singles.append(("one center per class", {"subcenters": 1}))
    if not all(getattr(setting, key) == value for key, value in _LEAN.items()):
        singles.append(("bfloat16 and adagrad", _LEAN))
        if setting.sample > 0.1:
            words = "bfloat16, adagrad and a tenth of the classes"
            singles.append((words, {**_LEAN, "sample": 0.1}))
    return singles


def fewest_processes(setting: Setting, *, limit: int, process: int) -> int | None:
    """The smallest number of processes, with as large a batch each, that fits; None if none does.

    More of them have fewer classes each, but a larger batch together: it need not fit for ever.
    """

    def fits(count: int) -> bool:
        if count > setting.classes or (count > 1 and setting.mode == "plain"):
            return False
        plan = plan_memory(setting.but(processes=count), limit=limit, process=process)
        return plan.total <= limit

    count = 1
    while count <= _MOST_PROCESSES and not fits(count):
        count *= 2
    if count > _MOST_PROCESSES:
        return None
    return _first(count // 2 + 1, count, fits)


def most_classes(setting: Setting, *, limit: int, process: int) -> int | None:
    """The largest number of classes that fits, all else equal; None if not even one does."""

    def exceeds(classes: int) -> bool:
        changed = setting.but(classes=classes)
        return plan_memory(changed, limit=limit, process=process).total > limit

    if exceeds(setting.processes):
        return None
    return _first(setting.processes, _MOST_CLASSES, exceeds) - 1


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first in low … high for which it holds, as it does from there on."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
