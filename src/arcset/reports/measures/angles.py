"""Angles: how tight classes are and how far apart, per sample and on average."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from arcset.errors import OptionError
from arcset.evaluation.geometry.angles import PAPER, Angles
from arcset.reports.measures.look import (
    Floats,
    Look,
    aside,
    bar,
    beside,
    frame,
    interval_of,
    looks,
    nothing,
    plain,
)
from arcset.reports.style import GREY, INK, PALE, new_figure, styled

__all__ = ["angles_picture"]

_NAMES = {
    "w_ec": "W-EC\ncenter to\nclass mean",
    "w_inter": "W-Inter\ncenter to\nnext center",
    "intra": "Intra\nsample to\nclass mean",
    "inter": "Inter\nclass mean to\nnext mean",
}


@styled
def angles_picture(
    own: Mapping[str, Floats],
    other: Mapping[str, Floats],
    results: Mapping[str, Angles],
    *,
    among: Sequence[str] = (),
) -> Figure:
    """Per model, angles to the own and to the nearest other class mean; and the paper's table.

    own, other: of each sample, in degrees (N,), as `angle_samples` gives them.
    results: the averages; a model may have only these, or only the angles of its samples.
    among: all models, where colours must agree with other pictures.

    Raises `OptionError` where there is nothing at all to draw.
    """
    models = looks([*own, *(label for label in results if label not in own)], among)
    if set(own) != set(other):
        raise OptionError("own and other angles must be those of the same models")
    rows = max(len(own), 1)
    height = max(4.4, 0.95 + 1.15 * rows)
    figure = new_figure(9.6, height)
    grid = figure.add_gridspec(rows, 2, width_ratios=(1.25, 1))
    first = None
    most = _end(own, other)
    for place, label in enumerate(own):
        axes = figure.add_subplot(grid[place, 0], sharex=first, sharey=first)
        first = first or axes
        _histogram(axes, own[label], other[label], models[label], plain(label, 34), most)
        axes.tick_params(labelbottom=place == rows - 1)
    if first is None:
        nothing(figure.add_subplot(grid[0, 0]), "no angles of samples")
    else:
        figure.axes[rows - 1].set_xlabel("angle, degrees")
        handles = [Patch(color=PALE), Patch(facecolor="none", edgecolor=INK, lw=1.3)]
        figure.legend(
            handles,
            ["to the own class", "to the nearest other class"],
            loc="upper left",
            ncols=2,
            borderaxespad=0.3,
            bbox_to_anchor=(0.6 / 9.6, 1.0),
        )
        middle = (0.72 + height - 0.55) / 2 / height
        figure.text(0.1 / 9.6, middle, "% of samples", rotation=90, va="center", ha="left")
    _averages(figure.add_subplot(grid[:, 1]), results, models)
    frame(figure, 0.72, 0.2, 0.72, 0.55, wspace=0.16, hspace=0.22)
    return figure


def _end(own: Mapping[str, Floats], other: Mapping[str, Floats]) -> float:
    """Where the axis of the histograms ends: at a multiple of 30° beyond all of them."""
    values = [float(np.nanmax(part)) for part in (*own.values(), *other.values()) if _any(part)]
    return min(180.0, max(60.0, 30 * math.ceil(max(values, default=60.0) / 30)))


def _any(values: Floats) -> bool:
    return bool(np.isfinite(values).any())


def _histogram(axes: Axes, own: Floats, other: Floats, look: Look, title: str, most: float) -> None:
    bins = np.linspace(0, most, 61).tolist()
    own, other = np.asarray(own), np.asarray(other)
    filled: dict[str, Any] = {"color": look.colour, "alpha": 0.75}
    outlined: dict[str, Any] = {"color": INK, "histtype": "step", "lw": 1.3}
    for values, style in ((own, filled), (other, outlined)):
        shown = values[np.isfinite(values)]
        axes.hist(shown, bins, weights=np.full(len(shown), 100 / max(len(shown), 1)), **style)
    both = np.isfinite(own) & np.isfinite(other)
    axes.set_title(title, fontsize=9.5, loc="left", pad=3, color=INK, x=0.035)
    axes.plot(
        0,
        1,
        transform=aside(axes, axes.transAxes, 5, 7),
        marker=look.marker,
        color=look.colour,
        ms=6,
        markeredgecolor="white",
        markeredgewidth=0.7,
        clip_on=False,
    )
    if both.any():
        nearer = float((other < own)[both].mean())
        said = f"{100 * nearer:.1f} % nearer to another"
        axes.set_title(said, fontsize=8.5, loc="right", pad=3, color=GREY)
    axes.set(xlim=(0, most), xticks=np.arange(0, most + 1, 30 if most > 90 else 15))
    axes.grid(True)
    axes.set_axisbelow(True)


def _averages(axes: Axes, results: Mapping[str, Angles], models: Mapping[str, Look]) -> None:
    if not results:
        nothing(axes, "no averages")
        return
    highest = 90.0
    shifts = beside(len(results), min(0.12, 0.7 / len(results)))
    for (label, result), shift in zip(results.items(), shifts, strict=True):
        for place, name in enumerate(_NAMES):
            value, interval = getattr(result, name), interval_of(result, name)
            highest = max([highest, *(v for v in (value, *(interval or ())) if np.isfinite(v))])
            bar(axes, place + shift, value, interval, models[label], size=6)
    for place, name in enumerate(_NAMES):
        if not any(np.isfinite(getattr(result, name)) for result in results.values()):
            said = "no centers" if name.startswith("w_") else "not defined"
            axes.text(place, 2, said, ha="center", color=GREY, fontsize=8.5)
    for (kind, values), dash in zip(PAPER.items(), ("-", (0, (3, 2))), strict=True):
        places = np.arange(len(_NAMES))
        axes.hlines(values, places - 0.42, places + 0.42, color=GREY, lw=1, ls=dash, zorder=1)
        axes.plot([], [], color=GREY, lw=1, ls=dash, label=kind)
    axes.legend(
        loc="lower center",
        ncols=2,
        bbox_to_anchor=(0.5, 0.995),
        fontsize=8.5,
        labelcolor=GREY,
        title="for orientation, the ArcFace paper's",
        title_fontproperties={"size": 8.5},
        borderaxespad=0.1,
        borderpad=0.1,
    )
    axes.set_xticks(range(len(_NAMES)), list(_NAMES.values()), fontsize=8.5)
    axes.set(xlim=(-0.55, len(_NAMES) - 0.45), ylim=(0, highest * 1.03))
    axes.yaxis.set_major_formatter("{x:.0f}°")
    axes.grid(True, axis="y")
