"""Puts the report together and writes it."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from arcset.files import write_text
from arcset.reports.report.payload import viewer_data
from arcset.reports.report.pieces import (
    Section,
    configurations,
    introduction,
    section_html,
    timings,
)
from arcset.reports.report.table import summary_table
from arcset.reports.view import RunView

__all__ = ["digest", "write_report"]

SCRIPTS = ("runs.js", "panel.js", "viewer.js")


def write_report(
    out: Path,
    *,
    title: str,
    views: Sequence[RunView] = (),
    comparison: Mapping[str, Any] | None = None,
    sections: Sequence[Section] = (),
    verdict: str = "",
    measures: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    shown: Sequence[str] = (),
    command: str = "",
    points: int = 500,
) -> None:
    """Write `out`: one HTML file that needs nothing else and asks nothing of any network.

    views: the runs to look at; those that kept no embeddings are only listed.
    comparison: as `arcset compare --json` prints it, with what is compared in "of" if no losses
        are; `measures` gives its columns and what they mean.
    labels: what a run is called on the page, by the title of its view.
    groups: headings over the choice of runs, each with the titles of its views.
    shown: titles of the views that are open at first; two of them if not given.
    command: how to make all this again.
    points: most samples per part in the interactive view; 500 keep eight runs below 3 MB.

    The same input gives the same bytes: nothing in it is a date or a machine's name.
    """
    labels = labels or {}
    data = viewer_data(views, labels=labels, groups=groups or {}, points=points)
    titles = [view.title for view in views if view.frames]
    data["shown"] = [titles.index(name) for name in shown if name in titles] or _first(titles)
    style = files("arcset.reports").joinpath("templates/style.css").read_text(encoding="utf-8")
    script = "".join(_read(name) for name in SCRIPTS)
    table, heading = "", "The losses side by side"
    if comparison is not None:
        if "of" in comparison:
            heading = f"Each {escape(comparison['of'])} side by side"
        table = summary_table(comparison, measures or _plain(comparison))
    page = Template(_read("template.html")).substitute(
        title=escape(title),
        style=style,
        style_hash=digest(style),
        script=script,
        script_hash=digest(script),
        introduction=introduction(views, labels),
        verdict=f'<p class="verdict">{escape(verdict)}</p>' if verdict else "",
        table=_block("losses", heading, table),
        viewer_hidden="" if data["runs"] else "hidden",
        data=_script_json(data),
        sections="".join(section_html(section) for section in sections),
        configurations=_block("runs", "Configurations", configurations(views, labels)),
        timings=_block("timings", "Timings", timings(views, labels)),
        command=_block(
            "again", "Make it again", f"<pre>{escape(command)}</pre>" if command else ""
        ),
    )
    write_text(out, page)


def _first(titles: Sequence[str]) -> list[int]:
    """The first and the last run: comparisons tend to go from the plainest loss onwards."""
    return sorted({0, len(titles) - 1}) if titles else []


def _plain(comparison: Mapping[str, Any]) -> dict[str, str]:
    """Every measure, without a meaning, where the caller gives none."""
    return {name: "" for found in comparison["summary"].values() for name in found}


def _block(name: str, heading: str, content: str) -> str:
    return f'<section id="{name}"><h2>{heading}</h2>{content}</section>' if content else ""


def _read(name: str) -> str:
    return files("arcset.reports.report").joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """For the page's security policy: only this very text may run or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _script_json(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
