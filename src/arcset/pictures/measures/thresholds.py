"""Which threshold: over the number of subjects enrolled, for each rate of false names."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from matplotlib.figure import Figure

from arcset.errors import InputError, OptionError
from arcset.pictures.measures.look import frame, percent, plain
from arcset.pictures.theme import GREY, PALETTE, new_figure, styled

__all__ = ["threshold_picture"]

_RATES = (0.1, 0.01, 0.001)
_SIZES = tuple(int(size) for size in np.unique(np.geomspace(1, 100_000, 16).round()))


class _Found(Protocol):
    @property
    def threshold(self) -> float: ...

    @property
    def extrapolated(self) -> bool: ...


class _Finder(Protocol):
    def for_fpir(self, fpir: float, gallery: int) -> _Found: ...


@styled
def threshold_picture(
    thresholds: _Finder,
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
    sizes = sorted(set(galleries))
    figure = new_figure(9.6, 4.7)
    axes = figure.subplots()
    left_out = []
    measured, largest = 0, 10
    for number, rate in enumerate(rates):
        points = _points(thresholds, rate, sizes)
        if not points:
            left_out.append(rate)
            continue
        inside = [(size, cosine) for size, cosine, beyond in points if not beyond]
        outside = [(size, cosine) for size, cosine, beyond in points if beyond]
        measured = max([measured, *(size for size, _ in inside)])
        largest = max(largest, points[-1][0])
        colour = PALETTE[number % len(PALETTE)]
        axes.plot(*_columns(inside), color=colour, lw=2)
        axes.plot(*_columns(inside[-1:] + outside), color=colour, lw=1.6, ls=(0, (4, 2)))
        size, cosine, _ = points[-1]
        axes.annotate(
            f"FPIR {percent(rate)}",
            (size, cosine),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
            annotation_clip=False,
        )
    if not axes.lines:
        raise OptionError("the validation identities support none of the rates: nothing to draw")
    if 0 < measured < largest:
        axes.axvline(measured, color=GREY, lw=0.9, ls=":")
        axes.text(
            measured, 1.01, "extrapolated →", color=GREY, fontsize=8.5, va="bottom",
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    if left_out:
        said = ", ".join(percent(rate) for rate in left_out)
        axes.text(
            0.98, 0.03, f"too few identities for FPIR {said}", transform=axes.transAxes, ha="right",
            color=GREY, fontsize=8.5,
        )  # fmt: skip
    axes.set(xscale="log", xlim=(sizes[0], largest))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("subjects in the gallery")
    axes.set_ylabel("least cosine of a match")
    axes.set_title(plain(title), loc="left")
    axes.grid(True)
    frame(figure, 0.85, 1.15, 0.55, 0.4)
    return figure


def _points(
    thresholds: _Finder, rate: float, sizes: Sequence[int]
) -> list[tuple[int, float, bool]]:
    """Size, threshold, and whether it is extrapolated, for all sizes that can be answered."""
    found = []
    for size in sizes:
        try:
            answer = thresholds.for_fpir(rate, size)
        except InputError:  # more than they support, and larger galleries ask for more
            break
        found.append((size, float(answer.threshold), bool(answer.extrapolated)))
    return found


def _columns(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [size for size, _ in points], [cosine for _, cosine in points]
