"""The report of an evaluation: one page with the figures, the plots and what is not known."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from arcset.errors import ArcsetError, OptionError
from arcset.evaluation import Assessment, Difference, paired
from arcset.evaluation.assessment import FEW
from arcset.evaluation.groups import HEADING, MEANING, MISLEADS
from arcset.evaluation.measures import PARTS, meaning, measure_of, short_name, weighty
from arcset.files import write_bytes
from arcset.reports.measure_plots import plot_sections
from arcset.reports.page import encode_figure, write_page
from arcset.reports.tables import MeasuredValue, list_values, mark_best


def write_evaluation(
    out: Path,
    assessments: Mapping[str, Assessment],
    *,
    title: str,
    command: str,
    note: str = "",
    differences: Mapping[str, Sequence[Difference]] | None = None,
    verdict: str = "",
) -> None:
    """Write `out`/report.html, which needs nothing else, and `out`/pictures/*.png.

    assessments: by model, in the order in which they are shown.
    command: how to make all this again.
    note: what a reader must know before anything else, such as that identities were in training.
    differences: by comparison, such as "arcface against softmax".
    verdict: a sentence or two on what comes out.

    The page holds no script. The same input gives the same bytes: nothing in it is a date or a
    machine's name. Raises `OptionError` where there is no assessment.
    """
    if not assessments:
        raise OptionError("there is no assessment to report on")
    sections = {
        **plot_sections("differences", differences or {}),
        **plot_sections("measures", assessments),
        **plot_sections("thresholds", assessments),
    }
    for name, section in sections.items():
        images = [encode_figure(figure) for figure in section.figures]
        sections[name] = replace(section, figures=images)
        for number, image in enumerate(images, 1):
            file = f"{name}-{number}.png" if len(images) > 1 else f"{name}.png"
            write_bytes(out / "pictures" / file, image)
    rows = compare_values(assessments)
    write_page(
        out / "report.html",
        "evaluation.html",
        title=title,
        sizes=_sizes(assessments),
        note=note,
        verdict=verdict,
        models=list(assessments),
        main={name: rows[name] for name in main_measures(rows)},
        table={
            heading: group
            for part, heading in PARTS.items()
            if (group := {name: row for name, row in rows.items() if measure_of(name).part == part})
        },
        names={name: short_name(name) for name in rows},
        meanings={name: _meaning(name) for name in rows},
        misleading={measure_of(name).title: measure_of(name).misleads for name in rows},
        key=_key(rows),
        intervals=any(cell.interval for row in rows.values() for cell in row.values()),
        sections=sections,
        by_group={
            label: each.by_group for label, each in assessments.items() if each.by_group is not None
        },
        group_heading=HEADING,
        group_words=(MEANING, MISLEADS),
        missing=_missing(assessments),
        command=command,
    )


def compare_values(
    assessments: Mapping[str, Assessment],
) -> dict[str, dict[str, MeasuredValue]]:
    """All measures by name, each by model, the best ones marked."""
    rows: dict[str, dict[str, MeasuredValue]] = {}
    for label, assessment in assessments.items():
        for name, value in list_values(assessment).items():
            rows.setdefault(name, {})[label] = value
    return {name: _with_marks(name, row) for name, row in rows.items()}


def _with_marks(name: str, row: dict[str, MeasuredValue]) -> dict[str, MeasuredValue]:
    """With `best`, and `near` where no difference to the best is shown, draw by draw."""

    def is_near(label: str, best: str) -> bool:
        first, second = row[best].result, row[label].result
        if first is None or second is None:
            return False
        try:
            return not paired(first, second, name).shown
        except ArcsetError:  # without intervals, or on other identities: nothing can be said
            return False

    values = {label: value.value for label, value in row.items()}
    marks = mark_best(values, is_near, lower=measure_of(name).lower_is_better)
    return {label: replace(value, mark=marks.get(label, "")) for label, value in row.items()}


def main_measures(rows: Mapping[str, Mapping[str, MeasuredValue]]) -> list[str]:
    """The few to begin with: each at the rate most models have, and of these the usual one."""
    names = []
    for measure in weighty("headline", "main"):
        defined = {
            name: sum(cell.is_known for cell in row.values())
            for name, row in rows.items()
            if measure_of(name) == measure and measure.name != "auc"  # pairs nobody asks about
        }
        shared = [name for name in defined if defined[name] == max(defined.values()) > 0]
        if shared:
            names.append(min(shared, key=lambda name: (_distance(name, measure.strict), name)))
    return names


def _distance(name: str, wanted: float | None) -> float:
    """How far the rate or rank of a measure is from the wanted one, in decades."""
    at = name.partition("[")[2].rstrip("]")
    return abs(math.log10(float(at) / wanted)) if at and wanted else 0.0


def _meaning(name: str) -> str:
    """What a measure says, and which way it runs where that is not upwards."""
    return meaning(name) + ("; lower is better" if measure_of(name).lower_is_better else "")


def _key(rows: Mapping[str, Mapping[str, MeasuredValue]]) -> list[str]:
    """How to read the figures of the tables."""
    every = [cell for row in rows.values() for cell in row.values()]
    lines = ["Without intervals: small differences may be chance."]
    if intervals := [cell for cell in every if cell.interval]:
        lines = [
            "The small figures are 95 % intervals: how far the large ones may be off, as other "
            "identities from the same source would have given others."
        ]
        replicates = [cell.result.replicates for cell in intervals if cell.result]
        fewest = min(one.identities for one in replicates if one)
        if fewest < FEW:
            lines.append(f"From {fewest} identities even the intervals are guesses.")
    if any(not cell.is_known for cell in every):
        lines.append("–: not asked for, or more than the data can tell.")
    return lines


def _sizes(assessments: Mapping[str, Assessment]) -> list[str]:
    """On what was measured; once where it is the same for all models."""
    sizes = {
        label: f"{a.samples:,} samples of {a.identities:,} identities, in {a.dim} dimensions"
        for label, a in assessments.items()
    }
    if len(set(sizes.values())) == 1:
        return [*sizes.values()][:1]
    return [f"{label}: {size}" for label, size in sizes.items()]


def _missing(assessments: Mapping[str, Assessment]) -> list[tuple[str, str]]:
    """What was not measured, of which models where it is not all, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for label, assessment in assessments.items():
        for name, why in assessment.missing.items():
            reasons.setdefault((name.replace("_", " "), why), []).append(label)
    return [
        (f"{name} ({', '.join(labels)})" if len(labels) < len(assessments) else name, why)
        for (name, why), labels in reasons.items()
    ]
