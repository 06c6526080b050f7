"""Two models compared: what is gained in each measure, with its interval."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arcset.errors import OptionError
from arcset.evaluation.bootstrap import Difference
from arcset.evaluation.measures import short_name
from arcset.reports.measures.look import plain
from arcset.reports.style import GREY, INK, PALETTE, new_figure, styled

__all__ = ["difference_picture"]

BETTER, WORSE = PALETTE[0], PALETTE[5]
_ROW, _HEAD, _FOOT = 0.27, 0.42, 0.5  # inches: a measure, a panel's title, its axis
_WIDTH, _NAMES, _FIGURES = 9.6, 2.1, 1.9  # inches: all, the names at the left, the right column


@styled
def difference_picture(differences: Mapping[str, Sequence[Difference]]) -> Figure:
    """A forest plot: gains with their 95 % intervals about the line of no difference.

    differences: by comparison, such as "arcface against softmax"; a gain is positive where the
        first is better. Those whose interval leaves out 0 are coloured; where identities are too
        few for one, there is none. Angles, which are in degrees, have an axis of their own.
    """
    panels = []
    for label, found in differences.items():
        for degrees in (False, True):
            rows = [item for item in found if item.degrees == degrees]
            if rows:
                panels.append((label, degrees, rows))
    if not panels:
        raise OptionError("there is no difference to draw")
    heights = [_HEAD + _FOOT + _ROW * len(rows) for _, _, rows in panels]
    total = sum(heights)
    figure = new_figure(_WIDTH, total)
    limits = {
        degrees: _limits([item for _, kind, rows in panels if kind == degrees for item in rows])
        for degrees in (False, True)
    }
    top = total
    for (label, degrees, rows), height in zip(panels, heights, strict=True):
        place = (
            _NAMES / _WIDTH,
            (top - height + _FOOT) / total,
            1 - (_NAMES + _FIGURES) / _WIDTH,
            _ROW * len(rows) / total,
        )
        axes = figure.add_axes(place)
        _panel(axes, rows, limits[degrees], degrees)
        title = f"{plain(label, 60)}: angles" if degrees else plain(label, 60)
        axes.set_title(title, fontsize=10.5, loc="left", pad=6)
        top -= height
    return figure


def _limits(rows: Sequence[Difference]) -> tuple[float, float]:
    """From where to where an axis goes that holds all intervals, and both sides of 0."""
    ends = [end for item in rows for end in (item.gain, *item.interval) if math.isfinite(end)]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    room = (high - low) * 0.06 or 0.01
    return min(low - room, -2 * room), max(high + room, 2 * room)


def _signed(value: float) -> str:
    """With a sign and one decimal.

    >>> _signed(-1.25), _signed(0.3), _signed(-0.01)
    ('−1.2', '+0.3', '0.0')
    """
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _panel(
    axes: Axes, rows: Sequence[Difference], limits: tuple[float, float], degrees: bool
) -> None:
    factor, unit = (1, "degrees") if degrees else (100, "points")
    axes.axvline(0, color=GREY, lw=1)
    for place, item in enumerate(rows):
        colour = GREY if not item.shown else BETTER if item.gain > 0 else WORSE
        text = "not defined here"
        if math.isfinite(item.gain):
            axes.plot(
                factor * item.gain,
                place,
                marker="o",
                ms=6.5 if item.shown else 5.5,
                color=colour,
                markeredgecolor="white",
                markeredgewidth=0.8,
                zorder=4,
                clip_on=False,
            )
            text = f"{_signed(factor * item.gain)} (too few to tell)"
        if all(math.isfinite(value) for value in (item.gain, *item.interval)):
            low, high = (factor * end for end in item.interval)
            axes.hlines(place, low, high, color=colour, lw=2.2 if item.shown else 1.4, zorder=3)
            text = f"{_signed(factor * item.gain)} [{_signed(low)}, {_signed(high)}]"
        axes.text(
            1.03,
            place,
            text,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=9,
            color=INK if item.shown else GREY,
            clip_on=False,
        )
    axes.set(xlim=(factor * limits[0], factor * limits[1]), ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), [short_name(item.name) for item in rows], color=INK)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)
    axes.set_xlabel(f"gain in {unit}; right of 0 the first is better", color=GREY, fontsize=9)
