"""What the pictures of measures share: how models are told apart, bars, rates, the key."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation, Transform

from arcset.errors import OptionError
from arcset.evaluation.results import Interval, Result
from arcset.reports.style import GREY, PALETTE

__all__ = [
    "Floats",
    "Look",
    "aside",
    "bar",
    "beside",
    "frame",
    "from_zero",
    "interval_of",
    "key_below",
    "key_height",
    "log_ticks",
    "looks",
    "nothing",
    "percent_axis",
    "plain",
    "share_axis",
    "supported",
]

_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1.2, 1.2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_LONGEST = 44  # characters of a model's name in a picture
_LINE = 0.178  # inches per line of the key

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Look:
    """A model's colour, line and mark, the same in every picture."""

    colour: str
    dash: Any
    marker: str


def looks(labels: Iterable[str], among: Sequence[str] = ()) -> dict[str, Look]:
    """A look for every model, by its place `among` all models, where these are given.

    With more than ten models colours come again, with other marks. Raises `OptionError` where
    there is no model.
    """
    shown = list(labels)
    if not shown:
        raise OptionError("there is no result to draw")
    order = list(dict.fromkeys([*among, *shown]))
    places = {label: order.index(label) for label in shown}
    return {
        label: Look(PALETTE[n % len(PALETTE)], _DASHES[n % len(_DASHES)], _MARKERS[n % 8])
        for label, n in places.items()
    }


def plain(label: str, longest: int = _LONGEST) -> str:
    """A name as matplotlib must be given it: one line, no formula, cut in its middle if long.

    >>> plain("cost in $", 30), plain("runs/digits/arcface", 12)
    ('cost in \\\\$', 'runs…arcface')
    """
    text = " ".join(label.split())
    if len(text) > longest:
        head = (longest - 1) * 2 // 5
        text = f"{text[:head]}…{text[-(longest - 1 - head) :]}"
    return text.replace("$", r"\$")


