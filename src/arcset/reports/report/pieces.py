"""The parts of the page that are plain HTML: introduction, sections, configurations, timings."""

import math
from collections.abc import Mapping, Sequence
from html import escape

import tomli_w

from arcset.reports.page import Section
from arcset.reports.view import RunView

__all__ = ["Section", "configurations", "introduction", "section_html", "table_html", "timings"]

_LETTERS = 150  # that the names of all classes may have together, to be listed
_EXAMPLES = 3  # that are listed otherwise


def introduction(views: Sequence[RunView], labels: Mapping[str, str]) -> str:
    """What was trained, which classes are known and which unseen: one item per kind of run."""
    kinds: dict[tuple[str, tuple[str, ...], tuple[str, ...], int], list[str]] = {}
    for view in views:
        unseen = view.selection.unseen
        others = () if unseen is None else unseen.class_names
        kind = (view.config.data, view.selection.train.class_names, others, view.config.dim)
        kinds.setdefault(kind, []).append(labels.get(view.title, view.title))
    items = []
    for (data, known, others, dim), names in kinds.items():
        unknown = f"Never shown: <b>{_listed(others)}</b>." if others else "No class is held out."
        items.append(
            f"<li>Trained on <b>{_listed(known)}</b> of {escape(data)}. {unknown} An image becomes "
            f"{dim} numbers. <span>{escape(' · '.join(names))}</span></li>"
        )
    return "<ul>" + "".join(items) + "</ul>" if items else ""


def section_html(section: Section) -> str:
    """A section: its figures, both sentences, and its table."""
    figures = [
        f'<img src="{picture.src}" width="{picture.width}" height="{picture.height}" '
        f'alt="{escape(picture.alt)}">'
        for picture in section.pictures
    ]
    drawn = f'<div class="figures">{"".join(figures)}</div>' if figures else ""
    table = table_html(section.rows) if section.rows else ""
    return (
        f'<section class="finding"><h2>{escape(section.title)}</h2>{drawn}'
        '<div class="reading">'
        f"<p><strong>What it means</strong> {escape(section.meaning)}</p>"
        f"<p><strong>When it misleads</strong> {escape(section.misleads)}</p></div>"
        f"{table}</section>"
    )


def table_html(rows: Sequence[Sequence[str]]) -> str:
    """A plain table; the first row is the heading, the first column names the rows."""
    head, *body = ([escape(cell) for cell in row] for row in rows)
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{c}</td>" for c in row[1:]) + "</tr>"
        for row in body
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
        f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def configurations(views: Sequence[RunView], labels: Mapping[str, str]) -> str:
    """Every run's configuration, folded."""
    return "".join(
        f"<details><summary>{escape(labels.get(view.title, view.title))}</summary>"
        f"<pre>{escape(tomli_w.dumps(view.config.model_dump(exclude_none=True)))}</pre></details>"
        for view in views
    )


def timings(views: Sequence[RunView], labels: Mapping[str, str]) -> str:
    """How long training took, as the runs have noted it."""
    rows = [("run", "network", "weights", "epochs", "seconds", "images per second")]
    for view in views:
        lines = view.run.metrics()
        seconds = math.fsum(line["seconds"] for line in lines)
        images = math.fsum(line["seconds"] * line["images_per_second"] for line in lines)
        weights = sum(weight.numel() for weight in view.network.parameters())
        rows.append(
            (
                labels.get(view.title, view.title),
                view.config.network,
                f"{weights:,}",
                str(len(lines)),
                f"{seconds:.1f}",
                f"{images / seconds:,.0f}" if seconds else "",
            )
        )
    return table_html(rows) if views else ""


def _listed(names: Sequence[str]) -> str:
    shown = [escape(name) for name in names]
    if sum(map(len, shown)) > _LETTERS:
        return f"{len(names):,} classes, as {', '.join(shown[:_EXAMPLES])}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
