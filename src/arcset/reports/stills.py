"""Stills of runs, each registered with what to say under it.

What accuracy hides is among them: pairs that no threshold tells apart, certainty about the unknown.
"""

import copy
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from arcset.data import ImageSet
from arcset.errors import InputError
from arcset.evaluation import Confidence, NoThreshold, confidence, no_threshold, verification
from arcset.evaluation.geometry.angles import center_angles
from arcset.margins import MARGINS, Margin, Sample
from arcset.margins.angular import FALLBACKS
from arcset.margins.arcface import ArcFace
from arcset.reports.embedding_plot import Projection, draw_cloud, draw_image
from arcset.reports.embedding_plot import embedding_picture as embedding_picture  # beside its plots
from arcset.reports.measure_plots import draw_roc
from arcset.reports.page import choose_evenly
from arcset.reports.plots import (
    DASHES,
    add_key,
    draw_angle_histogram,
    looks,
    plain,
    plot,
    plot_figure,
)
from arcset.reports.style import GREY, INK, PALE, PALETTE, class_swatches, style
from arcset.reports.training_review import HISTORY_CAPTION, history_picture
from arcset.reports.view import Embedded, Floats, Labels, RunView, as_pictures, check_alike, titles

OTHER = PALETTE[5]  # what belongs to another class, or to none that is known
_MOST_COSINES = 1 << 28  # to compute for one picture
_MOST_SAMPLES = 50_000  # whose distances to each other can be gone through in a minute or so
_MOST_NAMES = 40  # of classes beside each other
_MOST_ROWS = 20  # classes of whom images are shown
_PER_CLASS = 8  # images of each
_TALL = 10  # classes from which on they stand in two columns


plot("history", "How training went", *HISTORY_CAPTION, kind="runs")(history_picture)

plot(
    "embedding",
    "Where the samples lie",
    "Each mark is a test image where the network puts it: known classes filled, unseen ones "
    "hollow, arrows the class centers, grey lines the borders between classes.",
    "Beyond three dimensions it is a shadow (PCA) that can lay distant classes on top of each "
    "other, and on circle and sphere only directions are left: how long an embedding was is "
    "not shown.",
    kind="runs",
)(embedding_picture)


# Angles and pairs


