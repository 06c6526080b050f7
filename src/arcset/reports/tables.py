"""What pages, the model card and the command line list: measures with intervals, and thresholds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arcset.evaluation import Assessment, Interval, Realized, Result, Thresholds
from arcset.evaluation.calibration.thresholds import FRESH
from arcset.evaluation.measures import Measure, meaning, measure_of, short_name, weighty
from arcset.text import percent

Rows = list[list[str]]


@dataclass(frozen=True, eq=False)
class MeasuredValue:
    """The value of a measure, such as `tar_at_far[0.01]`; NaN where the data cannot tell.

    interval: of 95 %, None where there is none. result: that the value is from.
    mark: among several models `best`, `near` (no difference to the best is shown) or empty.
    """

    name: str
    value: float
    interval: Interval | None = None
    result: Result | None = None
    mark: str = ""

    @property
    def measure(self) -> Measure:
        return measure_of(self.name)

    @property
    def label(self) -> str:
        """What people call it."""
        return short_name(self.name)

    @property
    def meaning(self) -> str:
        return meaning(self.name)

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.value)

    def format(self, digits: int = 2) -> str:
        return self.measure.format(self.value, digits)

    def format_interval(self, digits: int = 2) -> str:
        """`4.97 to 50.55 %`; a dash where there is none."""
        if self.interval is None:
            return "–"
        low, high = self.interval
        measure = self.measure
        return f"{measure.format_bare(low, digits)} to {measure.format(high, digits)}"

    def format_bare_interval(self, digits: int) -> str:
        """`4.97…50.55`, for narrow columns; empty where there is none."""
        return "…".join(self.measure.format_bare(end, digits) for end in self.interval or ())


def interval_of(result: Result, name: str, at: float | None = None) -> Interval | None:
    """The interval of a measure, None where there is none."""
    full = result.name_of(name, at)
    if result.replicates is None or full not in result.replicates.values:
        return None
    interval = result.interval(full)
    return interval if math.isfinite(interval.low + interval.high) else None


def list_values(assessment: Assessment) -> dict[str, MeasuredValue]:
    """Every measure of an assessment by its name."""
    values = {
        name: MeasuredValue(name, value, interval_of(result, name), result)
        for result in assessment.results().values()
        for name, value in result.measures().items()
    }
    for name, value in assessment.shape.items():
        if math.isfinite(value):
            values[name] = MeasuredValue(name, value)
    return values


def values_of(measure: Measure, values: Mapping[str, MeasuredValue]) -> list[MeasuredValue]:
    """Those of a measure: a rate at every FAR or FPIR asked for, others at what stands for them."""
    return [
        value
        for name, value in values.items()
        if value.measure is measure and (measure.is_rate or name == measure.full_name)
    ]


def headline(assessment: Assessment) -> list[MeasuredValue]:
    """The few values to look at first, as far as they are known; of rates that vary with a FAR,
    the one at the lowest FAR that the data support."""
    values = list_values(assessment)
    known = (
        [value for value in values_of(measure, values) if value.is_known]
        for measure in weighty("headline")
    )
    return [at_rates[-1] for at_rates in known if at_rates]  # rates fall


def mark_best(
    values: Mapping[str, float], is_near: Callable[[str, str], bool], *, lower: bool = False
) -> dict[str, str]:
    """By label: best, near (`is_near(label, best)`) or empty; nothing where all are equal.

    >>> mark_best({"a": 0.9, "b": 0.89, "c": 0.1}, lambda label, best: label == "b")
    {'a': 'best', 'b': 'near', 'c': ''}
    """
    defined = {label: value for label, value in values.items() if math.isfinite(value)}
    if len(set(defined.values())) < 2:
        return {}
    best = (min if lower else max)(defined, key=lambda label: defined[label])
    return {
        label: "best" if value == defined[best] else "near" if is_near(label, best) else ""
        for label, value in defined.items()
    }


# Thresholds


def threshold_rows(thresholds: Thresholds) -> Rows:
    """Per threshold the rate to keep, the gallery, the cosine, and what to expect of it.

    Those that were listed when they were made, as far as they can be pinned down, and the one that
    is used where no rate is asked for; none of identities in training, which promise no rate.
    """
    if thresholds.in_training:
        return []
    fars: Sequence[Any] = thresholds.fars
    if (usual := thresholds.usual()).far not in [item.far for item in fars]:
        fars = sorted([*fars, usual], key=lambda item: -item.far)
    listed = [(f"FAR {percent(item.far)}", "pairs", item) for item in fars]
    listed += [(f"FPIR {percent(item.fpir)}", _gallery(item), item) for item in thresholds.fpirs]
    return [
        [rate, gallery, f"{item.threshold:.4f}", _range(item.expect(FRESH)) + _mark(item)]
        for rate, gallery, item in listed
        if item.pinned or item is usual
    ]


def _mark(item: Any) -> str:
    return ", rough" if item.rough else ""


def realized_rows(realized: Sequence[Realized]) -> Rows:
    """Per threshold that was tried: what it was to keep, what was expected, and what was seen."""
    return [
        [
            f"{item.kind} {percent(item.wanted)}",
            "pairs" if item.gallery is None else _gallery(item),
            f"{item.threshold:.4f}",
            _range(item.expected),
            percent(float(f"{item.seen:.3g}")),
            "as expected" if item.kept else "outside",
            "–" if math.isnan(item.accepted) else percent(item.accepted, 2),
        ]
        for item in realized
    ]


def _gallery(item: Any) -> str:
    return f"{item.gallery:,}{', extrapolated' if item.extrapolated else ''}"


def _range(interval: Interval) -> str:
    low, high = (percent(float(f"{end:.3g}")) for end in interval)
    return f"{low.removesuffix(' %')} to {high}"
