"""Naming from a few examples: accuracy per model."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from arcset.evaluation.few_shot import FewShot
from arcset.reports.measures.look import (
    bar,
    frame,
    from_zero,
    interval_of,
    looks,
    percent_axis,
    plain,
)
from arcset.reports.style import GREY, INK, new_figure, styled
from arcset.text import percent

__all__ = ["few_shot_picture"]


@styled
def few_shot_picture(results: Mapping[str, FewShot], *, among: Sequence[str] = ()) -> Figure:
    """A dot per model with its 95 % interval, the figure beside it, and what guessing reaches.

    `among`: all models, where colours must agree with other pictures.
    """
    models = looks(results, among)
    height = 1.25 + 0.36 * len(models)
    figure = new_figure(9.6, height)
    axes = figure.subplots()
    kinds = {label: f"{r.ways}-way {r.shots}-shot" for label, r in results.items()}
    alike = len(set(kinds.values())) == 1
    reached: list[float] = []
    names = []
    for place, (label, look) in enumerate(models.items()):
        result, interval = results[label], interval_of(results[label], "accuracy")
        reached.extend((result.accuracy, *(interval or ())))
        bar(axes, place, result.accuracy, interval, look, lying=True, size=7)
        axes.text(
            1.02,
            place,
            _said(result.accuracy, interval),
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=9,
        )
        names.append(plain(label, 30) if alike else f"{plain(label, 22)}, {kinds[label]}")
    start = from_zero(reached)
    chances = {1 / result.ways for result in results.values()}
    if len(chances) == 1 and start == 0:
        chance = chances.pop()
        axes.axvline(chance, color=GREY, lw=1, ls=":")
        axes.text(
            chance,
            1.01,
            f"guessing, {percent(round(chance, 3))}",
            color=GREY,
            fontsize=8.5,
            ha="left" if chance < 0.3 else "center",
            va="bottom",
            transform=axes.get_xaxis_transform(),
        )
    axes.set(xlim=(start, 1), ylim=(len(models) - 0.4, -0.6))
    axes.set_yticks(range(len(models)), names, color=INK)
    axes.tick_params(axis="y", length=0)
    percent_axis(axes, "x")
    axes.grid(True, axis="x")
    axes.set_xlabel("accuracy")
    first = next(iter(results.values()))
    title = f"{kinds[next(iter(kinds))]}, {first.episodes:,} episodes" if alike else "few-shot"
    axes.set_title(title, pad=16)
    widest = max(len(name) for name in names)
    frame(figure, 0.3 + 0.068 * widest, 1.65, 0.52, 0.52)
    return figure


def _said(value: float, interval: tuple[float, float] | None) -> str:
    if math.isnan(value):
        return "–"
    text = f"{100 * value:.1f} %"
    if interval is None:
        return text
    return f"{text} [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"