@plot(
    "angle",
    "Own center and nearest other",
    "The farther apart the two histograms lie, the more clearly test samples belong to their "
    "own center rather than to the nearest other one.",
    "It is about known classes only, and softmax without normalization also uses lengths and "
    "biases, so for it a smaller angle to another center need not be an error.",
    kind="runs",
)
def angle_picture(views: Sequence[RunView]) -> Figure:
    """On the test set, the angle to the own center beside the angle to the nearest other center.

    Of very many samples and classes an evenly chosen part of the samples is shown. Runs whose loss
    has no centers are left out; raises `InputError` where none is left.
    """
    check_alike(views)
    with_centers = [
        (name, view.test, view.loss.centers.numpy())
        for name, view in zip(titles(views), views, strict=True)
        if view.loss.centers is not None
    ]
    if not with_centers:
        raise InputError(f"{views[0].title} has no class centers to measure angles to")
    figure = plot_figure(1.0 + 1.35 * len(with_centers), 7.2)
    rows = figure.subplots(len(with_centers), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (title, test, centers) in zip(rows, with_centers, strict=True):
        count = max(1, min(len(test.labels), _MOST_COSINES // len(centers)))
        chosen = choose_evenly(range(len(test.labels)), count)
        own, other = center_angles(test.embeddings[chosen], test.labels[chosen], centers)
        bins = np.arange(0.0, 181, 3)
        draw_angle_histogram(axes, own, other, bins, filled=PALETTE[0], outline=OTHER)
        text = (
            f"medians {np.median(own):.1f}° and {np.median(other):.1f}°; "
            f"{(other < own).mean():.1%} nearer to another"
        )
        axes.set_title(plain(title), loc="left", pad=3)
        axes.set_title(text, loc="right", pad=3, fontsize=9, color=GREY)
    rows[-1].set(xticks=range(0, 181, 30), xlabel="angle, degrees")
    figure.supylabel("% of test samples per 3°", fontsize=10)
    handles = [rows[0].patches[0], rows[0].patches[-1]]
    names = ["own center", "nearest other center"]
    figure.legend(handles, names, loc="outside upper center", ncols=2)
    return figure


@plot(
    "roc",
    "Same or different, never seen",
    "For pairs of images from classes that training never saw: how many same pairs a cosine "
    "threshold accepts, over how many different pairs it accepts by mistake.",
    "Pairs of few classes and few images depend on each other, so the left end rests on a "
    "handful of images and small differences between curves there mean little.",
    kind="runs",
)
def roc_picture(views: Sequence[RunView]) -> Figure:
    """True accepts over false accepts; raises `InputError` without two unseen classes."""
    check_alike(views)
    results = {}
    for name, view in zip(titles(views), views, strict=True):
        if view.unseen is None or len(view.unseen.class_names) < 2:
            raise InputError(f"{view.title} has no two unseen classes: there is no ROC to draw")
        results[name] = verification(view.unseen.embeddings, view.unseen.labels)
    models = looks(results)
    figure = plot_figure(4.6, 6.4)
    axes = figure.subplots()
    draw_roc(axes, [(name, result, models[name]) for name, result in results.items()])
    axes.set_xlabel("different pairs that are accepted (FAR)")
    axes.set_ylabel("same pairs that are accepted (TAR)")
    axes.set_title("same or different, on classes never seen; dotted: guessing")
    names = (f"{plain(name)}, AUC {result.auc:.3f}" for name, result in results.items())
    add_key(figure, dict(zip(names, models.values(), strict=True)))
    return figure


# Pairs that no threshold tells apart


def rightly_named(view: RunView) -> Labels:
    """The test samples (by row) whose class the classifier names rightly; all without one."""
    test = view.test
    if len(test.labels) > _MOST_SAMPLES:
        raise InputError(f"{len(test.labels):,} samples are too many to compare each with each")
    if not view.loss.classifies:
        return np.arange(len(test.labels))
    named = view.loss.classify(torch.from_numpy(test.embeddings)).numpy()
    return np.flatnonzero(named == test.labels)


def no_threshold_table(views: Sequence[RunView]) -> list[tuple[str, ...]]:
    """Per run the share of samples and of triples in both distances; the heading comes first."""
    metrics = ("euclidean", "cosine")
    table = [("run", "samples", *(f"{m}: {of}" for m in metrics for of in ("samples", "triples")))]
    for view in views:
        rows = rightly_named(view)
        shares = []
        for metric in metrics:
            try:
                result = no_threshold(view.test.embeddings[rows], view.test.labels[rows], metric)
                shares += [f"{result.share:.2%}", f"{result.triples_share:.2%}"]
            except InputError:  # a classifier that names a single class rightly has no triples
                shares += ["none", "none"]
        kind = "named rightly" if view.loss.classifies else "all: there is no classifier"
        table.append((view.title, f"{len(rows):,} ({kind})", *shares))
    return table


_NO_THRESHOLD = (
    "All three images are named rightly, yet a lies nearer to c, which shows something else, "
    "than to b, which shows the same: whatever distance is taken as the limit, same-or-"
    "different goes wrong on one of the two pairs.",
    "It is the worst case of the whole test part and may be an outlier, so read the shares "
    "beside it; beyond two dimensions lengths in the picture are a projection, and only the "
    "numbers are right.",
)


@plot(
    "no-threshold",
    "Pairs that no threshold tells apart",
    f"{_NO_THRESHOLD[0]} How often that happens: the share of samples that lie nearer to some "
    "sample of another class than to the farthest of their own, and the share of all triples of "
    "samples.",
    f"{_NO_THRESHOLD[1]} One outlier per class is enough to raise the share of samples to 100 %, "
    "while the share of triples hardly moves; and a share of 0 means neither that one threshold "
    "suits all samples, nor that unseen classes will be as easy.",
    kind="runs",
    rows=no_threshold_table,
)
def no_threshold_picture(views: Sequence[RunView], metric: str = "euclidean") -> Figure:
    """The worst triple of the first run's test part: its three images, and where they lie.

    Euclidean distances are drawn in the space of the loss (unit vectors for normalized losses),
    cosine distances among unit vectors. More than two dimensions are shown by PCA.

    Raises `OptionError` for an unknown metric, `InputError` where there are too few samples.
    """
    view, test = views[0], views[0].test
    rows = rightly_named(view)
    embeddings, labels = test.embeddings[rows].astype(np.float64), test.labels[rows]
    result = no_threshold(embeddings, labels, metric)
    if metric == "cosine":
        embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    names = [test.class_names[labels[sample]] for sample in result.worst]
    names = [name if len(name) <= 14 else f"…{name[-13:]}" for name in names]
    figure = plot_figure(5.4, 8.6)
    panels = figure.subplot_mosaic([["a", "all"], ["b", "all"], ["c", "all"]], width_ratios=(1, 3))
    for letter, sample, name in zip("abc", result.worst, names, strict=True):
        title = f"{letter}: {name}   (test sample {test.index[rows[sample]]})"
        image = test.images[rows[sample]]
        draw_image(panels[letter], image, title, OTHER if letter == "c" else INK)
    axes = panels["all"]
    plane = Projection.fit(embeddings)
    points = plane(embeddings)
    draw_cloud(axes, points, labels)
    _draw_triple(axes, points[list(result.worst)], result, names)
    is_unit = metric == "cosine" or view.loss.normalized
    scale = f"{'unit vectors' if is_unit else 'raw embeddings'}, drawn to scale"
    axes.set_xlabel(plane.note or scale, fontsize=8.5, color=GREY)
    figure.suptitle(_no_threshold_title(view, result), x=0.03, ha="left", fontsize=11)
    if sum(map(len, test.class_names)) <= 80:  # letters that fit
        swatches = class_swatches(test.class_names)
        figure.legend(handles=swatches, loc="outside lower right", ncols=16, columnspacing=0.9)
    return figure


@plot(
    "no-threshold-last",
    lambda views: f"The same for {views[-1].title}, by cosine",
    *_NO_THRESHOLD,
    kind="runs",
)
def no_threshold_last_picture(views: Sequence[RunView]) -> Figure:
    """The last run's, by cosine, where there are several."""
    if len(views) < 2:
        raise InputError("there is one run")
    return no_threshold_picture(views[-1:], "cosine")


def _draw_triple(axes: Axes, points: Floats, result: NoThreshold, names: Sequence[str]) -> None:
    """Both pairs as lines with their distances in the legend, and the letters a, b, c."""
    a, b, c = points
    for end, letter, name, distance, (colour, dashes) in (
        (b, "b", names[1], result.same_distance, (INK, "-")),
        (c, "c", names[2], result.other_distance, (OTHER, "--")),
    ):
        text = f"{distance:.4g}"
        if result.metric == "cosine":
            text += f"  ({math.degrees(math.acos(1 - distance)):.1f}°)"
        label = f"a {names[0]} to {letter} {name}: {text}"
        axes.plot(
            [a[0], end[0]], [a[1], end[1]], dashes, color=colour, lw=1.8, label=label, zorder=5
        )
    along = b - a
    across = np.array([-along[1], along[0]])
    across = across if across @ (c - a) > 0 else -across
    # c tends to lie beside a: their letters stand on either side of the line to b
    for letter, point, away in (("a", a, -across), ("b", b, along), ("c", c, across)):
        colour = OTHER if letter == "c" else INK
        ring: dict[str, Any] = {
            "marker": "o",
            "ms": 9,
            "fillstyle": "none",
            "mew": 1.8,
            "ls": "none",
        }
        axes.plot(*point, color=colour, zorder=6, **ring)
        axes.annotate(
            letter,
            tuple(point),
            xytext=tuple(13 * away / max(float(np.linalg.norm(away)), 1e-12)),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=13,
            fontweight="bold",
            color=colour,
            zorder=7,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
    metric = "1 − cos θ" if result.metric == "cosine" else "distance"
    axes.legend(loc="best", title=metric, frameon=True, framealpha=0.9, edgecolor="none")


def _no_threshold_title(view: RunView, result: NoThreshold) -> str:
    named = "named rightly" if view.loss.classifies else "(all: it has no classifier)"
    samples = f"{result.anchors:,} test samples {named}"
    if not result.found:
        return (
            f"{view.title}: no sample is nearer to another class than to any of its own;\n"
            f"of {samples} these come closest to it"
        )
    return (
        f"{view.title}: nearer to a sample of another class than to one of its own\n"
        f"{result.share:.1%} of {samples}, {result.triples_share:.2%} of all triples"
    )


# How sure a classifier is


def view_confidence(view: RunView, *, examples: int = 12) -> Confidence | None:
    """How sure a run is of known and unseen samples; None where it has no classifier or unseen."""
    if not view.loss.classifies or view.unseen is None:
        return None
    known, unseen = _logits(view, view.test), _logits(view, view.unseen)
    return confidence(known, view.test.labels, unseen, examples=examples)


def _logits(view: RunView, part: Embedded) -> Floats:
    count, classes = len(part.embeddings), view.loss.classes
    if count * classes > _MOST_COSINES:
        raise InputError(f"{count:,} samples and {classes:,} classes are too many to picture")
    with torch.no_grad():
        logits: Floats = view.loss.logits(torch.from_numpy(part.embeddings)).double().numpy()
    return logits


def _confident(views: Sequence[RunView]) -> list[tuple[RunView, Embedded, Confidence]]:
    """The runs with a classifier and unseen classes; raises `InputError` where there is none."""
    classifiers = [
        (view, view.unseen, sure)
        for view in views
        if view.unseen is not None and (sure := view_confidence(view)) is not None
    ]
    if not classifiers:
        raise InputError("no run has a classifier and unseen classes to be unsure about")
    return classifiers


@plot(
    "confidence",
    "How sure a classifier is of what it cannot know",
    "A closed-set classifier must choose among the classes it knows; where the two histograms "
    "overlap, its probability does not tell that a sample belongs to none of them.",
    "The level depends on the scale, which bounds the probability of a cosine loss, and on "
    "how long was trained, so compare runs by the AUC and not by the heights.",
    kind="runs",
)
def confidence_picture(views: Sequence[RunView]) -> Figure:
    """Histograms of the largest probability, known against unseen, one panel per run."""
    runs = _confident(views)
    columns = 2 if len(runs) == 4 else min(3, len(runs))
    rows = -(-len(runs) // columns)
    figure = plot_figure(2.7 * rows + 0.7, max(5.0, 3.4 * columns))
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat
    for axes in panels[len(runs) :]:
        axes.set_axis_off()
    edges = np.linspace(0, 1, 41)
    for number, (axes, (view, unseen, sure)) in enumerate(zip(panels, runs, strict=False)):
        for part, colour, name in ((view.test, PALETTE[0], "known"), (unseen, OTHER, "unseen")):
            surest = torch.from_numpy(_logits(view, part)).softmax(dim=1).amax(dim=1).numpy()
            shares = np.histogram(surest, edges)[0] / len(surest)
            axes.stairs(shares, edges, fill=True, color=colour, alpha=0.3)
            axes.stairs(shares, edges, color=colour, lw=1.5, label=name)
        axes.set_xlim(0, 1.01)
        scale = view.loss.settings().get("scale")
        axes.set_title(view.title + (f"  (scale {scale:g})" if scale else ""), loc="left")
        above = (f"{sure.unseen.above[at]:.0%} of unseen above {at:g}" for at in (0.9, 0.99))
        note = "\n".join([f"AUC {sure.auc:.2f}", *above])
        axes.text(0.03, 0.97, note, transform=axes.transAxes, va="top", fontsize=8.5)
        if number + columns >= len(runs):
            axes.set_xlabel("largest softmax probability")
            axes.tick_params(labelbottom=True)
        if number % columns == 0:
            axes.set_ylabel("share of samples")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


@plot(
    "confident-mistakes",
    lambda views: f"The surest mistakes of {_confident(views)[0][0].title}",
    "Unseen samples of which the classifier is surest: each is called a class it is not, with "
    "a probability that a reader would take for certainty.",
    "These are the extremes, chosen for being the worst; how common they are stands in the "
    "histogram of confidence.",
    kind="runs",
)
def confident_mistakes_picture(views: Sequence[RunView]) -> Figure:
    """The unseen samples of which the first classifier is surest, and what it calls them."""
    view, unseen, sure = _confident(views)[0]
    columns = min(6, len(sure.examples))
    rows = -(-len(sure.examples) // columns)
    figure = plot_figure(2.0 * rows + 0.5, 1.45 * columns)
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axes in panels[len(sure.examples) :]:
        axes.set_axis_off()
    for axes, example in zip(panels, sure.examples, strict=False):
        called = textwrap.shorten(view.test.class_names[example.label], 12, placeholder="…")
        title = f"called {called}\n{_not_quite(example.probability)} sure"
        draw_image(axes, unseen.images[example.index], title)
        truth = unseen.class_names[unseen.labels[example.index]]
        axes.set_xlabel(f"is {truth}   (#{unseen.index[example.index]})", fontsize=8.5, color=GREY)
    figure.suptitle(f"{view.title}: surest about what it has never seen", fontsize=11)
    return figure


def _not_quite(probability: float) -> str:
    """Never rounded up to 100 %: digits are added until it is not.

    >>> _not_quite(0.91234), _not_quite(0.9999), _not_quite(1.0)
    ('91.2%', '99.99%', '> 99.99999%')
    """
    texts = (f"{probability:.{digits}%}" for digits in range(1, 6))
    return next((text for text in texts if not text.startswith("100")), "> 99.99999%")


# Biases, margins and data


@plot(
    "bias",
    "What the bias learns",
    "A bias is a head start for a class whatever the image shows; it would equal the log of "
    "the class's frequency if it only learned how common a class is, and dropping it costs "
    "little accuracy.",
    "Only differences between biases count, so their mean is taken off; with an embedding of "
    "few dimensions the bias also makes room for classes in the middle, and one pair of runs "
    "does not show how much accuracy varies with the seed.",
    kind="runs",
)
def bias_picture(views: Sequence[RunView]) -> Figure:
    """The learned biases beside what the class frequencies alone would give, in logits.

    Raises `InputError` unless there is softmax with biases and softmax without.
    """
    softmax = [view for view in views if view.config.loss == "softmax"]
    with_bias = [view for view in softmax if view.loss.biases is not None]
    without = [view for view in softmax if view.loss.biases is None]
    if not with_bias or not without:
        raise InputError("there is no pair of softmax with and without bias")
    view, train = with_bias[0], with_bias[0].selection.train
    assert view.loss.biases is not None
    shares = np.bincount(train.labels, minlength=len(train.class_names)) / len(train)
    prior = np.log(np.maximum(shares, 1 / (2 * len(train))))  # a class without images: half of one
    figure = plot_figure(3.8, max(5.6, min(12.0, 0.75 * len(shares) + 2.2)))
    axes = figure.subplots()
    positions = np.arange(len(shares))
    equal = " (all equal)" if np.ptp(shares) < 5e-4 else ""
    for offset, heights, colour, label in (
        (-0.2, view.loss.biases.double().numpy(), PALETTE[0], "learned bias"),
        (0.2, prior, PALE, f"log of the class frequency{equal}"),
    ):
        style: dict[str, Any] = {"color": colour, "edgecolor": GREY, "linewidth": 0.6}
        axes.bar(positions + offset, heights - heights.mean(), 0.38, label=label, **style)
    axes.axhline(0, color=INK, lw=0.8)
    if len(shares) <= _MOST_NAMES:
        names = [
            f"{name}\n{share:.1%}" for name, share in zip(train.class_names, shares, strict=True)
        ]
        crowded = len(shares) > 12 or max(map(len, train.class_names)) > 8
        axes.set_xticks(positions, names, rotation=90 if crowded else 0)
        axes.set_xlabel("class, and its share of the training images")
    axes.set_ylabel("logits, less their mean")
    accuracies = (len(rightly_named(one)) / len(one.test.labels) for one in (view, without[0]))
    axes.set_title("accuracy {:.4f} with bias, {:.4f} without".format(*accuracies))
    figure.legend(loc="outside upper center", ncols=2)
    return figure


@plot(
    "margins",
    "What each margin does to the target",
    "The lower a curve lies at an angle, the harder training pulls a sample there towards its "
    "own center.",
    "It shows the target logit alone: how hard the pull really is also depends on the scale "
    "and on how near the other centers are.",
    kind="runs",
)
def margin_picture(views: Sequence[RunView] = ()) -> Figure:
    """The margined cosine over the angle, and ArcFace's ways past θ = π − m.

    Of runs, their margins as they are, beside normface, which has none; without runs every margin
    there is, at its default.
    """
    figure = plot_figure(4.2, 9.0)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    if views:
        margins = [MARGINS["normface"](), *filter(None, map(_margin_of, views))]
    else:
        margins = [MARGINS[name]() for name in MARGINS.names()]
    _draw_margins(left, {_margin_name(margin): margin.eval() for margin in margins})
    left.set_title("as trained, beside none" if views else "every margin, at its default")
    _draw_margins(right, {kind: ArcFace(fallback=kind) for kind in FALLBACKS})
    turn = 180 - math.degrees(ArcFace().m2)
    right.axvline(turn, color=GREY, lw=0.8, ls=":")
    right.text(turn - 3, 1.0, "π − m", color=GREY, ha="right", va="top", fontsize=9)
    right.set_title("arcface past π − m, by fallback")
    left.set_ylabel("target logit before the scale")
    return figure


def _margin_of(view: RunView) -> Margin | None:
    """A copy of the margin that a run was trained with; None for a loss that has none."""
    margin = getattr(getattr(view.loss, "base", view.loss), "margin", None)
    return copy.deepcopy(margin) if isinstance(margin, Margin) else None


def _margin_name(margin: Margin) -> str:
    name = next(name for name in MARGINS.names() if MARGINS[name] is type(margin))
    shift = margin.settings().get("margin")
    return name if shift is None else f"{name} {shift:g}"


def _draw_margins(axes: Axes, margins: Mapping[str, Margin]) -> None:
    degrees = np.linspace(0, 180, 1441)
    curves: dict[bytes, tuple[Floats, list[str]]] = {}  # several treat the target alike
    for name, margin in margins.items():
        margin.bind(classes=1)
        values = np.array([margin.reference(math.radians(angle), Sample()) for angle in degrees])
        curves.setdefault(values.round(9).tobytes(), (values, []))[1].append(name)
    for number, (values, names) in enumerate(curves.values()):
        jumps = np.flatnonzero(np.abs(np.diff(values)) > 0.05) + 1  # a jump is no steep line
        axes.plot(
            np.insert(degrees, jumps, np.nan),
            np.insert(values, jumps, np.nan),
            color=PALETTE[number % len(PALETTE)],
            ls=DASHES[number % len(DASHES)],
            lw=1.8,
            label="\n".join(textwrap.wrap(", ".join(names), 26)),
        )
    axes.set(xlim=(0, 180), ylim=(-2.0, 1.1), xticks=range(0, 181, 30))
    axes.set_xlabel("angle θ to the class center, degrees")
    axes.grid(True)
    axes.legend(loc="lower left", handlelength=2.6, fontsize=7.5 if len(curves) > 6 else None)


@plot(
    "data",
    "The training images",
    "A few images of every class, taken evenly from the set.",
    "A handful of images shows neither how varied a class is nor which labels are wrong.",
    kind="runs",
)
def data_picture(views: Sequence[RunView]) -> Figure:
    """Of the first run."""
    return sheet_picture(views[0].selection.train)


@style()
def sheet_picture(images: ImageSet) -> Figure:
    """Some images of each class, one row per class, taken evenly from the whole set.

    Of more than 20 classes, 20 evenly spaced ones are shown, and the picture says so.
    """
    names, pixels = images.class_names, as_pictures(images.images)
    chosen = choose_evenly(range(len(names)), _MOST_ROWS)
    columns = 2 if len(chosen) > _TALL else 1
    rows = -(-len(chosen) // columns)
    tile, gap = np.array(pixels.shape[1:3]), 2
    height, width = (tile + gap) * (rows, _PER_CLASS) - gap
    figure = plot_figure(5.4 / columns**0.5 * height / width + 0.4, 6.4 * columns**0.5)
    for column, axes in enumerate(figure.subplots(1, columns, squeeze=False)[0]):
        numbers = chosen[column * rows : (column + 1) * rows]
        sheet = np.full((height, width, *pixels.shape[3:]), 255, np.uint8)
        tops = [row * (tile[0] + gap) for row in range(len(numbers))]
        for top, number in zip(tops, numbers, strict=True):
            members = choose_evenly(np.flatnonzero(images.labels == number).tolist(), _PER_CLASS)
            for position, member in enumerate(members):
                start = position * (tile[1] + gap)
                sheet[top : top + tile[0], start : start + tile[1]] = pixels[member]
        axes.imshow(sheet, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([top + tile[0] / 2 for top in tops], [names[n] for n in numbers], color=INK)
        axes.tick_params(length=0, labelsize=10)
        axes.spines[:].set_visible(False)
    if len(chosen) < len(names):
        figure.supxlabel(f"{len(chosen)} of {len(names)} classes", fontsize=9, color=GREY)
    return figure
