"""The table of what is compared: mean and spread over seeds, the best of each measure marked."""

from collections.abc import Mapping
from html import escape
from typing import Any

from arcset.evaluation.measures import run_figures

__all__ = ["summary_table"]

Cell = Mapping[str, float | None]


def summary_table(comparison: Mapping[str, Any], measures: Mapping[str, str]) -> str:
    """`comparison["summary"]` as HTML, with what each column means below.

    What its lines are is in `comparison["of"]`: a loss if nothing is said.

    Columns are the measures that have a value, in the order of `measures`. The best mean is
    marked; so, more faintly, is every other loss whose seeds reach into the best one's range.
    """
    summary: Mapping[str, Mapping[str, Cell]] = comparison["summary"]
    present = {name for found in summary.values() for name in found}
    columns = [name for name in measures if name in present]
    lower_is_better = {key for key, one in run_figures().items() if one.lower_is_better}
    marks = {name: _marks(summary, name, name in lower_is_better) for name in columns}
    head = "".join(
        f'<th scope="col" title="{escape(measures[name])}">{_title(name)}</th>' for name in columns
    )
    lines = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(_cell(found.get(name), marks[name].get(label, "")) for name in columns)
        + "</tr>"
        for label, found in summary.items()
    )
    meanings = "".join(
        f"<dt>{_title(name)}{' (lower is better)' if name in lower_is_better else ''}</dt>"
        f"<dd>{escape(measures[name])}</dd>"
        for name in columns
    )
    of = comparison.get("of", "loss")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table by {escape(of)}">'
        f'<table class="losses"><thead><tr><th scope="col">{escape(of)}</th>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
        f'<p class="key">{_key(comparison)}</p>'
        f"<details><summary>What the columns mean</summary><dl>{meanings}</dl></details>"
    )


def _key(comparison: Mapping[str, Any]) -> str:
    seeds = len({run["seed"] for run in comparison.get("runs", [])})
    best = '<span class="dot best"></span> best mean'
    if seeds <= 1:
        of = escape(comparison.get("of", "loss"))
        return f"{best}. One run per {of}: small differences may be chance."
    return (
        f"Mean of {seeds} seeds, below it lowest…highest. {best}; "
        '<span class="dot near"></span> not told apart from it: the ranges overlap.'
    )


def _marks(summary: Mapping[str, Mapping[str, Cell]], measure: str, lower: bool) -> dict[str, str]:
    """LABEL → best or near; nothing where the losses do not differ, and none for seconds."""
    cells = {
        label: found[measure]
        for label, found in summary.items()
        if measure in found and found[measure].get("mean") is not None
    }
    means = {label: _number(cell, "mean") for label, cell in cells.items()}
    if measure == "seconds" or len(set(means.values())) < 2:
        return {}
    best = (min if lower else max)(means.values())
    marks = {label: "best" for label, mean in means.items() if mean == best}
    leader = cells[next(iter(marks))]
    for label, cell in cells.items():
        apart = _number(cell, "high") < _number(leader, "low") or (
            _number(cell, "low") > _number(leader, "high")
        )
        if not apart:
            marks.setdefault(label, "near")
    return marks


def _cell(cell: Cell | None, mark: str) -> str:
    if cell is None or cell.get("mean") is None:
        return '<td class="none">none</td>'
    low, high = _number(cell, "low"), _number(cell, "high")
    spread = f"<small>{_shown(low)}…{_shown(high)}</small>" if low != high else ""
    said = {"best": "best", "near": "close to the best"}.get(mark, "")
    dot = f'<span class="dot {mark}" role="img" aria-label="{said}"></span>' if mark else ""
    return f'<td class="{mark}"><span>{dot}{_shown(_number(cell, "mean"))}</span>{spread}</td>'


def _number(cell: Cell, name: str) -> float:
    value = cell.get(name)
    return float("nan") if value is None else value


def _shown(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.1f}"


def _title(name: str) -> str:
    return escape(name.replace("_", " "))
