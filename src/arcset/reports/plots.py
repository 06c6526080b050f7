"""The registry of plots, from which sections of pages derive, and what their drawings share.

A new plot is one entry: a function that draws it, decorated with `plot`.
"""

import logging
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation, Transform

from arcset.errors import InputError
from arcset.evaluation import Assessment, Result
from arcset.reports.page import Section
from arcset.reports.style import GREY, INK, class_colour, class_marker, new_figure, style
from arcset.reports.tables import interval_of

logger = logging.getLogger("arcset")

Floats = npt.NDArray[np.floating[Any]]
Kind = Literal["measures", "thresholds", "differences", "runs"]

DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1.2, 1.2)))


@dataclass(frozen=True)
class Plot:
    """A picture, and what to say under it.

    Fields:
        name: of its section and of its file.
        title: the heading; or a function that makes it of what is shown.
        meaning, misleads: what it means, and when it misleads.
        kind: what it is drawn from: assessments by model (`measures`, `thresholds`), differences
            by comparison, or a sequence of runs.
        draw: draws it; raises `InputError` where there is nothing to show.
            None for a table alone.
        rows: a table below it, its heading first; nothing where there is nothing to list.
        each: if not empty, there is one picture per model or comparison {}, described so.
    """

    name: str
    title: str | Callable[[Any], str]
    meaning: str
    misleads: str
    kind: Kind
    draw: Callable[[Any], Figure] | None = None
    rows: Callable[[Any], Sequence[Sequence[str]]] = lambda _: ()
    each: str = ""


#: Every plot that a page shows, in the order in which they are shown.
PLOTS: list[Plot] = []

Draw = TypeVar("Draw", bound=Callable[..., Figure])


def plot(
    name: str,
    title: str | Callable[[Any], str],
    meaning: str,
    misleads: str,
    *,
    kind: Kind = "measures",
    **more: Any,
) -> Callable[[Draw], Draw]:
    """Decorator: registers a function as a `Plot`, and gives what it draws the common style."""

    def register(draw: Draw) -> Draw:
        drawn: Any = style()(draw)
        PLOTS.append(Plot(name, title, meaning, misleads, kind, drawn, **more))
        return drawn  # type: ignore[no-any-return]

    return register


def plot_sections(kind: Kind, data: Any, without: Container[str] = ()) -> dict[str, Section]:
    """A section for each plot of a kind that has something to show of `data`, by its name."""
    sections = {}
    for entry in PLOTS:
        if entry.kind != kind or entry.name in without:
            continue
        parts = {"": data}
        if entry.each:
            parts = {entry.each.format(label): {label: part} for label, part in data.items()}
        figures = {}
        for description, part in parts.items():
            try:
                if entry.draw:
                    figures[description] = entry.draw(part)
            except InputError as error:
                logger.info("left out %s: %s", description or entry.name, error)
        rows = entry.rows(data) if figures or entry.each or not entry.draw else ()
        if figures or rows:
            title = entry.title if isinstance(entry.title, str) else entry.title(data)
            alts = [*figures] if entry.each else []  # otherwise a picture is called as its section
            texts = (entry.meaning, entry.misleads)
            sections[entry.name] = Section(title, [*figures.values()], *texts, rows, alts)
    return sections


# What plots share


@dataclass(frozen=True)
class Look:
    """A model's colour, line and mark, the same in every plot; `side` sets marks side by side."""

    colour: str
    dash: Any
    marker: str
    side: float = 0.0

    @property
    def line(self) -> dict[str, Any]:
        return {"color": self.colour, "ls": self.dash, "lw": 1.6}

    @property
    def mark(self) -> dict[str, Any]:
        edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.7}
        return {"color": self.colour, "marker": self.marker, "ms": 5.5, **edge}


def looks(labels: Iterable[str], among: Iterable[str] = ()) -> dict[str, Look]:
    """A look for every model by its place `among` all; from the eleventh on colours come again."""
    drawn = list(labels)
    numbers = {label: number for number, label in enumerate(dict.fromkeys([*among, *drawn]))}
    step = min(1.0, 7 / max(len(drawn) - 1, 1))
    return {
        label: Look(
            class_colour(numbers[label]),
            DASHES[numbers[label] % len(DASHES)],
            class_marker(numbers[label]),
            (number - (len(drawn) - 1) / 2) * step,
        )
        for number, label in enumerate(drawn)
    }


def models_having(assessments: Mapping[str, Assessment], part: str) -> list[tuple[str, Any, Look]]:
    """The models that have a part: label, the part, and the model's look."""
    parts = {
        label: value
        for label, assessment in assessments.items()
        if (value := getattr(assessment, part)) is not None
    }
    if not parts:
        raise InputError(f"no model has {part}")
    models = looks(parts, assessments)
    return [(label, value, models[label]) for label, value in parts.items()]


def plain(label: str, longest: int = 44) -> str:
    """A name in one line, cut in its middle if long.

    >>> plain("cost\\n in $", 30), plain("runs/digits/arcface", 12)
    ('cost in $', 'runs…arcface')
    """
    text = " ".join(label.split())
    if len(text) > longest:
        head = (longest - 1) * 2 // 5
        text = f"{text[:head]}…{text[-(longest - 1 - head) :]}"
    return text


def plot_figure(height: float, width: float = 9.6) -> Figure:
    """A figure that makes room for whatever stands beside its axes."""
    figure = new_figure(width, height)
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.08, wspace=0.03)
    return figure


