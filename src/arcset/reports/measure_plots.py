"""Plots of measures: of assessments by model, of thresholds, and of two models compared."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, LogLocator, NullLocator
from scipy.special import ndtr, ndtri

from arcset.errors import InputError
from arcset.evaluation import Assessment, Difference, Result, Thresholds, Verification
from arcset.evaluation.calibration.thresholds import FRESH
from arcset.evaluation.geometry.angles import PAPER
from arcset.evaluation.measures import MEASURES, short_name
from arcset.reports.plots import (
    PLOTS,
    Floats,
    ForestRow,
    Look,
    Plot,
    add_key,
    aside,
    draw_angle_histogram,
    draw_forest,
    draw_mark,
    draw_marks,
    log_axis,
    lowest_share,
    models_having,
    percent_axis,
    plain,
    plot,
    plot_figure,
    say_nothing,
    share_axis,
)
from arcset.reports.plots import (
    plot_sections as plot_sections,  # from here, so that all plots of measures are known
)
from arcset.reports.style import GREY, INK, PALE, PALETTE
from arcset.reports.tables import Rows, interval_of, realized_rows, threshold_rows
from arcset.text import percent

Assessments = Mapping[str, Assessment]

_LONG = 20  # ranks beyond which their axis is logarithmic


# Same or different


@plot(
    "verification",
    "Same or different?",
    "Left, how many same pairs a threshold accepts over how many different pairs it accepts by "
    "mistake; guessing is dotted. Right, both errors on axes on which normally distributed "
    "cosines make straight lines; lower is better, and stars mark the EER. Marks are the rates "
    "asked for, bars their 95 % intervals, drawn side by side.",
    "The left end rests on the few most similar different pairs, often of a few identities. "
    "And AUC and EER are ruled by pairs no use cares about: with 1,000 subjects enrolled, a "
    "FAR of 0.1 % is a false match for every query.",
)
def verification_plot(assessments: Assessments) -> Figure:
    """ROC and DET, from the least FAR that the pairs can show."""
    models = models_having(assessments, "verification")
    figure = plot_figure(4.6)
    left, right = figure.subplots(1, 2)
    draw_roc(left, models)
    left.set(title="ROC: accepted pairs", ylabel="same pairs accepted, TAR")
    left.set_xlabel("different pairs accepted, FAR")
    _draw_det(right, models)
    names = (
        f"{plain(label)}: AUC {result.auc:.4f}, EER {percent(result.eer, 2)}"
        for label, result, _ in models
    )
    add_key(figure, dict(zip(names, (look for *_, look in models), strict=True)))
    return figure


def draw_roc(axes: Axes, models: Sequence[tuple[str, Verification, Look]]) -> None:
    """TAR over FAR of several models, with marks at the rates asked for."""
    least = min(1 / result.impostor for _, result, _ in models)
    log_axis(axes, "x", least**1.03, 1)
    lowest: list[float] = []
    for _, result, look in models:
        visible = result.curve[result.curve.far > 0]
        axes.step(visible.far, visible.tar, where="post", **look.line)
        lowest += [*visible.tar, *draw_marks(axes, result, "tar_at_far", look)]
    guess = np.geomspace(least, 1, 200)
    axes.plot(guess, guess, color=GREY, lw=1, ls=":")
    share_axis(axes, lowest)
    axes.grid(True)


def _draw_det(axes: Axes, models: Sequence[tuple[str, Verification, Look]]) -> None:
    most = 0.5 if all(result.eer < 0.3 for _, result, _ in models) else 0.99
    drawn, highest = 0, most
    axes.set(title="DET: both errors; ★ where they are equal", xlim=(0.1, most), ylim=(0.1, most))
    axes.set(xlabel="different pairs accepted, FAR", ylabel="same pairs rejected, FRR")
    axes.set_xscale("function", functions=(ndtri, ndtr))
    axes.set_yscale("function", functions=(ndtri, ndtr))
    for _, result, look in models:
        far, frr = result.curve.far, 1 - result.curve.tar
        inside = (far > 0) & (far < 1) & (frr > 0) & (frr < 1)
        drawn += int(inside.sum())
        highest = min(max([highest, *frr[inside]]), 0.995)
        axes.step(far[inside], frr[inside], where="post", **look.line)
        draw_marks(axes, result, "tar_at_far", look, errors=True, clip_on=True)
        _draw_equal_error(axes, result, look)
    if not drawn and not any(0 < result.eer < 1 for _, result, _ in models):
        axes.set(xscale="linear", yscale="linear")
        say_nothing(axes, "no errors at any rate\nthat these pairs can show")
        return
    _probit_axis(axes, "x", min(1 / result.impostor for _, result, _ in models), most)
    _probit_axis(axes, "y", min(1 / result.genuine for _, result, _ in models), highest)
    ends = (1e-12, 1 - 1e-12)
    axes.add_artist(Line2D(ends, ends, color=GREY, lw=0.9, ls=":", zorder=1))
    axes.grid(True)


def _draw_equal_error(axes: Axes, result: Verification, look: Look) -> None:
    """A star on the diagonal, and its interval along it, set aside."""
    if not 0 < result.eer < 1:
        return
    moved = aside(axes, look.side * 2.4, look.side * -2.4)
    if interval := interval_of(result, "eer"):
        ends = np.clip(interval, 1e-12, 1 - 1e-12)
        bar = Line2D(ends, ends, color=look.colour, lw=2.2, alpha=0.8, zorder=3, transform=moved)
        axes.add_artist(bar)
    star = {**look.mark, "marker": "*", "ms": 10, "ls": "none", "zorder": 5}
    axes.plot(result.eer, result.eer, **star)


def _probit_axis(axes: Axes, which: str, low: float, high: float) -> None:
    """Limits and ticks in shares; labels keep their distance."""
    low = min(low, 0.2)
    start, end = ndtri([low, high])
    closest = (0.13 if which == "x" else 0.07) * (end - start)
    chosen: list[float] = []
    for tick in (0.999, 0.99, 0.95, 0.8, 0.5, 0.2, 0.05, 0.01, *(10.0**-n for n in range(3, 8))):
        far_enough = not chosen or ndtri(chosen[-1]) - ndtri(tick) >= closest
        if low <= tick <= high and far_enough:
            chosen.append(tick)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(chosen, [percent(tick) for tick in chosen])
    axes.set(**{f"{which}lim": (low, high)})


# Who is it, if anyone


@plot(
    "identification",
    "Who is it, if anyone?",
    "Left, probes of enrolled subjects: how often their own is among the first ranks. Right, "
    "with probes of unknown subjects too: how many of those are given a name over how many "
    "enrolled ones are missed or misnamed; nearer to the lower left is better.",
    "It holds for a gallery of this size only: with more subjects there are more chances to "
    "be wrong. And the left side alone hides the unknown: who never says unknown can have "
    "100 % at rank 1 and give every stranger a name.",
)
def identification_plot(assessments: Assessments) -> Figure:
    """CMC, and FNIR over FPIR."""
    models = models_having(assessments, "identification")
    galleries = [
        f"gallery: {r.subjects:,} subjects, {r.samples:,} samples; "
        f"probes: {r.mated:,} of these subjects, {r.unmated:,} of unknown ones"
        for _, r, _ in models
    ]
    figure = plot_figure(4.75)
    left, right = figure.subplots(1, 2)
    _draw_cmc(left, models)
    _draw_open_set(right, models)
    entries = {plain(label): look for label, _, look in models}
    if len(set(galleries)) == 1:
        figure.suptitle(galleries[0], color=GREY, fontsize=10)
    else:
        names = (f"{name}: {gallery}" for name, gallery in zip(entries, galleries, strict=True))
        entries = dict(zip(names, entries.values(), strict=True))
    add_key(figure, entries)
    return figure


def _draw_cmc(axes: Axes, models: Sequence[tuple[str, Any, Look]]) -> None:
    title = "CMC: the right subject comes among the first …"
    axes.set(title=title, xlabel="rank", ylabel="probes of enrolled subjects")
    if not any(result.mated for _, result, _ in models):
        say_nothing(axes, "needs probes of\nenrolled subjects")
        return
    most = max(max(1, len(result.cmc), *result.rank) for _, result, _ in models)
    if most > _LONG:
        axes.set(xscale="log", xlim=(most**-0.05, most**1.02))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:,.0f}")
    else:
        axes.set(xlim=(0.5, most + 0.5), xticks=range(1, most + 1, 1 if most <= 10 else 2))
    lowest: list[float] = []
    for _, result, look in models:
        axes.plot(np.arange(1, len(result.cmc) + 1), result.cmc, **look.line)
        lowest += [*result.cmc, *draw_marks(axes, result, "rank", look)]
    share_axis(axes, lowest)
    axes.grid(True)


def _draw_open_set(axes: Axes, models: Sequence[tuple[str, Any, Look]]) -> None:
    x, y = "unknown probes that are given a name, FPIR", "enrolled probes missed or misnamed, FNIR"
    axes.set(title="open set: both errors", xlabel=x, ylabel=y)
    answered = [model for model in models if model[1].unmated and model[1].mated]
    if not answered:
        say_nothing(axes, "needs probes of enrolled\nand of unknown subjects")
        return
    curves = [(r.curve.fpir, r.curve.fnir) for _, r, _ in answered]
    curves = [(x[(x > 0) & (y > 0)], y[(x > 0) & (y > 0)]) for x, y in curves]
    lowest = [float(fnir.min(initial=1.0)) for _, fnir in curves]
    if not any(len(fnir) for _, fnir in curves):
        say_nothing(axes, "no enrolled probe is missed at any\nrate that these probes can show")
        return
    log_axis(axes, "x", min(1 / r.unmated for _, r, _ in answered) ** 1.03, 1)
    log_axis(axes, "y", 0.8 * min([0.5, *lowest]), 1.06)
    for (fpir, fnir), (_, result, look) in zip(curves, answered, strict=True):
        axes.step(fpir, fnir, where="post", **look.line)
        draw_marks(axes, result, "dir_at_fpir", look, errors=True)
    axes.grid(True)


# Search by example


@plot(
    "retrieval",
    "Search by example",
    "Each sample searches all others. Recall: how often one of its class is among the k "
    "nearest. Precision: how many of the k nearest are. MAP@R and R-precision look at as many "
    "as the class has.",
    "Queries of large classes are easier and more, so a few large classes can decide. Where a "
    "class has fewer than k others, precision@k cannot reach 100 %.",
)
def retrieval_plot(assessments: Assessments) -> Figure:
    """Recall@k, precision@k, MAP@R and R-precision."""
    models = models_having(assessments, "retrieval")
    figure = plot_figure(4.2)
    panels = figure.subplots(1, 3, width_ratios=(1.25, 1.25, 1))
    for axes, name in zip(panels, ("recall_at", "precision_at"), strict=False):
        _draw_by_count(axes, name, models)
    whole, names = panels[2], ("map_at_r", "r_precision")
    lowest = []
    for number, name in enumerate(names):
        for _, result, look in models:
            value, interval = getattr(result, name), interval_of(result, name)
            lowest += [value, *(interval or ())]
            draw_mark(whole, number, value, interval, look, step=5)
    share_axis(whole, lowest)
    whole.set_xticks(range(len(names)), [short_name(name) for name in names])
    whole.set_xlim(-0.5, len(names) - 0.5)
    panels[0].set(title="recall: one of the first k is right", ylabel="mean over queries")
    panels[1].set_title("precision: share of the first k")
    whole.set_title("over the whole class")
    for axes in panels:
        axes.grid(True, axis="y")
    queries = {
        f"{r.queries:,} queries"
        + (f"; {r.left_out:,} more are alone in their class" if r.left_out else "")
        for _, r, _ in models
    }
    if len(queries) == 1:
        figure.suptitle(queries.pop(), color=GREY, fontsize=10)
    add_key(figure, {plain(label): look for label, _, look in models})
    return figure


def _draw_by_count(axes: Axes, name: str, models: Sequence[tuple[str, Any, Look]]) -> None:
    """One measure over k; the ks stand at even distances."""
    counts = sorted({count for _, result, _ in models for count in getattr(result, name)})
    lowest: list[float] = []
    for _, result, look in models:
        values = getattr(result, name)
        line = Line2D(
            [counts.index(count) for count in values],
            list(values.values()),
            **{**look.line, "lw": 1, "alpha": 0.6, "transform": aside(axes, look.side * 5)},
        )
        axes.add_artist(line)
        lowest += draw_marks(axes, result, name, look, step=5, position=counts.index)
    share_axis(axes, lowest)
    axes.set_xticks(range(len(counts)), [f"{count:g}" for count in counts])
    axes.set(xlim=(-0.5, len(counts) - 0.5), xlabel="k")


# A few examples


@plot(
    "few_shot",
    "Named after a few examples",
    "A few identities are drawn, a few samples of each make a prototype, and further samples "
    "go to the nearest. Every model meets the same draws.",
    "It is easy by design: a gallery of a few, and nobody unknown. A high accuracy here says "
    "little about a gallery of thousands.",
)
def few_shot_plot(assessments: Assessments) -> Figure:
    """A mark per model with its interval, the figures beside it, and what guessing reaches."""
    models = models_having(assessments, "few_shot")
    kinds = [f"{r.ways}-way {r.shots}-shot, {r.episodes:,} episodes" for _, r, _ in models]
    alike = len(set(kinds)) == 1
    rows, reached = [], []
    for (label, result, look), kind in zip(models, kinds, strict=True):
        interval = interval_of(result, "accuracy")
        reached += [result.accuracy, *(interval or ())]
        text = percent(result.accuracy, 1) if math.isfinite(result.accuracy) else "–"
        if interval:
            text += f" [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"
        name = plain(label, 30) if alike else f"{plain(label, 30)}\n{kind}"
        rows.append(ForestRow(name, result.accuracy, interval, look, text, INK))
    figure = plot_figure(1.25 + 0.36 * len(models))
    axes = figure.subplots()
    draw_forest(axes, rows, ms=7)
    start, chances = lowest_share(reached), {1 / result.ways for _, result, _ in models}
    if len(chances) == 1 and start == 0:
        chance = chances.pop()
        axes.axvline(chance, color=GREY, lw=1, ls=":")
        text = f"guessing, {percent(round(chance, 3))}"
        align: dict[str, Any] = {"ha": "left" if chance < 0.3 else "center", "va": "bottom"}
        above = axes.get_xaxis_transform()
        axes.text(chance, 1.01, text, color=GREY, fontsize=8.5, transform=above, **align)
    axes.set(xlim=(start, 1), ylim=(len(models) - 0.4, -0.6), xlabel="accuracy")
    percent_axis(axes, "x")
    axes.set_title(kinds[0] if alike else "few-shot", pad=16)
    return figure


# Angles


_ANGLES = {
    "w_ec": "center to\nclass mean",
    "w_inter": "center to\nnext center",
    "intra": "sample to\nclass mean",
    "inter": "class mean to\nnext mean",
}


@plot(
    "angles",
    "How tight classes are, and how far apart",
    "Left, the angle of each sample to the mean of its own class, filled, and to the nearest "
    "other class's, outlined: the less they overlap, the better. Right, averages, and what the "
    "ArcFace paper reports of faces for orientation.",
    "Angles of spaces of different dimension do not compare: random directions are 90° apart "
    "in 512 dimensions and anything in 2. On classes used in training any network can look "
    "tight. And averages hide the few samples that cause the errors.",
)
def angles_plot(assessments: Assessments) -> Figure:
    """Per model the angles of its samples, and the table of the ArcFace paper."""
    sampled, averaged = (
        models_having(assessments, part)
        if any(getattr(assessment, part) is not None for assessment in assessments.values())
        else []
        for part in ("own_angles", "angles")
    )
    if not sampled and not averaged:
        raise InputError("no model has angles")
    rows = max(len(sampled), 1)
    figure = plot_figure(max(4.4, 0.95 + 1.15 * rows))
    sides: Any = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    left, right = sides
    panels = left.subplots(rows, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    if sampled:
        _draw_all_samples(left, panels, assessments, sampled)
    else:
        say_nothing(panels[0], "no angles of samples")
    if averaged:
        _draw_averages(right.subplots(), averaged)
    else:
        say_nothing(right.subplots(), "no averages")
    return figure


def _draw_all_samples(
    left: Any, panels: Any, assessments: Assessments, models: Sequence[tuple[str, Floats, Look]]
) -> None:
    samples: list[tuple[Floats, Any]] = [
        (own, assessments[label].other_angles) for label, own, _ in models
    ]
    widest = max(float(np.nanmax(values, initial=60.0)) for pair in samples for values in pair)
    end = min(180, 30 * math.ceil(widest / 30))
    for axes, (own, other), (label, _, look) in zip(panels, samples, models, strict=True):
        _draw_samples(axes, own, other, look, end)
        axes.set_title(plain(label, 34), fontsize=9.5, loc="left", pad=3, color=INK, x=0.035)
    panels[-1].set_xlabel("angle, degrees")
    left.supylabel("% of samples", fontsize=10)
    handles = [Patch(color=PALE), Patch(facecolor="none", edgecolor=INK, lw=1.3)]
    names = ["to the own class", "to the nearest other class"]
    left.legend(handles, names, loc="outside upper left", ncols=2)


def _draw_samples(axes: Axes, own: Floats, other: Floats, look: Look, end: int) -> None:
    bins = np.linspace(0, end, 61)
    draw_angle_histogram(axes, own, other, bins, filled=look.colour, outline=INK)
    above = aside(axes, 5, 7, axes.transAxes)
    axes.add_artist(Line2D([0], [1], transform=above, clip_on=False, **look.mark))
    both = np.isfinite(own) & np.isfinite(other)
    if both.any():
        nearer = f"{percent(float((other < own)[both].mean()), 1)} nearer to another"
        axes.set_title(nearer, fontsize=8.5, loc="right", pad=3, color=GREY)
    axes.set_xticks(np.arange(0, end + 1, 30 if end > 90 else 15))


def _draw_averages(axes: Axes, models: Sequence[tuple[str, Result, Look]]) -> None:
    highest = [90.0]
    for number, name in enumerate(_ANGLES):
        values = [getattr(result, name) for _, result, _ in models]
        for (_, result, look), value in zip(models, values, strict=True):
            interval = interval_of(result, name)
            draw_mark(axes, number, value, interval, look, step=6, ms=6)
            highest += [v for v in (value, *(interval or ())) if math.isfinite(v)]
        if not any(map(math.isfinite, values)):
            why = "no centers" if name.startswith("w_") else "not defined"
            axes.text(number, 2, why, ha="center", color=GREY, fontsize=8.5)
    ticks = np.arange(len(_ANGLES))
    for (kind, angles), dash in zip(PAPER.items(), ("-", (0, (3, 2))), strict=True):
        style: dict[str, Any] = {"color": GREY, "lw": 1, "ls": dash, "zorder": 1, "label": kind}
        axes.hlines(angles, ticks - 0.42, ticks + 0.42, **style)
    axes.figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        labelcolor=GREY,
        title="for orientation, the ArcFace paper's",
        title_fontproperties={"size": 8.5},
    )
    names = [f"{MEASURES[name].short}\n{words}" for name, words in _ANGLES.items()]
    axes.set_xticks(ticks, names, fontsize=8.5)
    axes.set(xlim=(-0.55, len(_ANGLES) - 0.45), ylim=(0, max(highest) * 1.03))
    axes.yaxis.set_major_formatter("{x:.0f}°")
    axes.grid(True, axis="y")


# Thresholds and probabilities


def _far_thresholds(thresholds: Thresholds) -> dict[float, float]:
    """The thresholds of a few rates, as far as the validation identities can pin these down."""
    found = {rate: thresholds.for_far(rate) for rate in (0.01, 0.001, 1e-4)}
    return {rate: one.threshold for rate, one in found.items() if one.pinned}


def _join_tables(heading: list[str], rows: Mapping[str, Rows]) -> Rows:
    """The rows of several models as one table, each with its model's name in front."""
    several = len(rows) > 1
    body = [
        [f"{label}: {first}" if several else first, *others]
        for label, part in rows.items()
        for first, *others in part
    ]
    return [heading, *body] if body else []


