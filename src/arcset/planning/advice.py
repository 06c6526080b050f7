"""What would make a setting fit, and how far one can go."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from arcset.planning.memory import plan_memory
from arcset.planning.setting import Setting

__all__ = ["Change", "fewest_processes", "most_classes", "worthwhile_changes"]

_MOST_PROCESSES = 1 << 16
_MOST_CLASSES = 1 << 44
_LESS = 0.97  # of the memory, or a change is not worth naming


@dataclass(frozen=True)
class Change:
    """Another setting, in words and as options, and its memory per process."""

    words: str
    options: dict[str, Any]
    total: int
    fits: bool

    def json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "words": self.words,
            "options": self.options,
            "bytes": self.total,
            "fits": self.fits,
        }


def worthwhile_changes(setting: Setting, *, limit: int, process: int) -> list[Change]:
    """Changes that need less memory, the least first; one thing at a time, then all together.

    Those that also change what is learned, as fewer classes in a step, say so in `words`.
    """
    now = plan_memory(setting, limit=limit, process=process).total
    found = []
    for words, options in _candidates(setting):
        total = plan_memory(setting.but(**options), limit=limit, process=process).total
        if total <= _LESS * now:
            found.append(Change(words, options, total, total <= limit))
    fewest = fewest_processes(setting, limit=limit, process=process)
    if fewest is not None and fewest > setting.processes:
        wider = setting.but(processes=fewest)
        total = plan_memory(wider, limit=limit, process=process).total
        found.append(Change(f"{fewest:,} processes", {"processes": fewest}, total, True))
    return sorted(found, key=lambda change: change.total)


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
    lean: dict[str, Any] = {"update": "adagrad", "storage": "bfloat16"}
    if not all(getattr(setting, key) == value for key, value in lean.items()):
        singles.append(("bfloat16 and adagrad", lean))
        if setting.sample > 0.1:
            singles.append(
                ("bfloat16, adagrad and a tenth of the classes", {**lean, "sample": 0.1})
            )
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
