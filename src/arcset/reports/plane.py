"""Embeddings as points of a flat picture: two dimensions as they are, more by PCA."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from arcset.reports.scene import Floats, Labels, principal
from arcset.reports.theme import class_colour, class_marker

__all__ = ["Plane", "draw_cloud", "draw_image"]

MOST_POINTS = 3000  # a picture holds no more that one could tell apart


@dataclass(frozen=True, eq=False)
class Plane:
    """A way from D dimensions to two; `note` says what it leaves out, nothing if D = 2."""

    mean: Floats  # (D,)
    basis: Floats  # (D, 2)
    note: str

    @classmethod
    def of(cls, embeddings: Floats) -> "Plane":
        """The plane that shows the most of `embeddings` (N, D)."""
        dim = embeddings.shape[1]
        if dim == 2:
            return cls(np.zeros(2), np.eye(2), "")
        mean, basis, share = principal(embeddings)
        note = f"PCA of {dim} dimensions: {share:.0%} of the variance; distances are not to scale"
        return cls(mean, basis, note)

    def __call__(self, embeddings: Floats) -> Floats:
        """Points (N, 2) of embeddings (N, D)."""
        points: Floats = (embeddings - self.mean) @ self.basis
        return points


def draw_cloud(axes: Axes, points: Floats, labels: Labels, *, alpha: float = 0.35) -> None:
    """The samples as a quiet background, at most `MOST_POINTS` of them, evenly chosen."""
    step = -(-len(points) // MOST_POINTS)
    points, labels = points[::step], labels[::step]
    for number in np.unique(labels).tolist():
        own = points[labels == number]
        axes.scatter(
            own[:, 0],
            own[:, 1],
            s=9,
            marker=class_marker(number),
            color=class_colour(number),
            alpha=alpha,
            linewidths=0,
        )
    axes.set_aspect("equal", adjustable="datalim")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([])


def draw_image(
    axes: Axes, image: npt.NDArray[np.uint8], title: str, colour: str | None = None
) -> None:
    """One image, grey or RGB, with a title above it and nothing else."""
    axes.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.8 if colour is None else 2.0)
        if colour is not None:
            spine.set_edgecolor(colour)
    axes.set_title(title, fontsize=9.5)