def percent_axis(axes: Axes, which: str) -> None:
    """Ticks as percent on the x or y axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(lambda value, _: f"{100 * value:.6g} %")


def log_ticks(axes: Axes, which: str, low: float, high: float) -> None:
    """A logarithmic axis of shares; below two decades with ticks between the powers of ten."""
    if which == "x":
        axes.set_xscale("log")
        axes.set_xlim(low, high)
    else:
        axes.set_yscale("log")
        axes.set_ylim(low, high)
    axis = axes.xaxis if which == "x" else axes.yaxis
    between = (1, 2, 5) if high / low < 100 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if len(powers) > 8:
        powers = powers[::2]
    ticks = [part * 10.0**power for power in powers for part in between]
    axis.set_ticks([tick for tick in ticks if low <= tick <= high])
    axis.set_minor_locator(NullLocator())
    percent_axis(axes, which)


def from_zero(values: Iterable[float]) -> float:
    """Where an axis of shares that ends at 1 begins: 0, or higher if all of it is near 1.

    >>> from_zero([0.4, 0.9]), round(from_zero([0.97, math.nan]), 2), from_zero([1.0])
    (0.0, 0.95, 0.9)
    """
    defined = [value for value in values if math.isfinite(value)]
    if not defined or min(defined) < 0.55:
        return 0.0
    if min(defined) >= 1:
        return 0.9
    gap = max(1 - min(defined), 1e-3)
    step: float = 10.0 ** math.floor(math.log10(gap))  # 0.03 below 1 begins at 0.95
    reach = next(part * step for part in (1, 2, 5, 10, 20) if part * step >= gap * 1.02)
    return max(0.0, 1 - reach)


def supported(rate: Floats, value: Floats, least: float) -> tuple[Floats, Floats]:
    """A curve of the best values at rates, from the `least` rate that the data can show.

    `value` rises or falls with the rate. What holds at lower rates, holds at the least one too.

    >>> supported(np.array([0.0, 0.1, 0.5]), np.array([0.6, 0.7, 0.9]), 0.2)
    (array([0.2, 0.5]), array([0.7, 0.9]))
    """
    rate, value = np.asarray(rate, np.float64), np.asarray(value, np.float64)
    order = np.argsort(rate, kind="stable")
    rate, value = rate[order], value[order]
    first = max(int(np.searchsorted(rate, least, side="right")) - 1, 0)
    return np.maximum(rate[first:], least), value[first:]


def share_axis(axes: Axes, values: Iterable[float]) -> None:
    """The y axis of shares, up to 1, from 0 or as `from_zero` says."""
    start = from_zero(values)
    axes.set_ylim(start, 1 + 0.02 * (1 - start))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    percent_axis(axes, "y")


def beside(count: int, step: float, widest: float = math.inf) -> Sequence[float]:
    """Offsets that set `count` marks side by side, evenly about 0, from end to end `widest`.

    >>> beside(1, 0.1), beside(2, 1.0), beside(3, 1.0, 1.0)
    ([0.0], [-0.5, 0.5], [-0.5, 0.0, 0.5])
    """
    step = min(step, widest / max(count - 1, 1))
    return [(place - (count - 1) / 2) * step for place in range(count)]


def interval_of(result: Result, name: str, at: float | None = None) -> Interval | None:
    """The interval of a measure, None where there is none to draw."""
    full = result.name_of(name, at)
    if result.replicates is None or full not in result.replicates.values:
        return None
    found = result.interval(full)
    return found if math.isfinite(found.low) and math.isfinite(found.high) else None


def bar(
    axes: Axes,
    place: float,
    value: float,
    interval: tuple[float, float] | None,
    look: Look,
    *,
    lying: bool = False,
    size: float = 5.5,
) -> None:
    """A mark at `value` with its interval as a bar; nothing where the value is not defined.

    The interval is drawn as it is: that of a skewed measure need not hold the value itself.
    """
    if not math.isfinite(value):
        return
    if interval is not None:
        draw = axes.hlines if lying else axes.vlines
        draw(place, *interval, color=look.colour, lw=1.4, zorder=3)
    axes.plot(
        *((value, place) if lying else (place, value)),
        marker=look.marker,
        ms=size,
        color=look.colour,
        markeredgecolor="white",
        markeredgewidth=0.7,
        ls="none",
        zorder=4,
        clip_on=False,
    )


def aside(axes: Axes, base: Transform, x: float, y: float) -> Transform:
    """`base`, moved by so many points."""
    return base + ScaledTranslation(x / 72, y / 72, axes.figure.dpi_scale_trans)


def nothing(axes: Axes, why: str) -> None:
    """Say on an empty panel why it is empty."""
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set(xticks=[], yticks=[])
    axes.grid(False)


def frame(
    figure: Figure, left: float, right: float, bottom: float, top: float, **gaps: float
) -> None:
    """The margins around the panels, in inches, whatever the figure's size."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        bottom=bottom / height,
        top=1 - top / height,
        **gaps,
    )


def key_below(figure: Figure, entries: Mapping[str, Look], *, line: bool = True) -> None:
    """The key along the lower edge, in as many columns as fit; `key_height` says how high."""
    columns, _ = _key_shape(float(figure.get_figwidth()), list(entries))
    handles = [
        Line2D(
            [],
            [],
            color=look.colour,
            ls=look.dash if line else "none",
            lw=1.8,
            marker=look.marker,
            ms=5.5,
            markeredgecolor="white",
            markeredgewidth=0.7,
        )
        for look in entries.values()
    ]
    # A blank goes first: matplotlib leaves names out that begin with an underscore.
    names = [f" {name}" for name in entries]
    figure.legend(
        handles,
        names,
        loc="lower center",
        ncols=columns,
        handlelength=2.6,
        columnspacing=1.8,
        borderaxespad=0.3,
        borderpad=0.2,
        labelspacing=0.4,
    )


def key_height(width: float, names: Sequence[str]) -> float:
    """Inches that the key needs in a figure of this width."""
    return _key_shape(width, names)[1] * _LINE + 0.1


def _key_shape(width: float, names: Sequence[str]) -> tuple[int, int]:
    """Columns and lines of the key: as few lines as the names allow, filled column by column."""
    for lines in range(1, len(names)):
        parts = [names[start : start + lines] for start in range(0, len(names), lines)]
        if sum(0.078 * max(map(len, part)) + 0.85 for part in parts) <= width:
            return len(parts), lines
    return 1, len(names)
