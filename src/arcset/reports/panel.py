"""A panel: artists that are made once and moved from scene to scene."""

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba_array
from matplotlib.patheffects import withStroke
from matplotlib.quiver import Quiver
from matplotlib.text import Text
from matplotlib.transforms import IdentityTransform

from arcset.reports.scene import Floats, Labels, Scene
from arcset.reports.theme import class_colour, class_outline

__all__ = ["Box", "Panel"]

Box: TypeAlias = tuple[float, float, float, float]  # left, right, bottom, top

MOST_LABELS = 20  # class names beside their centers; more would hide everything else


class Panel(ABC):
    """Shows scenes of one kind on one pair of axes.

    Known samples are filled, unseen ones hollow; center vectors are arrows with the class's name.
    `moving` are the artists that `show` changes: a film redraws only those.
    """

    moving: list[Artist]

    def __init__(self, axes: Axes, scene: Scene, box: Box, detail: float = 1.0) -> None:
        self.axes, self.detail = axes, detail
        axes.set(xlim=box[:2], ylim=box[2:], aspect="equal")
        axes.set_title(scene.title, pad=6)
        self._set_up(scene, box)
        # Samples overlap; in an order that mixes the classes none of them lies on top.
        shuffle = np.random.default_rng(0).permutation
        self._order, self._unseen_order = shuffle(len(scene.known)), shuffle(len(scene.unseen))
        known = len(scene.names)
        self.points = self._points(scene.labels[self._order], hollow=False)
        self.hollow = self._points(scene.unseen_labels[self._unseen_order] + known, hollow=True)
        self.arrows = self._arrows(scene)
        self.names = self._names(scene)
        self.moving = [*self._under(), self.points, self.hollow]
        self.moving += [*([] if self.arrows is None else [self.arrows]), *self.names]

    @abstractmethod
    def show(self, scene: Scene, turn: float = 0.0) -> None:
        """Move everything to where `scene` says; `turn` in radians, for what can be turned."""

    @abstractmethod
    def _set_up(self, scene: Scene, box: Box) -> None:
        """Draw what never moves, and make the artists that lie under the samples."""

    @abstractmethod
    def _under(self) -> list[Artist]:
        """The moving artists under the samples."""

    def _points(self, numbers: Labels, *, hollow: bool) -> PathCollection:
        outlines = {number: class_outline(number) for number in np.unique(numbers).tolist()}
        colours = to_rgba_array([class_colour(number) for number in numbers.tolist()])
        faded = colours.copy()
        faded[:, 3:] = 0.85 if hollow else 0.7
        points = PathCollection(
            [outlines[number] for number in numbers.tolist()],
            sizes=[(11.0 if hollow else 13.0) * self.detail**2],
            offsets=np.zeros((len(numbers), 2)),
            offset_transform=self.axes.transData,
            facecolors="none" if hollow else faded,
            edgecolors=faded if hollow else "none",
            linewidths=0.7 * self.detail,
            zorder=4 if hollow else 3,
        )
        points.set_transform(IdentityTransform())
        self.axes.add_collection(points, autolim=False)
        return points

    def _arrows(self, scene: Scene) -> Quiver | None:
        if scene.centers is None:
            return None
        start = np.zeros(len(scene.centers))
        inches = self.axes.get_window_extent().width / self.axes.figure.dpi
        colours = [class_colour(number) for number in range(len(start))]
        return self.axes.quiver(
            *(start, start, start + 1, start + 1),
            color=colours,
            angles="xy",
            scale_units="xy",
            scale=1,
            width=0.032 / inches,
            headwidth=3.6,
            headlength=4,
            headaxislength=3.6,
            edgecolor="white",
            linewidth=0.6 * self.detail,
            zorder=5,
        )

    def _names(self, scene: Scene) -> list[Text]:
        nowhere = scene.centers is None and scene.kind != "circle"
        if nowhere or len(scene.names) > MOST_LABELS:
            return []
        return [
            self.axes.text(
                *(0, 0, name),
                color=class_colour(number),
                ha="center",
                va="center",
                fontsize=11,
                fontweight="bold",
                zorder=6,
                path_effects=[withStroke(linewidth=2.5, foreground="white")],
            )
            for number, name in enumerate(scene.names)
        ]

    def _place(self, known: Floats, unseen: Floats) -> None:
        self.points.set_offsets(known[self._order])
        self.hollow.set_offsets(unseen[self._unseen_order])

    def _point_arrows(self, tips: Floats, origin: Floats, labels: Floats) -> None:
        """Arrows from `origin` (2,) to `tips` (C, 2), names at `labels` (C, 2)."""
        if self.arrows is not None:
            self.arrows.set_offsets(np.broadcast_to(origin, tips.shape))
            self.arrows.set_UVC(*(tips - origin).T)
        for text, place in zip(self.names, labels, strict=False):
            text.set_position((float(place[0]), float(place[1])))
