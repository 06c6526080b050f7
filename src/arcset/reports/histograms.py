"""Histograms: angles to a sample's own center, and to the nearest other one."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from arcset.errors import OptionError
from arcset.reports.style import GREY, PALETTE, new_figure, styled
from arcset.reports.view import Floats, Labels, RunView, check_alike, titles

__all__ = ["angle_picture", "center_angles"]

OWN, OTHER = PALETTE[0], PALETTE[5]
_AT_ONCE = 1 << 24  # cosines in memory
_IN_ALL = 1 << 28  # cosines that a picture is worth


def center_angles(embeddings: Floats, labels: Labels, centers: Floats) -> tuple[Floats, Floats]:
    """Degrees (N,) to a sample's own center and to the nearest other one; lengths do not count.

    >>> center_angles(np.array([[2.0, 0.0]]), np.array([0]), np.array([[1.0, 0.0], [0.0, 3.0]]))
    (array([0.]), array([90.]))
    """
    x, W = (np.asarray(rows, dtype=np.float64) for rows in (embeddings, centers))
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
    W = W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)
    own, other = np.empty(len(x)), np.empty(len(x))
    size = max(1, _AT_ONCE // len(W))  # samples
    for first in range(0, len(x), size):
        part = slice(first, first + size)
        cosines = x[part] @ W.T  # (n, C)
        rows, targets = np.arange(len(cosines)), labels[part]
        own[part] = cosines[rows, targets]
        cosines[rows, targets] = -np.inf
        other[part] = cosines.max(axis=1)
    own, other = (np.degrees(np.arccos(np.clip(values, -1, 1))) for values in (own, other))
    return own, other


def _some(view: RunView, classes: int) -> tuple[Floats, Labels]:
    """The test samples; where these and the classes are very many, an evenly chosen part."""
    test = view.test
    count = max(1, min(len(test.labels), _IN_ALL // classes))
    chosen = np.linspace(0, len(test.labels) - 1, count).round().astype(np.int64)
    return test.embeddings[chosen], test.labels[chosen]


@styled
def angle_picture(views: Sequence[RunView]) -> Figure:
    """On the test set, the angle to the own center beside the angle to the nearest other center.

    Of very many samples and classes an evenly chosen part of the samples is shown. Runs whose loss
    has no centers are left out. Raises `OptionError` where none is left, and for runs with
    different data or classes.
    """
    check_alike(views)
    shown = [
        (name, view, view.loss.centers) for name, view in zip(titles(views), views, strict=True)
    ]
    angles = {
        name: center_angles(*_some(view, len(centers)), centers.numpy())
        for name, view, centers in shown
        if centers is not None
    }
    if not angles:
        raise OptionError(f"{views[0].title} has no class centers to measure angles to")
    height = 1.0 + 1.35 * len(angles)
    figure = new_figure(7.2, height)
    rows = figure.subplots(len(angles), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    bins = np.arange(0, 181, 3)
    for axes, (title, (own, other)) in zip(rows, angles.items(), strict=True):
        for values, name, look in (
            (other, "nearest other center", {"color": OTHER, "histtype": "step", "lw": 1.6}),
            (own, "own center", {"color": OWN, "alpha": 0.75}),
        ):
            weights = np.full(len(values), 100 / len(values))
            axes.hist(values, bins, weights=weights, label=name, **look)
        axes.text(0.985, 0.9, title, transform=axes.transAxes, ha="right", va="top", fontsize=11)
        closer = float((other < own).mean())
        medians = f"medians {np.median(own):.1f}° and {np.median(other):.1f}°"
        said = f"{medians}; {closer:.1%} nearer to another"
        axes.text(*(0.985, 0.66, said), transform=axes.transAxes, ha="right", va="top", color=GREY)
        axes.grid(True)
        axes.set_axisbelow(True)
    rows[-1].set(xlim=(0, 180), xticks=range(0, 181, 30), xlabel="angle, degrees")
    figure.supylabel("% of test samples per 3°", fontsize=10, x=0.015)
    handles, names = rows[0].get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="upper center", ncols=2)
    figure.subplots_adjust(left=0.11, right=0.98, bottom=0.5 / height, top=1 - 0.35 / height)
    return figure
