"""Every measure of every model as the report shows it: value, interval, and which is the best."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from arcset.errors import ArcsetError
from arcset.evaluation.assessment import Assessment
from arcset.evaluation.bootstrap import paired
from arcset.evaluation.measures import measure_of
from arcset.evaluation.results import Interval, Result
from arcset.reports.measures.look import interval_of

__all__ = ["Value", "marks", "values_of"]


@dataclass(frozen=True, eq=False)
class Value:
    """One measure of one model.

    result: where it comes from, None for those that are mere numbers.
    """

    measure: str
    value: float
    interval: Interval | None
    result: Result | None

    @property
    def lower_is_better(self) -> bool:
        """Which way the measure runs."""
        return measure_of(self.measure).lower_is_better

    def text(self, digits: int = 2) -> str:
        """The value for people: percent, degrees, or a plain number."""
        return measure_of(self.measure).format(self.value, digits)

    def range_text(self, digits: int = 2) -> str:
        """The interval, without its unit; empty where there is none."""
        if self.interval is None:
            return ""
        entry = measure_of(self.measure)
        return "…".join(entry.format_bare(end, digits) for end in self.interval)

    @property
    def defined(self) -> bool:
        """Whether there is a value at all."""
        return math.isfinite(self.value)


def values_of(assessment: Assessment) -> dict[tuple[str, str], Value]:
    """All measures of a model, by part and name, in the order in which they are shown."""
    found: dict[tuple[str, str], Value] = {}
    for part, result in assessment.results().items():
        for name, value in result.measures().items():
            interval = interval_of(result, name) if math.isfinite(value) else None
            found[part, name] = Value(name, value, interval, result)
    for name, number in assessment.shape.items():
        if math.isfinite(number):
            found["shape", name] = Value(name, number, None, None)
    return found


def marks(values: Mapping[str, Value]) -> dict[str, str]:
    """By model `best`, or `near` where no difference to the best is shown; others have no mark.

    Nothing is marked where there is nothing to compare. Models are compared draw by draw, so
    that `near` is only given where both have intervals over the same draws.
    """
    defined = {label: value for label, value in values.items() if value.defined}
    if len({value.value for value in defined.values()}) < 2:
        return {}
    pick = min if next(iter(defined.values())).lower_is_better else max
    best = pick(value.value for value in defined.values())
    leader = next(value for value in defined.values() if value.value == best)
    found = {}
    for label, value in defined.items():
        if value.value == best:
            found[label] = "best"
        elif not _told_apart(leader, value):
            found[label] = "near"
    return found


def _told_apart(leader: Value, other: Value) -> bool:
    if leader.result is None or other.result is None:
        return True
    try:
        return paired(leader.result, other.result, leader.measure).shown
    except ArcsetError:  # without intervals, or on other identities: nothing can be said
        return True