def list_thresholds(assessments: Assessments) -> Rows:
    """The thresholds of every model, as `threshold_rows` lists them."""
    heading = ["to keep", "subjects enrolled", "least cosine", f"on {FRESH:,} fresh identities"]
    rows = {label: threshold_rows(a.thresholds) for label, a in assessments.items() if a.thresholds}
    return _join_tables(heading, rows)


def list_realized(assessments: Assessments) -> Rows:
    """What the thresholds did on the data reported on; nothing where they were not tried."""
    heading = ["to keep", "subjects enrolled", "least cosine", "expected here", "seen here"]
    tried = {label: realized_rows(a.realized) for label, a in assessments.items() if a.realized}
    return _join_tables([*heading, "that is", "accepted rightly"], tried)


@plot(
    "threshold",
    "Which threshold?",
    "The cosine that a match must reach so that no more than this share of unknown probes is "
    "given a name, over the number of subjects enrolled. Solid where the validation "
    "identities measure it, dashed where it is extrapolated or rough. The table adds the "
    "thresholds for pairs (FAR), and in which range 95 % of tests on fresh identities will find "
    "the rate.",
    "Dashed parts rest on an assumed law of how much probes differ. And all of it holds for "
    "identities like those of validation: relatives, twins or another camera need more.",
    kind="thresholds",
    rows=list_thresholds,
    each="Thresholds of {}",
)
def threshold_plot(assessments: Assessments) -> Figure:
    """Of one model: the threshold that keeps FPIR at some rates, over the size of the gallery."""
    ((label, assessment),) = assessments.items()
    thresholds = assessment.thresholds
    if thresholds is None:
        raise InputError(f"{label} has no thresholds")
    origin = thresholds.made_from
    border = origin["identities"] - 1  # the largest gallery that leaves a probe's own identity out
    sizes = sorted({*np.geomspace(1, 1_000_000, 37).round().astype(int).tolist(), border})
    figure = plot_figure(4.7)
    axes = figure.subplots()
    beyond, largest = [], 10
    for rate, colour in zip((0.1, 0.01, 0.001), PALETTE, strict=False):
        measured, extrapolated = _fpir_thresholds(thresholds, rate, sizes)
        if not measured and not extrapolated:
            beyond.append(percent(rate))
            continue
        axes.plot(*zip(*measured, strict=True) if measured else ([], []), color=colour, lw=2)
        dashed = measured[-1:] + extrapolated
        axes.plot(*zip(*dashed, strict=True), color=colour, lw=1.6, ls=(0, (4, 2)))
        # The end of each line; all there is of it where a single size is supported.
        axes.plot(*dashed[-1], "o", color=colour, ms=4, clip_on=False)
        largest = max(largest, dashed[-1][0])
        axes.annotate(
            f"FPIR {percent(rate)}",
            dashed[-1],
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )
    if not axes.lines:
        raise InputError("the validation identities pin down none of the rates")
    grey: dict[str, Any] = {"color": GREY, "fontsize": 8.5}
    if border < largest:
        axes.axvline(border, color=GREY, lw=0.9, ls=":")
        axes.text(border, 0.02, " extrapolated →", transform=axes.get_xaxis_transform(), **grey)
    if beyond:
        words = f"too few identities for FPIR {', '.join(beyond)}"
        axes.text(0.985, 0.08, words, transform=axes.transAxes, ha="right", **grey)
    axes.set(xscale="log", xlim=(sizes[0], largest))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="subjects in the gallery", ylabel="least cosine of a match")
    axes.set_title(plain(label), loc="left")
    words = f"from {thresholds.origin}, {origin['samples']:,} samples"
    axes.set_title(words, loc="right", fontsize=9, color=GREY)
    axes.grid(True)
    return figure


