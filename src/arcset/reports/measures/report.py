"""The report of an evaluation: one page with the figures, the pictures and what is not known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from arcset.errors import OptionError
from arcset.evaluation.assessment import Assessment
from arcset.evaluation.bootstrap import Difference
from arcset.files import write_bytes, write_text
from arcset.reports.measures.sections import comparison_section, measure_sections
from arcset.reports.measures.tables import all_measures, key, main_figures
from arcset.reports.measures.threshold_sections import threshold_sections
from arcset.reports.measures.values import values_of
from arcset.reports.page import encode_figure
from arcset.reports.report.page import digest
from arcset.reports.report.pieces import Section, section_html

__all__ = ["write_evaluation"]


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
    differences: by comparison, as `difference_picture` takes them.
    verdict: a sentence or two on what comes out.

    The page holds no script. The same input gives the same bytes: nothing in it is a date or a
    machine's name. Raises `OptionError` where there is no assessment.
    """
    if not assessments:
        raise OptionError("there is no assessment to report on")
    compared = _rendered(comparison_section(differences or {}))
    measured = _rendered(measure_sections(assessments))
    thresholds = _rendered(threshold_sections(assessments))
    values = {label: values_of(assessment) for label, assessment in assessments.items()}
    style = _read("arcset.reports", "templates/style.css")
    page = Template(_read("arcset.reports.measures", "evaluation.html")).substitute(
        title=escape(title),
        style=style,
        style_hash=digest(style),
        measured=_measured(assessments),
        note=_note(note),
        verdict=f'<p class="verdict">{escape(verdict)}</p>' if verdict else "",
        main=_block("main", "The main figures", main_figures(values), key(values)),
        comparisons=_html(compared),
        table=_block("measures", "Every measure", all_measures(values)),
        sections=_html(measured),
        thresholds=_html(thresholds),
        missing=_block("missing", "Not measured", _missing(assessments)),
        command=_block(
            "again", "Make it again", f"<pre>{escape(command)}</pre>" if command else ""
        ),
    )
    write_text(out / "report.html", page)
    for name, section in (compared | measured | thresholds).items():
        for number, image in enumerate(section.figures, 1):
            file = f"{name}-{number}.png" if len(section.figures) > 1 else f"{name}.png"
            assert isinstance(image, bytes)  # they are rendered
            write_bytes(out / "pictures" / file, image)


def _rendered(sections: Mapping[str, Section]) -> dict[str, Section]:
    """The sections with their figures as PNG, drawn once for the page and the files."""
    return {
        name: replace(section, figures=[encode_figure(figure) for figure in section.figures])
        for name, section in sections.items()
    }


def _html(sections: Mapping[str, Section]) -> str:
    return "".join(section_html(section) for section in sections.values())


def _measured(assessments: Mapping[str, Assessment]) -> str:
    """On what: once where it is the same for all models."""
    said = {
        label: f"{a.samples:,} samples of {a.identities:,} identities"
        for label, a in assessments.items()
    }
    dims = {label: f"{a.dim} dimensions" for label, a in assessments.items()}
    if len(set(said.values())) > 1:
        return (
            "Measured on "
            + "; ".join(f"{escape(label)}: {text}, {dims[label]}" for label, text in said.items())
            + "."
        )
    shared = next(iter(said.values()))
    if len(set(dims.values())) == 1:
        return f"Measured on <b>{shared}</b>, in {next(iter(dims.values()))}."
    each = ", ".join(f"{escape(label)} in {dim}" for label, dim in dims.items())
    return f"Measured on <b>{shared}</b>; {each}."


def _note(note: str) -> str:
    if not note:
        return ""
    return f'<p class="warning" role="note"><strong>Mind this first</strong>{escape(note)}</p>'


def _missing(assessments: Mapping[str, Assessment]) -> str:
    """What was not measured and why; once for models of which the same is to be said."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for label, assessment in assessments.items():
        for name, why in assessment.missing.items():
            reasons.setdefault((name, why), []).append(label)
    items = []
    for (name, why), labels in reasons.items():
        whose = f" ({escape(', '.join(labels))})" if len(labels) < len(assessments) else ""
        items.append(f"<dt>{escape(name.replace('_', ' '))}{whose}</dt><dd>{escape(why)}</dd>")
    return f'<dl class="missing">{"".join(items)}</dl>' if items else ""


def _block(name: str, heading: str, content: str, after: str = "") -> str:
    """A section, if there is anything in it."""
    return f'<section id="{name}"><h2>{heading}</h2>{content}{after}</section>' if content else ""


def _read(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
