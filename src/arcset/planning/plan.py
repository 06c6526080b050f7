"""A whole plan: memory, traffic and time of a setting on a machine, and what fits."""

from dataclasses import asdict, dataclass
from typing import Any

from arcset.planning.advice import Change, fewest_processes, most_classes, worthwhile_changes
from arcset.planning.duration import plan_seconds
from arcset.planning.machine import Machine
from arcset.planning.memory import Memory, plan_memory
from arcset.planning.setting import Setting
from arcset.planning.traffic import Transfer, plan_traffic

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True)
class Plan:
    """What `arcset plan` says.

    Fields:
        limit: bytes that a process may use.
        fewest: the smallest number of processes that fits; None if none does.
        most: the largest number of classes that fits; None if not even one does.
        seconds: of a step, by what takes them; empty without a machine.
        changes: that need less memory.
    """

    setting: Setting
    limit: int
    memory: Memory
    traffic: list[Transfer]
    seconds: dict[str, float]
    machine: Machine | None
    fewest: int | None
    most: int | None
    changes: list[Change]

    @property
    def fits(self) -> bool:
        """Whether the peak stays within the limit."""
        return self.memory.total <= self.limit

    @property
    def bytes_per_class(self) -> float:
        """Centers and the state of their optimizer, of a class."""
        held = self.memory.moments[-1].parts
        whole = held["centers"] + held["their optimizer's state"]
        return whole / self.setting.own_classes

    def json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "setting": self.setting.json(),
            "limit": self.limit,
            "fits": self.fits,
            "total": self.memory.total,
            "process": self.memory.process,
            "mode": self.memory.mode,
            "classes_per_chunk": self.memory.chunk,
            "peak": self.memory.peak.name,
            "parts": self.memory.peak.parts,
            "moments": {moment.name: moment.parts for moment in self.memory.moments},
            "bytes_per_class": self.bytes_per_class,
            "traffic": [asdict(one) for one in self.traffic],
            "sent": sum(one.sent for one in self.traffic),
            "seconds": self.seconds,
            "step": sum(self.seconds.values()) if self.seconds else None,
            "machine": None if self.machine is None else asdict(self.machine),
            "fewest_processes": self.fewest,
            "most_classes": self.most,
            "changes": [change.json() for change in self.changes],
        }


def make_plan(
    setting: Setting, *, limit: int, process: int = 0, machine: Machine | None = None
) -> Plan:
    """Plan a setting for processes that may use `limit` bytes, `process` of them before it begins.

    >>> plan = make_plan(Setting(classes=1_000_000), limit=32 * 2**30)
    >>> plan.fits, plan.fewest
    (True, 1)
    """
    memory = plan_memory(setting, limit=limit, process=process)
    traffic = plan_traffic(setting)
    seconds = {} if machine is None else plan_seconds(setting, memory, traffic, machine)
    return Plan(
        setting,
        limit,
        memory,
        traffic,
        seconds,
        machine,
        fewest_processes(setting, limit=limit, process=process),
        most_classes(setting, limit=limit, process=process),
        worthwhile_changes(setting, limit=limit, process=process, machine=machine),
    )
