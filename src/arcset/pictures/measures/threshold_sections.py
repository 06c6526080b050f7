"""Thresholds made from validation identities, and what they did on those reported on."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from arcset.errors import OptionError
from arcset.pictures.measures.captions import CAPTIONS
from arcset.pictures.measures.thresholds import threshold_picture
from arcset.pictures.report.pieces import Section

if TYPE_CHECKING:
    from arcset.evaluation.assessment import Assessment

__all__ = ["threshold_sections"]


def threshold_sections(assessments: Mapping[str, "Assessment"]) -> dict[str, Section]:
    """The sections about thresholds; none where no model has any."""
    found: dict[str, Section] = {}
    figures: list[Figure] = []
    drawn: list[str] = []
    for label, assessment in assessments.items():
        if assessment.thresholds is None:
            continue
        try:
            figures.append(threshold_picture(assessment.thresholds, title=label))
        except OptionError:  # too few identities for every rate
            continue
        drawn.append(f"Thresholds of {label}")
    rows = realized_rows({label: a.realized for label, a in assessments.items()})
    if figures or rows:
        captions = CAPTIONS["threshold"]
        found["threshold"] = Section("Which threshold?", figures, *captions, rows=rows, alts=drawn)
    return found


def realized_rows(realized: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """What the thresholds did on the data reported on, as a table; none if they were not tried."""
    several = sum(bool(items) for items in realized.values()) > 1
    rows: list[list[str]] = []
    for label, items in realized.items():
        for item in items:
            content = item.json()
            if not rows:
                names = [str(name).replace("_", " ") for name in content]
                rows.append(["model", *names] if several else names)
            cells = [_cell(value) for value in content.values()]
            rows.append([label, *cells] if several else cells)
    return rows


def _cell(value: Any) -> str:
    """A value of JSON as text.

    >>> _cell(0.12345), _cell([0.1, 0.2]), _cell(None), _cell(True), _cell("FAR")
    ('0.1235', '0.1…0.2', '–', 'yes', 'FAR')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return "…".join(_cell(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
