"""A board: the panels of several scenes side by side, with one legend, and axes they share."""

import math
import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from arcset.reports.circle import CIRCLE_BOX, CIRCLE_NOTE, CIRCLE_NOTE_UNSEEN, CirclePanel
from arcset.reports.panel import Box, Panel
from arcset.reports.scatter import PlanePanel, box_around
from arcset.reports.scene import Scene
from arcset.reports.sphere import SPHERE_BOX, SpacePanel, SpherePanel
from arcset.reports.theme import GREY, known_swatches, new_figure, unseen_swatches

__all__ = ["Board"]

_PANELS: dict[str, type[Panel]] = {
    "circle": CirclePanel,
    "sphere": SpherePanel,
    "plane": PlanePanel,
    "space": SpacePanel,
    "shadow": PlanePanel,
}
MOST_SWATCHES = 30
GAP = 0.42  # inches above each panel, for its title


class Board:
    """Panels in rows of `columns`. `scenes` are the ones to start with, one per panel.

    `history` are all scenes that will ever be shown: panels of the same kind get axes that hold
    them all, so that what looks larger is larger. `header` inches stay free at the top.
    """

    def __init__(
        self,
        scenes: Sequence[Scene],
        columns: int,
        *,
        history: Iterable[Scene] = (),
        width: float = 8.0,
        header: float = 0.0,
        dpi: float = 150,
    ) -> None:
        rows = math.ceil(len(scenes) / columns)
        side = (width - 0.2) / columns
        known, unseen, notes = _legend(scenes, int(width * 17))  # so many small characters fit
        foot = 0.2 + 0.23 * (bool(known) + bool(unseen)) + 0.155 * len(notes)
        height = header + rows * (side + GAP) + foot
        self.figure: Figure = new_figure(width, height, dpi)
        boxes = _boxes([*scenes, *history])
        stretches = _stretches(scenes, boxes)
        self.panels: list[Panel] = []
        for place, scene in enumerate(scenes):
            row, column = divmod(place, columns)
            left, low = 0.1 + column * side, foot + (rows - 1 - row) * (side + GAP)
            inset = 0.45 if issubclass(_PANELS[scene.kind], PlanePanel) else 0.05  # for the ticks
            axes = self.figure.add_axes(
                (
                    (left + inset) / width,
                    (low + inset) / height,
                    (side - inset - 0.05) / width,
                    (side - inset - 0.05) / height,
                )
            )
            panel = _PANELS[scene.kind](axes, scene, boxes[_group(scene)], min(1.0, side / 3.4))
            if isinstance(panel, PlanePanel) and _group(scene) in stretches:
                panel.stretch_arrows(stretches[_group(scene)])
            self.panels.append(panel)
        self._swatch_row("known", known, (foot - 0.05) / height)
        self._swatch_row("unseen", unseen, (foot - 0.28) / height)
        self.figure.text(
            *(0.5, 0.06 / height, "\n".join(notes)),
            ha="center",
            va="bottom",
            fontsize=8,
            color=GREY,
        )

    def show(self, scenes: Sequence[Scene], turn: float = 0.0) -> None:
        """Show one scene in each panel."""
        for panel, scene in zip(self.panels, scenes, strict=True):
            panel.show(scene, turn)

    def _swatch_row(self, heading: str, swatches: list[Line2D], top: float) -> None:
        if not swatches:
            return
        title = Line2D([], [], linestyle="none", label=heading)
        self.figure.legend(
            handles=[title, *swatches],
            ncols=len(swatches) + 1,
            loc="upper center",
            bbox_to_anchor=(0.5, top),
            handletextpad=0.1,
            columnspacing=0.9,
            borderaxespad=0.0,
            borderpad=0.0,
        )


def _legend(scenes: Sequence[Scene], across: int) -> tuple[list[Line2D], list[Line2D], list[str]]:
    """Swatches of known and of unseen classes, and lines of at most `across` characters."""
    most = max(scenes, key=lambda scene: len(scene.unseen_names))
    known = known_swatches(most.names)
    unseen = unseen_swatches(most.unseen_names, len(known))
    notes = []
    if len(known) + len(unseen) > MOST_SWATCHES:
        notes.append(f"{len(known)} known classes are filled, {len(unseen)} unseen ones hollow.")
        known, unseen = [], []
    if any(scene.kind == "circle" for scene in scenes):
        notes.append(CIRCLE_NOTE + (CIRCLE_NOTE_UNSEEN if most.unseen_names else "") + ".")
    if any(scene.centers is not None for scene in scenes):
        bordered = any(scene.kind not in ("shadow", "space") for scene in scenes)
        notes.append("Arrows: class centers." + (" Grey: decision borders." if bordered else ""))
    return known, unseen, [line for note in notes for line in textwrap.wrap(note, across)]


def _group(scene: Scene) -> tuple[str, bool]:
    """Scenes of one group share their axes."""
    return scene.kind, scene.normalized


def _boxes(scenes: Sequence[Scene]) -> dict[tuple[str, bool], Box]:
    boxes: dict[tuple[str, bool], Box] = {}
    for group in dict.fromkeys(map(_group, scenes)):
        alike = [scene for scene in scenes if _group(scene) == group]
        clouds = [cloud for scene in alike for cloud in (scene.known, scene.unseen)]
        if group[0] == "circle":
            boxes[group] = CIRCLE_BOX
        elif group[0] == "sphere":
            boxes[group] = SPHERE_BOX
        elif group[0] == "space":
            far = max(float(np.linalg.norm(cloud, axis=1).max()) for cloud in clouds if len(cloud))
            boxes[group] = (-far, far, -far, far)
        else:
            tips = [scene.centers for scene in alike if scene.centers is not None]
            boxes[group] = box_around([*clouds, *(tips if group[0] == "shadow" else [])])
    return boxes


def _stretches(
    scenes: Sequence[Scene], boxes: dict[tuple[str, bool], Box]
) -> dict[tuple[str, bool], float]:
    """Per group one factor that makes the longest center vector a third of the axes."""
    longest: dict[tuple[str, bool], float] = {}
    for scene in scenes:
        if scene.centers is not None and scene.kind == "plane":
            length = float(np.linalg.norm(scene.centers, axis=1).max())
            longest[_group(scene)] = max(length, longest.get(_group(scene), 1e-9))
    return {
        group: max(1.0, float(f"{(boxes[group][1] - boxes[group][0]) / 3 / length:.1g}"))
        for group, length in longest.items()
    }
