"""Cosines as probabilities: whether they keep what they say, and where the thresholds lie."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from arcset.errors import InputError
from arcset.evaluation.calibration.probability import Reliability
from arcset.evaluation.calibration.thresholds import Thresholds
from arcset.reports.measures.look import (
    Look,
    aside,
    bar,
    frame,
    key_below,
    key_height,
    looks,
    percent_axis,
    plain,
)
from arcset.reports.style import GREY, new_figure, styled
from arcset.text import percent

__all__ = ["reliability_picture"]

_RATES = (0.01, 0.001, 1e-4)
_STEPS = 801


@styled
def reliability_picture(
    results: Mapping[str, Reliability],
    thresholds: Mapping[str, Thresholds],
    *,
    rates: Iterable[float] = _RATES,
    among: Sequence[str] = (),
) -> Figure:
    """How often pairs are the same, over the probability that they were given; and the latter.

    results: measured on other identities than those the probabilities were fitted to; where there
        are none, the probability over the cosine is drawn alone.
    thresholds: give a probability to a cosine, and a threshold to each FAR of `rates`. With more
        than one model only the first rate that all support is marked.
    among: all models, where colours must agree with other pictures.
    """
    models = looks([*results, *(label for label in thresholds if label not in results)], among)
    entries = {
        f"{plain(label)}: calibration error {100 * results[label].ece:.2f} %"
        if label in results
        else plain(label): look
        for label, look in models.items()
    }
    key = key_height(9.6, list(entries))
    figure = new_figure(9.6, 4.7 + key)
    columns = bool(results) + bool(thresholds)
    grid = figure.add_gridspec(2, columns, height_ratios=(3.4, 1))
    if results:
        upper = figure.add_subplot(grid[0, 0])
        _reliability(upper, results, models)
        _counts(figure.add_subplot(grid[1, 0], sharex=upper), results, models)
    if thresholds:
        _probability(figure.add_subplot(grid[:, -1]), thresholds, models, list(rates))
    key_below(figure, entries)
    frame(figure, 0.85, 0.3, key + 0.58, 0.4, wspace=0.24, hspace=0.12)
    return figure


def _reliability(
    axes: Axes, results: Mapping[str, Reliability], models: Mapping[str, Look]
) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls=":")
    for label, result in results.items():
        look = models[label]
        full = result.counts > 0
        x, y = result.mean_probability[full], result.frequency[full]
        axes.plot(x, y, color=look.colour, ls=look.dash, lw=1.2, alpha=0.7)
        for place, value in zip(x.tolist(), y.tolist(), strict=True):
            bar(axes, place, value, None, look)
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title("reliability: what was said, what was so")
    axes.set_ylabel("of these, the same")
    percent_axis(axes, "y")
    axes.tick_params(labelbottom=False)
    axes.grid(True)


def _counts(axes: Axes, results: Mapping[str, Reliability], models: Mapping[str, Look]) -> None:
    for label, result in results.items():
        look, counts = models[label], result.counts.astype(np.float64)
        if len(results) == 1:
            axes.stairs(
                counts, result.edges, baseline=0.5, color=look.colour, fill=True, alpha=0.75
            )
            continue
        counts[counts == 0] = np.nan  # an empty bin has no place on this axis
        middle = (result.edges[1:] + result.edges[:-1]) / 2
        axes.plot(middle, counts, color=look.colour, ls=look.dash, lw=1, marker=look.marker, ms=3.5)
    highest = max(int(result.counts.max()) for result in results.values())
    axes.set(yscale="log", ylim=(0.5, 3 * highest))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))  # 1M: a million is too wide
    axes.minorticks_off()
    axes.set_ylabel("pairs")
    axes.set_xlabel("probability of being the same")
    percent_axis(axes, "x")
    axes.grid(True)
    axes.set_axisbelow(True)


def _probability(
    axes: Axes,
    thresholds: Mapping[str, Thresholds],
    models: Mapping[str, Look],
    rates: Sequence[float],
) -> None:
    cosines = np.linspace(-1, 1, _STEPS)
    marked = {label: _marks(found, rates) for label, found in thresholds.items()}
    shared = [rate for rate in rates if all(rate in found for found in marked.values())]
    shown = rates if len(thresholds) == 1 else shared[:1]
    lowest = 0.0
    for label, found in thresholds.items():
        look = models[label]
        chances = found.probability(cosines)
        lowest = min(lowest, float(cosines[max(int(np.searchsorted(chances, 0.01)) - 1, 0)]))
        axes.plot(cosines, chances, color=look.colour, ls=look.dash, lw=1.6)
        for rate in shown:
            if rate not in marked[label]:
                continue
            cosine = marked[label][rate]
            chance = float(found.probability(np.array([cosine]))[0])
            bar(axes, cosine, chance, None, look, size=7)
            if len(thresholds) == 1:
                axes.axvline(cosine, color=GREY, lw=0.9, ls=":", zorder=1)
                axes.text(
                    cosine,
                    0.03,
                    f" FAR {percent(rate)}",
                    transform=aside(axes, axes.get_xaxis_transform(), 3, 0),
                    rotation=90,
                    color=GREY,
                    fontsize=8.5,
                )
    axes.set(xlim=(max(lowest - 0.1, -1), 1), ylim=(0, 1.02))
    said = f"; marks: FAR {percent(shown[0])}" if len(thresholds) > 1 and shown else ""
    axes.set_title(f"probability over the cosine{said}")
    axes.set_xlabel("cosine of two samples")
    axes.set_ylabel("probability of being the same")
    percent_axis(axes, "y")
    axes.grid(True)


def _marks(found: Thresholds, rates: Iterable[float]) -> dict[float, float]:
    """The thresholds of the rates that the validation identities support."""
    marks = {}
    for rate in rates:
        try:
            marks[rate] = float(found.for_far(rate).threshold)
        except InputError:
            continue
    return marks
