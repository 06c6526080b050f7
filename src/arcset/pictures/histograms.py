"""Histograms: angles to a sample's own center, and to the nearest other one."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from arcset.errors import OptionError
from arcset.pictures.scene import Floats, Labels, check_alike, titles
from arcset.pictures.theme import GREY, PALETTE, new_figure, styled
from arcset.pictures.view import RunView

__all__ = ["angle_picture", "center_angles"]

OWN, OTHER = PALETTE[0], PALETTE[5]


def center_angles(embeddings: Floats, labels: Labels, centers: Floats) -> tuple[Floats, Floats]:
    """Degrees (N,) to a sample's own center and to the nearest other one; lengths do not count.

    >>> center_angles(np.array([[2.0, 0.0]]), np.array([0]), np.array([[1.0, 0.0], [0.0, 3.0]]))
    (array([0.]), array([90.]))
    """
    x, W = (np.asarray(rows, dtype=np.float64) for rows in (embeddings, centers))
    lengths = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(W, axis=1)
    cosines = np.clip(x @ W.T / np.maximum(lengths, 1e-300), -1, 1)  # (N, C)
    angles = np.degrees(np.arccos(cosines))
    rows = np.arange(len(x))
    own = angles[rows, labels]
    angles[rows, labels] = np.inf
    return own, angles.min(axis=1)


@styled
def angle_picture(views: Sequence[RunView]) -> Figure:
    """On the test set, the angle to the own center beside the angle to the nearest other center.

    Runs whose loss has no centers are left out. Raises `OptionError` where none is left, and for
    runs with different data or classes.
    """
    check_alike(views)
    shown = [
        (name, view, view.loss.centers) for name, view in zip(titles(views), views, strict=True)
    ]
    angles = {
        name: center_angles(view.test.embeddings, view.test.labels, centers.numpy())
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
