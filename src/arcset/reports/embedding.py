"""The embedding itself, for one run or several side by side."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from arcset.reports.board import Board
from arcset.reports.scene import check_alike, flattened, still_scene, titles
from arcset.reports.theme import styled
from arcset.reports.view import RunView

__all__ = ["embedding_picture"]

_TURN = 0.6  # radians: where one stands before three dimensions


@styled
def embedding_picture(views: Sequence[RunView], part: str = "test") -> Figure:
    """Embeddings of `part` (test, or train: the kept samples), one panel per run.

    Two dimensions: the circle for unit vectors, else the plane. Three: a sphere, or space. More:
    the first two principal components of the known classes. Unseen classes are hollow.

    Raises `OptionError` for runs with different data or classes, and for an unknown part.
    """
    check_alike(views)
    scenes = [flattened(still_scene(view, part)) for view in views]
    names = titles(views)
    columns = len(scenes) if len(scenes) <= 3 else 2 if len(scenes) == 4 else 3
    board = Board(scenes, columns, width=5.6 if columns == 1 else 9.0)
    for panel, name in zip(board.panels, names, strict=True):
        panel.axes.set_title(name)
    board.show(scenes, _TURN)
    return board.figure
