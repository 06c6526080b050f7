"""Samples named rightly that no threshold can tell apart: how many, and the worst of them."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from arcset.errors import InputError
from arcset.evaluation import NoThreshold, no_threshold
from arcset.reports.embedding_plot import Projection, draw_cloud, draw_image
from arcset.reports.style import GREY, INK, known_swatches, new_figure, styled
from arcset.reports.view import Floats, Labels, RunView

__all__ = ["no_threshold_picture", "no_threshold_table", "rightly_named"]

METRICS = ("euclidean", "cosine")
_MOST_SAMPLES = 50_000  # whose distances to each other can be gone through in a minute or so
OTHER = "#D55E00"  # what belongs to the other class
MOST_LETTERS = 80  # of all names together that fit into the legend
LONGEST = 14  # letters of a name beside an image


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
    heading = ("run", "samples", *(f"{m}: {of}" for m in METRICS for of in ("samples", "triples")))
    return [heading, *(_row(view) for view in views)]


def _row(view: RunView) -> tuple[str, ...]:
    rows = rightly_named(view)
    shares = []
    for metric in METRICS:
        try:
            found = no_threshold(view.test.embeddings[rows], view.test.labels[rows], metric)
            shares += [f"{found.share:.2%}", f"{found.triples_share:.2%}"]
        except InputError:  # a classifier that names a single class rightly has no triples
            shares += ["none", "none"]
    kind = "named rightly" if view.loss.classifies else "all: there is no classifier"
    return (view.title, f"{len(rows):,} ({kind})", *shares)


@styled
def no_threshold_picture(view: RunView, metric: str = "euclidean") -> Figure:
    """The worst triple of the test part: its three images, and where they lie.

    Euclidean distances are drawn in the space of the loss (unit vectors for normalized losses),
    cosine distances among unit vectors. More than two dimensions are shown by PCA.

    Raises `OptionError` for an unknown metric, `InputError` where there are too few samples.
    """
    rows, test = rightly_named(view), view.test
    embeddings, labels = test.embeddings[rows].astype(np.float64), test.labels[rows]
    found = no_threshold(embeddings, labels, metric)
    if metric == "cosine":
        embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    figure = new_figure(8.6, 5.4)
    grid = figure.add_gridspec(
        3, 2, width_ratios=(1, 3.1), left=0.03, right=0.98, bottom=0.09, top=0.83, hspace=0.35
    )
    colours = (INK, INK, OTHER)
    for place, (letter, sample) in enumerate(zip("abc", found.worst, strict=True)):
        name = _short(test.class_names[labels[sample]])
        number = test.index[rows[sample]]
        draw_image(
            figure.add_subplot(grid[place, 0]),
            test.images[rows[sample]],
            f"{letter}: {name}   (test sample {number})",
            colours[place],
        )
    axes = figure.add_subplot(grid[:, 1])
    plane = Projection.fit(embeddings)
    points = plane(embeddings)
    draw_cloud(axes, points, labels)
    names = [_short(test.class_names[labels[sample]]) for sample in found.worst]
    _draw_triple(axes, points[list(found.worst)], found, names)
    axes.set_xlabel(_where(view, metric, plane), fontsize=8.5, color=GREY)
    figure.suptitle(_title(view, found), x=0.03, ha="left", fontsize=11)
    if sum(map(len, test.class_names)) <= MOST_LETTERS:
        figure.legend(
            handles=known_swatches(test.class_names),
            loc="upper right",
            bbox_to_anchor=(0.99, 0.92),
            ncols=10,
            columnspacing=0.9,
            handletextpad=0.1,
        )
    return figure


def _short(name: str) -> str:
    """The end of a long name, as there the numbers are."""
    return name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}"


def _draw_triple(axes: Axes, points: Floats, found: NoThreshold, names: list[str]) -> None:
    """Both pairs as lines with their distances in the legend, and the letters a, b, c."""
    ends = ((1, "b", found.same_distance, INK, "-"), (2, "c", found.other_distance, OTHER, "--"))
    for place, letter, distance, colour, dashes in ends:
        said = f"{distance:.4g}"
        if found.metric == "cosine":
            said += f"  ({math.degrees(math.acos(1 - distance)):.1f}°)"
        label = f"a {names[0]} to {letter} {names[place]}: {said}"
        pair = points[[0, place]]
        axes.plot(pair[:, 0], pair[:, 1], dashes, color=colour, lw=1.8, label=label, zorder=5)
    for place, (colour, away) in enumerate(zip((INK, INK, OTHER), _away(points), strict=True)):
        axes.scatter(
            [points[place, 0]],
            [points[place, 1]],
            s=70,
            facecolors="none",
            edgecolors=colour,
            linewidths=1.8,
            zorder=6,
        )
        axes.annotate(
            "abc"[place],
            tuple(points[place]),
            xytext=(13 * away[0], 13 * away[1]),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=13,
            fontweight="bold",
            color=colour,
            zorder=7,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
    metric = "1 − cos θ" if found.metric == "cosine" else "distance"
    axes.legend(loc="best", title=metric, frameon=True, framealpha=0.9, edgecolor="none")


def _away(points: Floats) -> list[Floats]:
    """Unit vectors from each of three points to where its letter touches neither line."""
    a, b, c = points
    close = np.linalg.norm(c - a) < 0.1 * np.linalg.norm(b - a)
    away = [a - (b + c) / 2, b - a, c - a]
    if close:  # letters on either side of the line to b
        across = np.array([a[1] - b[1], b[0] - a[0]])
        away = [across + a - b, b - a, a - b - across]
    return [v / max(float(np.linalg.norm(v)), 1e-12) for v in away]


def _where(view: RunView, metric: str, plane: Projection) -> str:
    if plane.note:
        return plane.note
    unit = metric == "cosine" or view.loss.normalized
    return "unit vectors, drawn to scale" if unit else "raw embeddings, drawn to scale"


def _title(view: RunView, found: NoThreshold) -> str:
    named = "named rightly" if view.loss.classifies else "(all: it has no classifier)"
    samples = f"test samples {named}"
    if not found.found:
        return (
            f"{view.title}: no sample is nearer to another class than to any of its own;\n"
            f"of {found.anchors:,} {samples} these come closest to it"
        )
    return (
        f"{view.title}: nearer to a sample of another class than to one of its own\n"
        f"{found.share:.1%} of {found.anchors:,} {samples}, "
        f"{found.triples_share:.2%} of all triples"
    )
