"""Two dimensions, unit vectors: everything lies on a circle."""

import math

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Circle

from arcset.reports.borders import border_angles
from arcset.reports.panel import Box, Panel
from arcset.reports.scene import Floats, Scene
from arcset.reports.theme import GREY, class_colour

__all__ = ["CIRCLE_BOX", "CIRCLE_NOTE", "CirclePanel"]

CIRCLE_BOX: Box = (-1.62, 1.62, -1.62, 1.62)
CIRCLE_NOTE = (
    "Petals: share of a class at each angle (square root), as samples on a circle hide each other"
)
CIRCLE_NOTE_UNSEEN = "; hollow ones spread inward"

_BINS = 120  # petals of 3°
_PETAL_FOOT, _PETAL_HEIGHT = 1.05, 0.42
_NAME_RADIUS = 1.53
_UNSEEN_BAND = (0.72, 0.93)  # radii between which unseen samples are spread


class CirclePanel(Panel):
    """Samples on the circle, and outside it per class a petal: √ of its share at each angle."""

    def _set_up(self, scene: Scene, box: Box) -> None:
        self.axes.set_axis_off()
        self.axes.add_patch(Circle((0, 0), 1, fill=False, color="#BBBBBB", lw=0.8, zorder=1))
        self.borders = LineCollection([], colors=GREY, linewidths=0.9, linestyles="--", zorder=2)
        self.petals = PolyCollection(
            [],
            facecolors=[class_colour(number) for number in range(len(scene.names))],
            alpha=0.65,
            zorder=2,
        )
        for collection in (self.borders, self.petals):
            self.axes.add_collection(collection, autolim=False)
        # The golden ratio's multiples spread evenly however many there are.
        steps = np.arange(len(scene.unseen)) * (math.sqrt(5) - 1) / 2 % 1
        self._radii = _UNSEEN_BAND[0] + (_UNSEEN_BAND[1] - _UNSEEN_BAND[0]) * steps[:, None]

    def _under(self) -> list[Artist]:
        return [self.borders, self.petals]

    def show(self, scene: Scene, turn: float = 0.0) -> None:
        """Move everything; `turn` is not used."""
        self._place(scene.known, scene.unseen * self._radii)
        angles = np.arctan2(scene.known[:, 1], scene.known[:, 0])
        self.petals.set_verts(
            [_petal(angles[scene.labels == number]) for number in range(len(scene.names))]
        )
        if scene.centers is not None:
            rays = border_angles(scene.centers, scene.biases)
            self.borders.set_segments([[(0, 0), tuple(1.44 * _direction(ray))] for ray in rays])
        tips = _means(scene) if scene.centers is None else scene.centers
        heading = np.arctan2(tips[:, 1], tips[:, 0])
        names = _NAME_RADIUS * _direction(_apart(heading, math.radians(11)))
        self._point_arrows(tips, scene.origin, names)


def _means(scene: Scene) -> Floats:
    """The middle of each class (C, 2), where it has no center."""
    rows = [scene.known[scene.labels == number] for number in range(len(scene.names))]
    return np.array([row.sum(axis=0) for row in rows])


def _direction(angles: Floats) -> Floats:
    """Unit vectors (…, 2)."""
    return np.stack((np.cos(angles), np.sin(angles)), axis=-1)


def _petal(angles: Floats) -> Floats:
    """The outline of a histogram around the circle; a class all in one bin has full height."""
    edges = np.linspace(-math.pi, math.pi, _BINS + 1)
    counts, _ = np.histogram(angles, edges)
    heights = _PETAL_HEIGHT * np.sqrt(counts / max(1, len(angles)))
    outer = np.repeat(_PETAL_FOOT + heights, 2)[:, None]
    at = np.repeat(edges, 2)[1:-1]  # (2 · bins,)
    return np.concatenate((outer * _direction(at), _PETAL_FOOT * _direction(at[::-1])))


def _apart(angles: Floats, gap: float) -> Floats:
    """The angles, moved as little as needed to lie `gap` apart, for names that do not overlap."""
    order = np.argsort(angles)
    moved = angles[order].astype(np.float64)
    for _ in range(100):
        following = np.append(moved[1:], moved[0] + 2 * math.pi)
        short = np.maximum(0, gap - (following - moved)) / 2
        if len(moved) < 2 or short.max() < 1e-4:
            break
        moved += np.roll(short, 1) - short
    result = np.empty_like(moved)
    result[order] = moved
    return result
