"""Which threshold: over the number of subjects enrolled, for each rate of false names."""

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arcset.errors import InputError, OptionError
from arcset.evaluation.calibration.thresholds import Thresholds
from arcset.reports.measures.look import frame, plain
from arcset.reports.style import GREY, PALETTE, new_figure, styled
from arcset.text import percent

__all__ = ["threshold_picture"]

_RATES = (0.1, 0.01, 0.001)
_SIZES = tuple(int(size) for size in np.unique(np.geomspace(1, 1_000_000, 37).round()))

Points = list[tuple[int, float]]


@styled
def threshold_picture(
    thresholds: Thresholds,
    *,
    title: str = "",
    rates: Iterable[float] = _RATES,
    galleries: Iterable[int] = _SIZES,
) -> Figure:
    """The threshold that keeps FPIR at each of the `rates`, over the size of the gallery.

    Solid where the validation identities measure it, dashed where it is extrapolated. A rate that
    they cannot support at any size is said to be so below the curves. Raises `OptionError` where
    that is every rate.
    """
    made = thresholds.made_from
    border = made["identities"] - 1  # the largest gallery that leaves a probe's own identity out
    sizes = sorted({*galleries, border})
    figure = new_figure(9.6, 4.7)
    axes = figure.subplots()
    left_out, largest = [], 10
    for number, rate in enumerate(rates):
        inside, outside = _points(thresholds, rate, sizes)
        if not inside and not outside:
            left_out.append(rate)
            continue
        largest = max(largest, (inside + outside)[-1][0])
        _curve(axes, inside, outside, f"FPIR {percent(rate)}", PALETTE[number % len(PALETTE)])
    if not axes.lines:
        raise OptionError("the validation identities support none of the rates: nothing to draw")
    if border < largest:
        axes.axvline(border, color=GREY, lw=0.9, ls=":")
        axes.text(
            border,
            0.02,
            " extrapolated →",
            transform=axes.get_xaxis_transform(),
            color=GREY,
            fontsize=8.5,
        )
    if left_out:
        said = ", ".join(percent(rate) for rate in left_out)
        said = f"too few identities for FPIR {said}"
        axes.text(0.985, 0.08, said, transform=axes.transAxes, ha="right", color=GREY, fontsize=8.5)
    axes.set(xscale="log", xlim=(sizes[0], largest))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("subjects in the gallery")
    axes.set_ylabel("least cosine of a match")
    axes.set_title(plain(title), loc="left")
    said = f"from {made['identities']:,} validation identities, {made['samples']:,} samples"
    axes.set_title(said, loc="right", fontsize=9, color=GREY)
    axes.grid(True)
    frame(figure, 0.85, 1.15, 0.55, 0.4)
    return figure


def _curve(axes: Axes, inside: Points, outside: Points, name: str, colour: str) -> None:
    """What is measured, and dashed what is not, with the name at its end."""
    axes.plot(*_columns(inside), color=colour, lw=2)
    axes.plot(*_columns(inside[-1:] + outside), color=colour, lw=1.6, ls=(0, (4, 2)))
    axes.annotate(
        name,
        (inside + outside)[-1],
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        color=colour,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
        annotation_clip=False,
    )


def _points(thresholds: Thresholds, rate: float, sizes: Sequence[int]) -> tuple[Points, Points]:
    """Sizes and thresholds: measured and extrapolated ones, as far as they can be told."""
    found: tuple[Points, Points] = ([], [])
    for size in sizes:
        try:
            answer = thresholds.for_fpir(rate, size)
        except InputError:  # of small galleries too lax to be told, of large ones too strict
            continue
        found[answer.extrapolated].append((size, answer.threshold))
    return found


def _columns(points: Points) -> tuple[list[int], list[float]]:
    return [size for size, _ in points], [cosine for _, cosine in points]
