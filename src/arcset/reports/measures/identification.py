"""Who is it, if anyone: the CMC of enrolled subjects, and both errors with unknown ones."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arcset.evaluation.identification import Identification
from arcset.reports.measures.look import (
    Look,
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

__all__ = ["identification_picture"]

_LONG = 20  # ranks beyond which their axis is logarithmic
_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@styled
def identification_picture(
    results: Mapping[str, Identification], *, among: Sequence[str] = ()
) -> Figure:
    """The share of probes whose own subject is among the first ranks, and FNIR over FPIR.

    The ranks and rates asked for are marked, with their 95 % intervals as bars where there are
    such. A line above says what the gallery holds. `among`: all models, where colours must agree
    with other pictures.
    """
    models = looks(results, among)
    galleries = {label: _gallery(result) for label, result in results.items()}
    alike = len(set(galleries.values())) == 1
    entries = {
        plain(label) if alike else f"{plain(label)}: {galleries[label]}": look
        for label, look in models.items()
    }
    key = key_height(9.6, list(entries))
    figure = new_figure(9.6, 4.75 + key)
    left, right = figure.subplots(1, 2)
    _cmc(left, results, models)
    _open_set(right, results, models)
    if alike:
        said = next(iter(galleries.values()))
        figure.text(0.5, 1 - 0.12 / figure.get_figheight(), said, ha="center", va="top", color=GREY)
    key_below(figure, entries)
    frame(figure, 0.85, 0.3, key + 0.6, 0.7 if alike else 0.35, wspace=0.24)
    return figure


def _gallery(result: Identification) -> str:
    return (
        f"gallery: {result.subjects:,} subjects, {result.samples:,} samples; "
        f"probes: {result.mated:,} of these subjects, {result.unmated:,} of unknown ones"
    )


def _cmc(axes: Axes, results: Mapping[str, Identification], models: Mapping[str, Look]) -> None:
    axes.set_title("CMC: the right subject comes among the first …")
    axes.set_xlabel("rank")
    axes.set_ylabel("probes of enrolled subjects")
    if not any(result.mated for result in results.values()):
        nothing(axes, "needs probes of\nenrolled subjects")
        return
    most = max(max([1, len(result.cmc), *result.rank]) for result in results.values())
    long = most > _LONG
    lowest: list[float] = []
    span = float(np.log10(most)) if long else most
    shifts = beside(len(models), 0.01 * span, 0.04 * span)
    for (label, look), shift in zip(models.items(), shifts, strict=True):
        result = results[label]
        ranks = np.arange(1, len(result.cmc) + 1)
        lowest.extend(result.cmc)
        axes.plot(ranks, result.cmc, color=look.colour, ls=look.dash, lw=1.6)
        for rank, value in result.rank.items():
            interval = interval_of(result, "rank", rank)
            lowest.extend(interval or ())
            bar(axes, rank * 10**shift if long else rank + shift, value, interval, look)
    share_axis(axes, lowest)
    if long:
        axes.set_xscale("log")
        axes.set_xlim(10 ** (-0.05 * span), most * 10 ** (0.02 * span))
        ticks = [rank for rank in _RANKS if rank <= most]
        axes.set_xticks(ticks, [f"{rank:,}" for rank in ticks])
        axes.set_xticks([], minor=True)
    else:
        axes.set(xlim=(0.5, most + 0.5), xticks=range(1, most + 1, 1 if most <= 10 else 2))
    axes.grid(True)


def _open_set(
    axes: Axes, results: Mapping[str, Identification], models: Mapping[str, Look]
) -> None:
    axes.set_title("open set: both errors")
    axes.set_xlabel("unknown probes that are given a name, FPIR")
    axes.set_ylabel("enrolled probes missed or misnamed, FNIR")
    answered = {label: r for label, r in results.items() if r.unmated and r.mated}
    if not answered:
        nothing(axes, "needs probes of enrolled\nand of unknown subjects")
        return
    least = min(1 / result.unmated for result in answered.values())
    decades = -float(np.log10(least))
    lowest: list[float] = []
    shifts = beside(len(models), 0.01 * decades, 0.04 * decades)
    for (label, look), shift in zip(models.items(), shifts, strict=True):
        if label not in answered:
            continue
        result = answered[label]
        fpir, fnir = supported(result.curve.fpir, result.curve.fnir, 1 / result.unmated)
        fpir, fnir = fpir[fnir > 0], fnir[fnir > 0]
        lowest.extend(fnir)
        axes.step(fpir, fnir, where="post", color=look.colour, ls=look.dash, lw=1.6)
        for rate, value in result.dir_at_fpir.items():
            found = interval_of(result, "dir_at_fpir", rate)
            bounds = None if found is None else (max(1 - found.high, 1e-9), 1 - found.low)
            if value < 1:  # an error of 0 has no place on this axis
                bar(axes, rate * 10**shift, 1 - value, bounds, look)
    if not lowest:  # an error of 0 has no place on these axes
        nothing(axes, "no enrolled probe is missed at any\nrate that these probes can show")
        return
    log_ticks(axes, "x", least * 10 ** (-0.03 * decades), 1)
    log_ticks(axes, "y", 0.8 * min([0.5, *lowest]), 1.06)
    axes.grid(True)
