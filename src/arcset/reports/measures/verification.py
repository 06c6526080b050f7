"""Same or different: ROC and DET side by side."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtri

from arcset.evaluation import Verification
from arcset.reports.measures.look import (
    Look,
    aside,
    bar,
    beside,
    frame,
    interval_of,
    key_below,
    key_height,
    log_ticks,
    looks,
    nothing,
    plain,
    share_axis,
    supported,
)
from arcset.reports.style import GREY, new_figure, styled
from arcset.text import percent

__all__ = ["verification_picture"]

_TICKS = (1e-7, 1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999)
_CLOSEST = {"x": 0.13, "y": 0.07}  # ticks on deviate axes, as a share of the axis


@styled
def verification_picture(
    results: Mapping[str, Verification], *, among: Sequence[str] = ()
) -> Figure:
    """TAR over FAR and FRR over FAR, from the least FAR that the pairs can show.

    The rates asked for are marked, with their 95 % intervals as bars where there are such; EER is
    marked where FAR = FRR. `among`: all models, where colours must agree with other pictures.
    """
    models = looks(results, among)
    entries = {
        f"{plain(label)}: AUC {results[label].auc:.4f}, EER {100 * results[label].eer:.2f} %": look
        for label, look in models.items()
    }
    key = key_height(9.6, list(entries))
    figure = new_figure(9.6, 4.6 + key)
    left, right = figure.subplots(1, 2)
    _roc(left, results, models)
    _det(right, results, models)
    key_below(figure, entries)
    frame(figure, 0.85, 0.3, key + 0.58, 0.35, wspace=0.24)
    return figure


def _roc(axes: Axes, results: Mapping[str, Verification], models: Mapping[str, Look]) -> None:
    least = min(1 / result.impostor for result in results.values())
    decades = -math.log10(least)
    lowest: list[float] = []
    shifts = beside(len(models), 0.01 * decades, 0.04 * decades)
    for (label, look), shift in zip(models.items(), shifts, strict=True):
        result = results[label]
        far, tar = supported(result.curve.far, result.curve.tar, 1 / result.impostor)
        lowest.extend(tar)
        axes.step(far, tar, where="post", color=look.colour, ls=look.dash, lw=1.6)
        for rate, value in result.tar_at_far.items():
            interval = interval_of(result, "tar_at_far", rate)
            lowest.extend(interval or ())
            bar(axes, rate * 10**shift, value, interval, look)
    guess = np.logspace(-decades, 0, 200)
    axes.plot(guess, guess, color=GREY, lw=1, ls=":")
    log_ticks(axes, "x", least * 10 ** (-0.03 * decades), 1)
    share_axis(axes, lowest)
    axes.set_title("ROC: accepted pairs")
    axes.set_xlabel("different pairs accepted, FAR")
    axes.set_ylabel("same pairs accepted, TAR")
    axes.grid(True)


def _det(axes: Axes, results: Mapping[str, Verification], models: Mapping[str, Look]) -> None:
    least_far = min(1 / result.impostor for result in results.values())
    least_frr = min(1 / result.genuine for result in results.values())
    most_far = 0.5 if all(result.eer < 0.3 for result in results.values()) else 0.99
    most_frr = most_far
    drawn = 0
    span = float(ndtri(most_far) - ndtri(least_far))
    shifts = beside(len(models), 0.01 * span, 0.04 * span)
    apart = beside(len(models), 2.4, 10)
    for (label, look), shift, points in zip(models.items(), shifts, apart, strict=True):
        result = results[label]
        far, tar = supported(result.curve.far, result.curve.tar, 1 / result.impostor)
        inside = (far < 1) & (tar > 0) & (tar < 1)
        drawn += int(inside.sum())
        most_frr = min(max([most_frr, *(1 - tar[inside])]), 0.995)
        axes.step(
            ndtri(far[inside]),
            ndtri(1 - tar[inside]),
            where="post",
            color=look.colour,
            ls=look.dash,
            lw=1.6,
        )
        for rate, value in result.tar_at_far.items():
            if not 0 < rate < 1 or not 0 < value < 1:  # errors of 0 and 1 have no place here
                continue
            found = interval_of(result, "tar_at_far", rate)
            bounds = None if found is None else _deviates(1 - found.high, 1 - found.low)
            _bar_within(axes, float(ndtri(rate)) + shift, float(ndtri(1 - value)), bounds, look)
        _equal_error(axes, result, look, points)
    if not drawn and not any(0 < result.eer < 1 for result in results.values()):
        nothing(axes, "no errors at any rate\nthat these pairs can show")
    else:
        _deviate_axes(axes, (least_far, most_far), (least_frr, most_frr))
    axes.set_title("DET: both errors; ★ where they are equal")
    axes.set_xlabel("different pairs accepted, FAR")
    axes.set_ylabel("same pairs rejected, FRR")


def _bar_within(
    axes: Axes, x: float, y: float, bounds: tuple[float, float] | None, look: Look
) -> None:
    bar(axes, x, y, bounds, look)
    axes.lines[-1].set_clip_on(True)  # a point beyond the axes is not drawn outside of them


def _equal_error(axes: Axes, result: Verification, look: Look, points: float) -> None:
    """EER on the diagonal, its interval along it, set aside by so many points."""
    if not 0 < result.eer < 1:
        return
    found = interval_of(result, "eer")
    if found is not None:
        ends = _deviates(*found)
        moved = aside(axes, axes.transData, points, -points)
        axes.plot(ends, ends, color=look.colour, lw=2.2, alpha=0.8, transform=moved, zorder=3)
    place = float(ndtri(result.eer))
    axes.plot(
        place,
        place,
        marker="*",
        ms=10,
        color=look.colour,
        markeredgecolor="white",
        markeredgewidth=0.7,
        ls="none",
        zorder=5,
    )


def _deviate_axes(axes: Axes, x: tuple[float, float], y: tuple[float, float]) -> None:
    for which, axis, limits in (("x", axes.xaxis, x), ("y", axes.yaxis, y)):
        low, high = _deviates(min(limits[0], 0.2), limits[1])
        axes.set(**{f"{which}lim": (low, high)})
        shown: list[float] = []
        for tick in reversed(_TICKS):
            place = float(ndtri(tick))
            last = float(ndtri(shown[-1])) if shown else math.inf
            if low <= place <= high and last - place >= _CLOSEST[which] * (high - low):
                shown.append(tick)
        axis.set_ticks([float(ndtri(tick)) for tick in shown], [percent(tick) for tick in shown])
    ends = np.array([-9.0, 9.0])
    axes.plot(ends, ends, color=GREY, lw=0.9, ls=":", zorder=1, scalex=False, scaley=False)
    axes.grid(True)


def _deviates(low: float, high: float) -> tuple[float, float]:
    """Normal deviates of two shares; 0 and 1 come to lie just outside of any axis."""
    found = ndtri(np.clip([low, high], 1e-12, 1 - 1e-12))
    return float(found[0]), float(found[1])
