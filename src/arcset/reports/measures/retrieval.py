"""Search: how much of what comes first belongs to the query."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arcset.evaluation.measures import short_name
from arcset.evaluation.retrieval import Retrieval
from arcset.reports.measures.look import (
    Look,
    bar,
    beside,
    frame,
    interval_of,
    key_below,
    key_height,
    looks,
    plain,
    share_axis,
)
from arcset.reports.style import GREY, new_figure, styled

__all__ = ["retrieval_picture"]

_WHOLE = ("map_at_r", "r_precision")


@styled
def retrieval_picture(results: Mapping[str, Retrieval], *, among: Sequence[str] = ()) -> Figure:
    """Recall@k, precision@k, MAP@R and R-precision, with 95 % intervals where there are such.

    `among`: all models, where colours must agree with other pictures.
    """
    models = looks(results, among)
    entries = {plain(label): look for label, look in models.items()}
    key = key_height(9.6, list(entries))
    figure = new_figure(9.6, 4.2 + key)
    panels = figure.subplots(1, 3, width_ratios=(1.25, 1.25, 1))
    _by_count(panels[0], "recall_at", results, models)
    panels[0].set_title("recall: one of the first k is right")
    panels[0].set_ylabel("mean over queries")
    _by_count(panels[1], "precision_at", results, models)
    panels[1].set_title("precision: share of the first k")
    _whole(panels[2], results, models)
    counts = {f"{result.queries:,} queries" + _left_out(result) for result in results.values()}
    if len(counts) == 1:
        height = figure.get_figheight()
        figure.text(0.5, 1 - 0.1 / height, counts.pop(), ha="center", va="top", color=GREY)
    key_below(figure, entries)
    frame(figure, 0.85, 0.3, key + 0.6, 0.68, wspace=0.27)
    return figure


def _left_out(result: Retrieval) -> str:
    return f"; {result.left_out:,} more are alone in their class" if result.left_out else ""


def _by_count(
    axes: Axes, name: str, results: Mapping[str, Retrieval], models: Mapping[str, Look]
) -> None:
    """One measure over k; the ks stand at even distances."""
    counts = sorted({count for result in results.values() for count in getattr(result, name)})
    lowest: list[float] = []
    for (label, look), shift in zip(models.items(), beside(len(models), 0.07), strict=True):
        result = results[label]
        values: Mapping[int, float] = getattr(result, name)
        shown = [count for count in counts if count in values]
        places = [counts.index(count) + shift for count in shown]
        heights = [values[count] for count in shown]
        axes.plot(places, heights, color=look.colour, ls=look.dash, lw=1, alpha=0.6)
        for place, count in zip(places, shown, strict=True):
            interval = interval_of(result, name, count)
            lowest.extend((values[count], *(interval or ())))
            bar(axes, place, values[count], interval, look)
    share_axis(axes, lowest)
    axes.grid(True, axis="y")
    axes.set_xticks(range(len(counts)), [f"{count:g}" for count in counts])
    axes.set_xlim(-0.5, len(counts) - 0.5)
    axes.set_xlabel("k")


def _whole(axes: Axes, results: Mapping[str, Retrieval], models: Mapping[str, Look]) -> None:
    lowest: list[float] = []
    for (label, look), shift in zip(models.items(), beside(len(models), 0.09), strict=True):
        for place, name in enumerate(_WHOLE):
            value, interval = getattr(results[label], name), interval_of(results[label], name)
            lowest.extend((value, *(interval or ())))
            bar(axes, place + shift, value, interval, look)
    share_axis(axes, lowest)
    axes.grid(True, axis="y")
    axes.set_xticks(range(len(_WHOLE)), [short_name(name) for name in _WHOLE])
    axes.set_xlim(-0.5, len(_WHOLE) - 0.5)
    axes.set_title("over the whole class")