def add_key(figure: Figure, entries: Mapping[str, Look]) -> None:
    """The key below the axes, in as few lines as hold it; the figure grows by its height."""
    handles = [Line2D([], [], **{**look.line, **look.mark, "lw": 1.8}) for look in entries.values()]
    # A blank goes first: matplotlib leaves names out that begin with an underscore.
    names = [f" {name}" for name in entries]
    for columns in range(min(len(names), 8), 0, -1):
        legend = figure.legend(
            handles, names, loc="outside lower center", ncols=columns, columnspacing=1.8
        )
        if columns == 1 or legend.get_window_extent().width < 0.98 * figure.bbox.width:
            break
        legend.remove()
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + legend.get_window_extent().height / figure.dpi)


def aside(axes: Axes, right: float, up: float = 0.0, base: Transform | None = None) -> Transform:
    """The transform of the data, or `base`, moved by so many points."""
    moved = ScaledTranslation(right / 72, up / 72, axes.figure.dpi_scale_trans)
    return (base or axes.transData) + moved


def draw_mark(
    axes: Axes,
    x: float,
    y: float,
    interval: tuple[float, float] | None,
    look: Look,
    *,
    step: float = 0.0,
    lying: bool = False,
    **style: Any,
) -> None:
    """A mark at (x, y) with its interval as a bar; nothing where y is not defined.

    step: points between the marks of two models. lying: x and y exchanged.
    The interval is drawn as it is: that of a skewed measure need not hold the value itself.
    """
    if not math.isfinite(y):
        return
    common = {"transform": aside(axes, look.side * step), "color": look.colour}
    for xs, ys, drawn in (
        ([x, x], interval, {"lw": 1.4, "zorder": 3}),
        ([x], [y], {**look.mark, "zorder": 4, "clip_on": False, **style}),
    ):
        if ys is not None:
            axes.add_artist(Line2D(*((ys, xs) if lying else (xs, ys)), **{**common, **drawn}))


def draw_marks(
    axes: Axes,
    result: Result,
    name: str,
    look: Look,
    *,
    step: float = 2.0,
    errors: bool = False,
    position: Callable[[float], float] = float,
    **style: Any,
) -> list[float]:
    """Marks of a measure at all its rates, ranks or numbers; gives how far all of it reaches.

    errors: draws 1 − value, on an axis that neither 0 nor 1 is on.
    """
    reached: list[float] = []
    for at, value in getattr(result, name).items():
        interval: tuple[float, float] | None = interval_of(result, name, at)
        if errors:
            if not 0 < value < 1:
                continue
            value = 1 - value
            if interval:
                interval = (max(1 - interval[1], 1e-12), min(1 - interval[0], 1 - 1e-12))
        reached += (value, *(interval or ()))
        draw_mark(axes, position(at), value, interval, look, step=step, **style)
    return reached


@dataclass(frozen=True)
class ForestRow:
    """A line of a forest plot: a name, a mark with its interval, and what it comes to in words."""

    name: str
    value: float
    interval: tuple[float, float] | None
    look: Look
    text: str
    colour: str  # of the text


def draw_forest(axes: Axes, rows: Sequence[ForestRow], **style: Any) -> None:
    """One row below the other: its name at the left, its text at the right."""
    right = axes.get_yaxis_transform()
    for number, row in enumerate(rows):
        draw_mark(axes, number, row.value, row.interval, row.look, lying=True, **style)
        font: dict[str, Any] = {"va": "center", "fontsize": 9, "color": row.colour}
        axes.text(1.03, number, row.text, transform=right, **font)
    axes.set_yticks(range(len(rows)), [row.name for row in rows], color=INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")


def percent_axis(axes: Axes, which: str) -> None:
    """Ticks as percent on the x or y axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(lambda value, _: f"{100 * value:.6g} %")


def log_axis(axes: Axes, which: str, low: float, high: float) -> None:
    """A logarithmic axis of shares; below two decades with ticks between the powers of ten."""
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    axis = axes.xaxis if which == "x" else axes.yaxis
    between = (1.0, 2.0, 5.0) if high / low < 100 else (1.0,)
    axis.set_major_locator(LogLocator(subs=between, numticks=8))
    axis.set_minor_locator(NullLocator())
    percent_axis(axes, which)


def lowest_share(values: Iterable[float]) -> float:
    """Where an axis of shares that ends at 1 begins: 0, or higher if all of it is near 1.

    >>> lowest_share([0.4, 0.9]), round(lowest_share([0.98, math.nan]), 2), lowest_share([1.0])
    (0.0, 0.97, 0.9)
    """
    low = min((value for value in values if math.isfinite(value)), default=0.0)
    return 0.0 if low < 0.55 else 0.9 if low >= 1 else max(0.0, 1 - 1.5 * max(1 - low, 1e-3))


def share_axis(axes: Axes, values: Iterable[float]) -> None:
    """The y axis of shares, up to 1."""
    start = lowest_share(values)
    axes.set_ylim(start, 1 + 0.02 * (1 - start))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    percent_axis(axes, "y")


def say_nothing(axes: Axes, why: str) -> None:
    """Say on an empty panel why it is empty."""
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set(xticks=[], yticks=[])


def draw_angle_histogram(
    axes: Axes, own: Floats, other: Floats, bins: Floats, *, filled: str, outline: str
) -> None:
    """Angles (N,) in degrees to the own class, filled, and to the nearest other, outlined.

    In percent of the samples; NaN are left out.
    """
    outlined: dict[str, Any] = {"color": outline, "histtype": "step", "lw": 1.4}
    for angles, drawn in ((own, {"color": filled, "alpha": 0.75}), (other, outlined)):
        angles = angles[np.isfinite(angles)]
        axes.hist(
            angles, bins.tolist(), weights=np.full(angles.shape, 100 / max(len(angles), 1)), **drawn
        )
    axes.set_xlim(bins[0], bins[-1])
    axes.grid(True)
    axes.set_axisbelow(True)
