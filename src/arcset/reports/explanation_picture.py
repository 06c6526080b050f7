"""One image walked through a run, as a picture: the image, where it lies, what it is taken for."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from matplotlib.patheffects import withStroke

from arcset.reports.explanation_text import conclusion
from arcset.reports.plane import Plane, draw_cloud, draw_image
from arcset.reports.scene import Floats
from arcset.reports.steps import Explanation
from arcset.reports.theme import GREY, INK, PALE, PALETTE, class_colour, new_figure, styled
from arcset.reports.view import RunView

__all__ = ["explanation_picture"]

MOST_CLASSES = 10  # bars and center names
_HALO = [withStroke(linewidth=2.5, foreground="white")]


@styled
def explanation_picture(view: RunView, found: Explanation) -> Figure:
    """The image, the embedding among the test samples with the centers' angles, and bars.

    Directions are shown: of two dimensions as they are, of more by PCA of unit vectors.
    """
    figure = new_figure(11.5, 4.4)
    grid = figure.add_gridspec(
        1, 3, width_ratios=(1, 2.1, 1.9), left=0.02, right=0.98, bottom=0.14, top=0.82, wspace=0.22
    )
    draw_image(figure.add_subplot(grid[0]), found.subject.image, found.subject.source)
    _draw_embedding(figure.add_subplot(grid[1]), view, found)
    bars = figure.add_subplot(grid[2])
    if found.steps:
        _draw_probabilities(bars, found)
    else:
        _draw_cosines(bars, found)
    title = f"{view.title}: {conclusion(found)[0]}"
    figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    return figure


def _draw_embedding(axes: Axes, view: RunView, found: Explanation) -> None:
    """Test samples, the image as a star, and the centers with their angles to it."""
    test = view.test
    x = np.array(found.embedding)
    cloud: Floats = test.embeddings.astype(np.float64)
    flat = len(x) == 2
    if not flat or view.loss.normalized:
        cloud, x = _unit(cloud), _unit(x[None])[0]
    plane = Plane.of(cloud)
    points, star = plane(cloud), plane(x[None])[0]
    draw_cloud(axes, points, test.labels)
    reach = float(np.linalg.norm(points, axis=1).max())
    if view.loss.centers is not None:
        centers = _unit(view.loss.centers.double().numpy())
        tips = centers * reach * 1.12 if flat else plane(centers)
        _draw_centers(axes, found, tips, star, rays=flat)
        if flat:
            _draw_angle(axes, found, star, centers, reach)
    axes.scatter(
        [star[0]], [star[1]], s=190, marker="*", color=INK, edgecolors="white", zorder=8, label="x"
    )
    axes.margins(0.12)
    space = "unit vectors" if view.loss.normalized else "raw embeddings, centers as directions"
    axes.set_xlabel(plane.note or space, fontsize=8.5, color=GREY)
    axes.set_title(f"★ the image   ‖x‖ = {found.norm:.3g}", fontsize=10)


def _draw_centers(
    axes: Axes, found: Explanation, tips: Floats, star: Floats, *, rays: bool
) -> None:
    for number in reversed(found.ranking[:MOST_CLASSES]):  # the most probable on top
        colour, step = class_colour(number), found.steps[number]
        if rays:
            ends = np.stack((np.zeros(2), tips[number] * 0.98))
            axes.plot(ends[:, 0], ends[:, 1], color=colour, lw=1.3, alpha=0.8, zorder=4)
        else:
            axes.scatter(
                [tips[number, 0]], [tips[number, 1]], s=60, marker="X", color=colour, zorder=6
            )
        aside = tips[number, 0] / max(float(np.linalg.norm(tips[number])), 1e-12) if rays else 0.0
        above = -13 if star[1] > tips[number, 1] else 11  # on the side where the star is not
        axes.annotate(
            f"{step.name}: {step.angle:.1f}°",
            (tips[number, 0], tips[number, 1]),
            xytext=(0, 0) if rays else (0, above),
            textcoords="offset points",
            ha="left" if aside > 0.5 else "right" if aside < -0.5 else "center",
            va="center",
            color=colour,
            fontweight="bold",
            path_effects=_HALO,
            zorder=9,
        )


def _draw_angle(
    axes: Axes, found: Explanation, star: Floats, centers: Floats, reach: float
) -> None:
    """The angle between the image and its target, or else the nearest center."""
    shown = found.subject.target
    if shown is None:
        shown = min(range(len(found.steps)), key=lambda number: found.steps[number].angle)
    axes.plot([0, star[0]], [0, star[1]], color=INK, lw=1.6, zorder=5)
    start, stop = (math.degrees(math.atan2(v[1], v[0])) for v in (centers[shown], star))
    turn = math.remainder(stop - start, 360)
    low, high = sorted((start, start + turn))
    axes.add_patch(
        Arc((0, 0), reach * 0.7, reach * 0.7, theta1=low, theta2=high, color=INK, lw=1.6, zorder=5)
    )


def _draw_probabilities(axes: Axes, found: Explanation) -> None:
    numbers = found.ranking[:MOST_CLASSES]
    target = found.subject.target
    if target is not None and target not in numbers:
        numbers = [*numbers[:-1], target]
    steps = [found.steps[number] for number in numbers]
    plain = [step.probability for step in steps]
    margined = [step.margined_probability for step in steps]
    kinds = [("without margin", plain, PALETTE[0])]
    if found.margin is not None:
        kinds.append(("with margin, as in training", [m or 0.0 for m in margined], PALE))
    _bars(axes, kinds)
    names = [found.steps[n].name + (" (target)" if n == target else "") for n in numbers]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(0, 1.14)
    axes.set_xlabel("probability")


def _draw_cosines(axes: Axes, found: Explanation) -> None:
    near = [found.neighbours[number] for number in found.ranking[:MOST_CLASSES]]
    _bars(axes, [("", [n.mean_cosine for n in near], PALETTE[0])])
    axes.set_yticks(range(len(near)), [n.name for n in near])
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_xlim(-1.25, 1.25)
    axes.set_xlabel("mean cosine to the class's test samples (there are no centers)")


def _bars(axes: Axes, kinds: list[tuple[str, list[float], str]]) -> None:
    """Horizontal bars, the first class on top, each with its value at the end."""
    height = 0.8 / len(kinds)
    for place, (label, values, colour) in enumerate(kinds):
        at = np.arange(len(values)) + (place - (len(kinds) - 1) / 2) * height
        bars = axes.barh(
            at, values, height * 0.92, color=colour, edgecolor=GREY, linewidth=0.5, label=label
        )
        texts = [f"{value:.3f}" if abs(value) >= 5e-4 else "" for value in values]
        axes.bar_label(bars, texts, padding=2, fontsize=8)
    axes.invert_yaxis()
    if len(kinds) > 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Floats = rows / np.where(lengths > 0, lengths, 1.0)
    return unit
