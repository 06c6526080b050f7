"""Thresholds made from validation identities, and what they did on those reported on."""

import math
from collections.abc import Mapping, Sequence

from arcset.errors import OptionError
from arcset.evaluation.assessment import Assessment, Realized
from arcset.evaluation.calibration import FarThreshold, FpirThreshold, Thresholds
from arcset.evaluation.results import Interval
from arcset.reports.measures.calibration import reliability_picture
from arcset.reports.measures.captions import CAPTIONS
from arcset.reports.measures.thresholds import threshold_picture
from arcset.reports.report.pieces import Section
from arcset.text import percent

__all__ = ["realized_rows", "threshold_rows", "threshold_sections"]

_FRESH = 1000  # identities of the test that is looked ahead to


def threshold_sections(assessments: Mapping[str, Assessment]) -> dict[str, Section]:
    """The sections about thresholds; none where no model has any."""
    made = {label: a.thresholds for label, a in assessments.items() if a.thresholds}
    found: dict[str, Section] = {}
    if made:
        figures, drawn = [], []
        for label, thresholds in made.items():
            try:
                figures.append(threshold_picture(thresholds, title=label))
                drawn.append(f"Thresholds of {label}")
            except OptionError:  # too few identities for every rate
                continue
        found["threshold"] = Section(
            "Which threshold?",
            figures,
            *CAPTIONS["threshold"],
            rows=threshold_rows(made),
            alts=drawn,
        )
    found |= _probability(made, assessments)
    rows = realized_rows({label: a.realized for label, a in assessments.items()})
    if rows:
        captions = CAPTIONS["realized"]
        found["realized"] = Section("What the thresholds did here", [], *captions, rows=rows)
    return found


def threshold_rows(made: Mapping[str, Thresholds]) -> list[list[str]]:
    """Every threshold that was listed when made, with what to expect of it."""
    rows = [["to keep", "subjects enrolled", "least cosine", f"on {_FRESH:,} fresh identities"]]
    for label, thresholds in made.items():
        whose = f"{label}: " if len(made) > 1 else ""
        listed: list[tuple[str, FarThreshold | FpirThreshold, str]] = [
            *((f"FAR {percent(item.far)}", item, "") for item in thresholds.fars),
            *((f"FPIR {percent(item.fpir)}", item, _size(item)) for item in thresholds.fpirs),
        ]
        rows += [
            [whose + kept, size, f"{item.threshold:.4f}", _range(item.expect(_FRESH))]
            for kept, item, size in listed
        ]
    return rows if len(rows) > 1 else []


def realized_rows(realized: Mapping[str, Sequence[Realized]]) -> list[list[str]]:
    """What the thresholds did on the data reported on; none where they were not tried."""
    several = sum(bool(items) for items in realized.values()) > 1
    head = ["to keep", "subjects enrolled", "least cosine", "expected here", "seen here"]
    rows = [[*head, "that is", "accepted rightly"]]
    for label, items in realized.items():
        rows += [
            [
                f"{label}: " * several + f"{item.kind} {percent(item.wanted)}",
                "" if item.gallery is None else _size(item),
                f"{item.threshold:.4f}",
                _range(item.expected),
                percent(_three(item.seen)),
                "as expected" if item.kept else "outside",
                "–" if math.isnan(item.accepted) else percent(_three(item.accepted)),
            ]
            for item in items
        ]
    return rows if len(rows) > 1 else []


def _probability(
    made: Mapping[str, Thresholds], assessments: Mapping[str, Assessment]
) -> dict[str, Section]:
    """Whether probabilities keep what they say, where known, and how they follow the cosine."""
    if not made:
        return {}
    kept = {label: a.reliability for label, a in assessments.items() if a.reliability}
    figure = reliability_picture(kept, made, among=list(assessments))
    captions = CAPTIONS["reliability" if kept else "probability"]
    return {"probability": Section("A cosine as a probability", [figure], *captions)}


def _size(item: FpirThreshold | Realized) -> str:
    return f"{item.gallery:,}{', extrapolated' if item.extrapolated else ''}"


def _range(interval: Interval) -> str:
    return f"{percent(_three(interval.low))} to {percent(_three(interval.high))}"


def _three(value: float) -> float:
    """To three significant digits."""
    return float(f"{value:.3g}")