def _fpir_thresholds(
    thresholds: Thresholds, rate: float, sizes: Sequence[int]
) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Sizes and thresholds: measured ones, and the others as far as they can be pinned down."""
    points: tuple[list[tuple[int, float]], list[tuple[int, float]]] = ([], [])
    for size in sizes:
        answer = thresholds.for_fpir(rate, size)
        if answer.pinned:
            points[answer.extrapolated or answer.rough].append((size, answer.threshold))
    return points


@plot(
    "probability",
    "A cosine as a probability",
    "Left, of the pairs that were given a probability of being the same, how many are; on the "
    "diagonal the probability can be taken at its word. Below, how many pairs that was. The "
    "calibration error is the mean distance from the diagonal. Right, the probability over the "
    "cosine; the thresholds are marked.",
    "The probability holds where same and different are equally likely beforehand; in a "
    "search through many subjects nearly all pairs are different. A bin of few pairs can be "
    "far off the diagonal by chance.",
    kind="thresholds",
)
def reliability_plot(assessments: Assessments) -> Figure:
    """How often pairs are the same, over the probability that they were given; and the latter."""
    tried = models_having(assessments, "reliability")
    made = models_having(assessments, "thresholds")
    figure = plot_figure(4.7)
    panels = figure.subplot_mosaic([["upper", "right"], ["lower", "right"]], height_ratios=(3.4, 1))
    upper, lower = panels["upper"], panels["lower"]
    upper.plot([0, 1], [0, 1], color=GREY, lw=1, ls=":")
    for _, result, look in tried:
        full = result.counts > 0
        x, y = result.mean_probability[full], result.frequency[full]
        upper.plot(x, y, clip_on=False, **{**look.mark, **look.line, "lw": 1.2})
        counts = np.where(full, result.counts, np.nan)  # an empty bin has no place on a log axis
        lower.stairs(counts, result.edges, baseline=0.5, fill=len(tried) == 1, **look.line)
    upper.set(title="reliability: what was said, what was so", ylabel="of these, the same")
    upper.set(xlim=(0, 1), ylim=(0, 1.02))
    upper.tick_params(labelbottom=False)
    lower.set(yscale="log", ylim=(0.5, 3 * max(int(r.counts.max()) for _, r, _ in tried)))
    lower.set(xlim=(0, 1), ylabel="pairs", xlabel="probability of being the same")
    lower.yaxis.set_major_formatter(EngFormatter(sep=""))  # 1M: a million is too wide
    lower.minorticks_off()
    percent_axis(upper, "y")
    percent_axis(lower, "x")
    upper.grid(True)
    lower.grid(True)
    _draw_probability(panels["right"], made)
    errors = {label: f": calibration error {percent(r.ece, 2)}" for label, r, _ in tried}
    add_key(figure, {plain(label) + errors.get(label, ""): look for label, _, look in made})
    return figure


@plot(
    "probability",
    "A cosine as a probability",
    "The probability that two samples show the same identity, over their cosine, as the "
    "validation identities have it; the thresholds are marked.",
    "It holds where same and different are equally likely beforehand; in a search through many "
    "subjects nearly all pairs are different. And it says nothing of how sure it is itself.",
    kind="thresholds",
)
def probability_plot(assessments: Assessments) -> Figure:
    """The same where no probability was tried."""
    if any(a.reliability for a in assessments.values()):
        raise InputError("shown beside how reliable it is")
    made = models_having(assessments, "thresholds")
    figure = plot_figure(4.7)
    _draw_probability(figure.subplots(), made)
    add_key(figure, {plain(label): look for label, _, look in made})
    return figure


def _draw_probability(axes: Axes, models: Sequence[tuple[str, Thresholds, Look]]) -> None:
    """The probability over the cosine; of several models the first rate that all support."""
    cosines = np.linspace(-1, 1, 801)
    rates = [_far_thresholds(thresholds) for _, thresholds, _ in models]
    shared = [rate for rate in rates[0] if all(rate in of_rate for of_rate in rates)]
    alone, lowest = len(models) == 1, 0.0
    for (_, thresholds, look), of_rate in zip(models, rates, strict=True):
        chances = thresholds.probability(cosines)
        lowest = min(lowest, float(cosines[max(int(np.searchsorted(chances, 0.01)) - 1, 0)]))
        axes.plot(cosines, chances, **look.line)
        for rate in shared if alone else shared[:1]:
            cosine = of_rate[rate]
            chance = float(thresholds.probability(np.array([cosine]))[0])
            draw_mark(axes, cosine, chance, None, look, ms=7)
            if alone:
                axes.axvline(cosine, color=GREY, lw=0.9, ls=":", zorder=1)
                where = aside(axes, 3, 0, axes.get_xaxis_transform())
                style: dict[str, Any] = {"rotation": 90, "color": GREY, "fontsize": 8.5}
                axes.text(cosine, 0.03, f" FAR {percent(rate)}", transform=where, **style)
    axes.set(xlim=(max(lowest - 0.1, -1), 1), ylim=(0, 1.02))
    note = f"; marks: FAR {percent(shared[0])}" if not alone and shared else ""
    axes.set_title(f"probability over the cosine{note}")
    axes.set(xlabel="cosine of two samples", ylabel="probability of being the same")
    percent_axis(axes, "y")
    axes.grid(True)


PLOTS.append(
    Plot(
        "realized",
        "What the thresholds did here",
        "For each threshold: the rate that it was to keep, the range that 95 % of tests of this "
        "size fall into, and the rate that it shows on identities of which it knew nothing: those "
        "of this report; or, where fewer than 50 validation identities were joined by these, each "
        "fifth of all, by thresholds from the rest. Accepted rightly: same pairs, or enrolled "
        "probes given their own name.",
        "It is one test. Of twenty good thresholds, one shows a rate outside of its range.",
        kind="thresholds",
        rows=list_realized,
    )
)


# Two models compared


@plot(
    "difference",
    "Which is better?",
    "What the first of two models gains, with 95 % intervals over the same draws of "
    "identities. Coloured where the interval leaves out 0: blue better, orange worse. Grey: no "
    "difference is shown.",
    "Grey does not say that there is no difference. And of twenty comparisons one looks real "
    "by chance.",
    kind="differences",
    each="{}",
)
def difference_plot(differences: Mapping[str, Sequence[Difference]]) -> Figure:
    """Gains with their intervals about the line of no difference; angles on their own axis.

    differences: one comparison, by its name, such as "arcface against softmax".
    """
    panels = [
        (f"{plain(label, 60)}{': angles' if degrees else ''}", degrees, rows)
        for label, of_pair in differences.items()
        for degrees in (False, True)
        if (rows := [item for item in of_pair if item.degrees == degrees])
    ]
    if not panels:
        raise InputError("there is no difference to draw")
    heights = [len(rows) for *_, rows in panels]
    figure = plot_figure(0.27 * sum(heights) + 0.95 * len(panels))
    axes = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for panel, (title, degrees, rows) in zip(axes, panels, strict=True):
        _draw_differences(panel, rows, degrees)
        panel.set_title(title, fontsize=10.5, loc="left", pad=6)
    return figure


def _draw_differences(axes: Axes, differences: Sequence[Difference], degrees: bool) -> None:
    factor, unit = (1, "degrees") if degrees else (100, "points")
    axes.axvline(0, color=GREY, lw=1)
    rows, reached = [], [0.0]
    for item in differences:
        gain, (low, high) = factor * item.gain, (factor * end for end in item.interval)
        ends = None if math.isnan(low + high) else (low, high)
        colour = GREY if not item.shown else PALETTE[0] if item.gain > 0 else PALETTE[5]
        reached += [value for value in (gain, low, high) if math.isfinite(value)]
        range_text = f"[{_signed(low)}, {_signed(high)}]" if ends else "(too few to tell)"
        text = f"{_signed(gain)} {range_text}" if math.isfinite(gain) else "not defined here"
        shade, look = INK if item.shown else GREY, Look(colour, "-", "o")
        rows.append(ForestRow(short_name(item.name), gain, ends, look, text, shade))
    draw_forest(axes, rows, ms=6)
    low, high = min(reached), max(reached)
    room = (high - low) * 0.06 or 0.01 * factor
    axes.set(xlim=(min(low - room, -2 * room), max(high + room, 2 * room)))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"gain in {unit}; right of 0 the first is better", color=GREY, fontsize=9)


def _signed(value: float) -> str:
    """With a sign and one decimal.

    >>> _signed(-1.25), _signed(0.3), _signed(-0.01)
    ('−1.2', '+0.3', '0.0')
    """
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")
