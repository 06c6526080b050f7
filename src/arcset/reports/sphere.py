"""Three dimensions: the unit sphere, or raw space, seen from a turning place."""

import itertools
import math
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle

from arcset.reports.borders import border_arcs
from arcset.reports.panel import Box, Panel
from arcset.reports.scene import Floats, Scene
from arcset.reports.theme import GREY

__all__ = ["SPHERE_BOX", "SpacePanel", "SpherePanel"]

SPHERE_BOX: Box = (-1.25, 1.25, -1.25, 1.25)
TILT = math.radians(20)  # the eye looks down by this much
FAINT = 0.13  # of what lies behind


def seen(points: Floats, turn: float) -> tuple[Floats, Floats]:
    """Points (…, 3) after a turn about the vertical: where one sees them (…, 2), how near (…,)."""
    cos, sin = math.cos(turn), math.sin(turn)
    x, y, z = np.moveaxis(np.asarray(points, dtype=np.float64), -1, 0)
    right, near = cos * x - sin * y, sin * x + cos * y
    up = math.cos(TILT) * z - math.sin(TILT) * near
    depth = math.cos(TILT) * near + math.sin(TILT) * z
    return np.stack((right, up), axis=-1), depth


class SpacePanel(Panel):
    """Raw samples in space: what lies farther away is fainter. Borders are not drawn."""

    def _set_up(self, scene: Scene, box: Box) -> None:
        self.axes.set_axis_off()
        self._half = box[1] / math.sqrt(3)
        self.wires = LineCollection([], linewidths=0.7, zorder=1)
        self.axes.add_collection(self.wires, autolim=False)
        self._grid, self._grid_colour = self._wire()

    def _wire(self) -> tuple[Floats, str]:
        """Lines (M, 2, 3) that show the space: a cube and its three axes."""
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
        pairs = itertools.combinations(corners, 2)
        edges = [pair for pair in pairs if np.abs(pair[0] - pair[1]).sum() == 2]
        axes = [(-row, row) for row in np.eye(3)]
        return np.asarray(self._half * np.array(edges + axes)), GREY

    def _under(self) -> list[Artist]:
        return [self.wires]

    def _strength(self, depth: Floats) -> Floats:
        """Opacity (…,) by nearness."""
        return np.asarray(np.clip(0.55 + 0.4 * depth / self._half, 0.2, 0.95))

    def _length(self, scene: Scene) -> float:
        """By how much center vectors are lengthened."""
        assert scene.centers is not None
        return 0.75 * self._half / max(1e-9, float(np.linalg.norm(scene.centers, axis=1).max()))

    def show(self, scene: Scene, turn: float = 0.0) -> None:
        """Move everything to where it is seen after the turn."""
        places, depth = seen(scene.known, turn)
        hidden, hidden_depth = seen(scene.unseen, turn)
        self._place(places, hidden)
        for points, order, near in (
            (self.points, self._order, depth),
            (self.hollow, self._unseen_order, hidden_depth),
        ):
            hollow = points is self.hollow
            colours: Any = np.array(points.get_edgecolor() if hollow else points.get_facecolor())
            colours[:, 3] = self._strength(near[order])
            (points.set_edgecolor if hollow else points.set_facecolor)(colours)
        self._show_wires(turn)
        if scene.centers is None or self.arrows is None:
            return
        tips, depth = seen(self._length(scene) * scene.centers, turn)
        lengths = np.linalg.norm(tips, axis=1, keepdims=True)
        away = tips / np.maximum(lengths, 1e-9) * 0.1 * self._half
        self._point_arrows(tips, np.zeros(2), tips + away)
        tints: Any = np.array(self.arrows.get_facecolor())
        tints[:, 3] = np.where(depth < 0, 0.3, 1)
        self.arrows.set_facecolor(tints)
        for text, behind in zip(self.names, depth < 0, strict=False):
            text.set_alpha(0.4 if behind else 1.0)

    def _show_wires(self, turn: float) -> None:
        lines, depth = seen(self._grid, turn)
        self.wires.set_segments(list(lines))
        self.wires.set_color(_tinted(self._grid_colour, 0.35 * self._strength(depth.mean(axis=1))))


class SpherePanel(SpacePanel):
    """Unit vectors on a wire sphere with the borders between classes; the far side is faint."""

    def _set_up(self, scene: Scene, box: Box) -> None:
        super()._set_up(scene, box)
        self._half = 1.0
        self._grid, self._grid_colour = _globe(), GREY
        self.axes.add_patch(Circle((0, 0), 1, fill=False, color="#BBBBBB", lw=0.8, zorder=1))
        self.borders = LineCollection([], linewidths=1.1, zorder=2)
        self.axes.add_collection(self.borders, autolim=False)

    def _under(self) -> list[Artist]:
        return [self.wires, self.borders]

    def _strength(self, depth: Floats) -> Floats:
        return np.where(depth < 0, FAINT, 0.8)

    def _length(self, scene: Scene) -> float:
        return 1.0

    def show(self, scene: Scene, turn: float = 0.0) -> None:
        """Move everything to where it is seen after the turn."""
        super().show(scene, turn)
        if scene.centers is not None:
            lines, depth = seen(border_arcs(scene.centers, scene.biases), turn)
            self.borders.set_segments(list(lines))
            self.borders.set_color(_tinted(GREY, self._strength(depth.mean(axis=1))))


def _globe() -> Floats:
    """Meridians and parallels every 30° as short segments (M, 2, 3)."""
    around = np.radians(np.arange(0, 361, 7.5))
    lines = []
    for degrees in range(0, 180, 30):
        side = np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), 0.0])
        lines.append(np.cos(around)[:, None] * side + np.sin(around)[:, None] * np.eye(3)[2])
    for degrees in range(-60, 61, 30):
        flat, high = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        rim = (flat * np.cos(around), flat * np.sin(around), np.full_like(around, high))
        lines.append(np.stack(rim, axis=1))
    return np.concatenate([np.stack((line[:-1], line[1:]), axis=1) for line in lines])


def _tinted(colour: str, strength: Floats) -> Any:
    """One colour at many opacities: (M, 4)."""
    return np.concatenate((np.tile(to_rgb(colour), (len(strength), 1)), strength[:, None]), axis=1)
