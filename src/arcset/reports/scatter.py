"""Two dimensions, raw, or more dimensions seen through PCA: a plain scatter."""

import math
from collections.abc import Iterable

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from arcset.reports.borders import border_lines
from arcset.reports.panel import Box, Panel
from arcset.reports.scene import Floats, Scene
from arcset.reports.theme import GREY, PALE

__all__ = ["PlanePanel", "box_around"]


class PlanePanel(Panel):
    """Samples in the plane, borders exact, center vectors lengthened by one common factor.

    Centers are much shorter than embeddings: at their true length nobody would see them. `stretch`
    is the factor, and stands under the panel.
    """

    stretch: float = 1.0

    def _set_up(self, scene: Scene, box: Box) -> None:
        self.axes.tick_params(length=2, labelsize=8, pad=2)
        for axis in (self.axes.xaxis, self.axes.yaxis):
            axis.set_major_locator(MaxNLocator(5))
        self.axes.set_xlabel(scene.note, fontsize=8.5, color=GREY, labelpad=2)
        self.axes.axhline(0, color=PALE, lw=0.8, zorder=0)
        self.axes.axvline(0, color=PALE, lw=0.8, zorder=0)
        self._reach = math.hypot(max(map(abs, box[:2])), max(map(abs, box[2:])))
        self._size = box[1] - box[0]
        self.borders = LineCollection([], colors=GREY, linewidths=0.9, linestyles="--", zorder=2)
        self.axes.add_collection(self.borders, autolim=False)

    def _under(self) -> list[Artist]:
        return [self.borders]

    def stretch_arrows(self, factor: float) -> None:
        """Lengthen center vectors by `factor`, and say so."""
        self.stretch = factor
        self.axes.set_xlabel(f"centers drawn {factor:g} × as long")

    def show(self, scene: Scene, turn: float = 0.0) -> None:
        """Move everything; `turn` is not used."""
        self._place(scene.known, scene.unseen)
        if scene.centers is None:
            return
        if scene.kind == "plane":
            self.borders.set_segments(list(border_lines(scene.centers, scene.biases, self._reach)))
        tips = scene.origin + self.stretch * (scene.centers - scene.origin)
        ways = tips - scene.origin
        lengths = np.linalg.norm(ways, axis=1, keepdims=True)
        names = tips + 0.05 * self._size * ways / np.maximum(lengths, 1e-9)
        self._point_arrows(tips, scene.origin, names)


def box_around(clouds: Iterable[Floats]) -> Box:
    """The smallest square, with some air, that holds all clouds (N, 2) and the origin."""
    corners = [np.zeros((1, 2))]
    for cloud in clouds:
        if len(cloud):
            corners += [cloud.min(axis=0, keepdims=True), cloud.max(axis=0, keepdims=True)]
    points = np.concatenate(corners)
    low, high = points.min(axis=0), points.max(axis=0)
    x, y = ((low + high) / 2).tolist()
    half = 0.54 * float((high - low).max()) or 1.0
    return (x - half, x + half, y - half, y + half)
