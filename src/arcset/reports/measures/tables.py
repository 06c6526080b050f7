"""The figures of the report: the main ones at a glance, and all of them in a table."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from arcset.evaluation.measures import PARTS, meaning, measure_of, short_name, weighty
from arcset.reports.measures.values import Value, marks

__all__ = ["all_measures", "key", "main_figures"]

Values = Mapping[tuple[str, str], Value]

_FEW = 20  # identities below which a bootstrap over them tells little


def main_figures(models: Mapping[str, Values]) -> str:
    """The few figures to begin with: cards for one model, a row per model for several."""
    names = _main_names(list(models.values()))
    if not names:
        return ""
    if len(models) > 1:
        return _main_table(models, names)
    (values,) = models.values()
    cards = []
    for key in names:
        value = values[key]
        spread = f"<small>{escape(value.range_text(1))}</small>" if value.interval else ""
        cards.append(
            f"<div><dt>{_words(short_name(value.measure))}</dt>"
            f"<dd><b>{_words(value.text(1))}</b>{spread}"
            f"<span>{_words(meaning(value.measure))}</span></dd></div>"
        )
    return f'<dl class="cards">{"".join(cards)}</dl>'


def all_measures(models: Mapping[str, Values]) -> str:
    """A row per measure, a column per model; beside a single one there is room for meanings."""
    keys = list(dict.fromkeys(key for values in models.values() for key in values))
    alone = len(models) == 1
    columns = "".join(f'<th scope="col">{escape(label)}</th>' for label in models)
    columns += '<th scope="col" class="words">what it says</th>' if alone else ""
    bodies = []
    for part, heading in PARTS.items():
        lines = [
            f'<tr><th scope="row" title="{_words(meaning(key[1]))}">{_words(short_name(key[1]))}'
            f"</th>{_cells(models, key)}"
            + (f'<td class="words">{_words(_said(models, key))}</td>' if alone else "")
            + "</tr>"
            for key in keys
            if key[0] == part
        ]
        if lines:
            span = len(models) + 1 + alone
            head = f'<tr class="part"><th scope="rowgroup" colspan="{span}">{heading}</th></tr>'
            bodies.append(f"<tbody>{head}{''.join(lines)}</tbody>")
    if not bodies:
        return ""
    kinds = [measure_of(key[1]) for key in keys]
    folded = _fold("When the measures mislead", {kind.title: kind.misleads for kind in kinds})
    if not alone:
        meanings = {short_name(key[1]): _said(models, key) for key in keys}
        folded = _fold("What the measures mean", meanings) + folded
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table of all measures">'
        f'<table class="measures"><thead><tr><th scope="col">measure</th>{columns}</tr></thead>'
        f"{''.join(bodies)}</table></div>{folded}"
    )


def _fold(title: str, texts: Mapping[str, str]) -> str:
    items = "".join(
        f"<dt>{_words(name)}</dt><dd>{_words(text)}</dd>" for name, text in texts.items()
    )
    return f"<details><summary>{title}</summary><dl>{items}</dl></details>"


def _main_table(models: Mapping[str, Values], names: Sequence[tuple[str, str]]) -> str:
    head = "".join(
        f'<th scope="col" title="{_words(meaning(name))}">{_words(short_name(name))}</th>'
        for _, name in names
    )
    found = {
        key: marks({label: v[key] for label, v in models.items() if key in v}) for key in names
    }
    lines = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(_cell(values.get(key), found[key].get(label, ""), 1) for key in names)
        + "</tr>"
        for label, values in models.items()
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table of the main measures">'
        f'<table><thead><tr><th scope="col">model</th>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _main_names(models: Sequence[Values]) -> list[tuple[str, str]]:
    """The main measures that there are, rates where no model lacks them if there is such a rate."""
    found = []
    for measure in weighty("headline", "main"):
        if (
            measure.name == "auc"
        ):  # shown among all measures: it is ruled by pairs nobody asks about
            continue
        base, wanted = measure.name, measure.strict
        known = {key for values in models for key in values if key[0] == measure.part}
        keys = [key for key in known if key[1] == base or key[1].startswith(f"{base}[")]
        rates = {key: sum(key in v and v[key].defined for v in models) for key in keys}
        shared = [key for key in keys if rates[key] == max(rates.values()) > 0]
        if shared:
            found.append(min(shared, key=lambda key: (_distance(key[1], wanted), key)))
    return found


def _distance(measure: str, wanted: float | None) -> float:
    """How far a rate or rank is from the wanted one, in decades."""
    at = measure.partition("[")[2].rstrip("]")
    return abs(math.log10(float(at) / wanted)) if at and wanted else 0.0


def _cells(models: Mapping[str, Values], key: tuple[str, str]) -> str:
    found = marks({label: values[key] for label, values in models.items() if key in values})
    return "".join(
        _cell(values.get(key), found.get(label, ""), 2) for label, values in models.items()
    )


def _cell(value: Value | None, mark: str, digits: int) -> str:
    if value is None or not value.defined:
        return '<td class="none">–</td>'
    spread = f"<small>{escape(value.range_text(digits))}</small>" if value.interval else ""
    said = {"best": "best", "near": "no difference to the best shown"}.get(mark, "")
    dot = f'<span class="dot {mark}" role="img" aria-label="{said}"></span>' if mark else ""
    return f'<td class="{mark}"><span>{dot}{_words(value.text(digits))}</span>{spread}</td>'


def _identities(value: Value) -> float:
    """How many identities the interval was drawn from; infinite where there is none."""
    replicates = None if value.result is None else value.result.replicates
    return math.inf if replicates is None else replicates.identities


def _words(text: str) -> str:
    """Text for the page, with no line broken between a figure and its percent."""
    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _said(models: Mapping[str, Values], key: tuple[str, str]) -> str:
    """What a measure means, and which way it runs where that is not upwards."""
    lower = any(values[key].lower_is_better for values in models.values() if key in values)
    return meaning(key[1]) + ("; lower is better" if lower else "")


def key(models: Mapping[str, Values]) -> str:
    """How to read the figures of both tables."""
    every = [value for values in models.values() for value in values.values()]
    said = []
    if any(value.interval for value in every):
        said.append(
            "The small figures are 95 % intervals: how far the large ones may be off, as other "
            "identities from the same source would have given others."
        )
        fewest = min(_identities(value) for value in every)
        if fewest < _FEW:
            said.append(f"From {fewest} identities even the intervals are guesses.")
    else:
        said.append("Without intervals: small differences may be chance.")
    if any(not value.defined for value in every):
        said.append("–: not asked for, or more than the data can tell.")
    if len(models) > 1:
        dots = '<span class="dot best"></span> best'
        if any(value.interval for value in every):
            dots += '; <span class="dot near"></span> no difference to the best is shown'
        said.append(f"{dots}.")
    return f'<p class="key">{" ".join(said)}</p>'
