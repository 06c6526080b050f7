"""Where embeddings lie: circle, sphere, plane or space, for one run or several side by side.

A `Scene` is what one panel shows at one moment, a panel holds the artists that draw it, and a
`Board` is panels side by side with one legend and axes that they share. A film moves the same
artists from scene to scene.
"""

import itertools
import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke
from matplotlib.quiver import Quiver
from matplotlib.text import Text
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import IdentityTransform

from arcset.checks import check_choice
from arcset.errors import RunError
from arcset.reports.style import (
    GREY,
    PALE,
    class_colour,
    class_marker,
    class_outline,
    class_swatches,
    new_figure,
    style,
)
from arcset.reports.view import Floats, Frame, Labels, RunView, check_alike, titles

Box: TypeAlias = tuple[float, float, float, float]  # left, right, bottom, top

PARTS = ("train", "test")
_TURN = 0.6  # radians: where one stands before three dimensions


@style()
def embedding_picture(views: Sequence[RunView]) -> Figure:
    """Embeddings of the test part and of the unseen, one panel per run.

    Two dimensions: the circle for unit vectors, else the plane. Three: a sphere, or space. More:
    the first two principal components of the known classes. Unseen classes are hollow.

    Raises `OptionError` for runs with different data or classes.
    """
    check_alike(views)
    scenes = [flatten_scene(still_scene(view)) for view in views]
    columns = len(scenes) if len(scenes) <= 3 else 2 if len(scenes) == 4 else 3
    board = Board(scenes, titles(views), columns, width=5.6 if columns == 1 else 9.0)
    board.show(scenes, _TURN)
    return board.figure


# From many dimensions to few


@dataclass(frozen=True, eq=False)
class Projection:
    """A way from D dimensions to the few of a picture: along the main axes of some embeddings."""

    mean: Floats  # (D,), taken off first; zeros where the origin stays
    basis: Floats  # (D, d), orthonormal columns
    share: float  # of the variance, or of the squared length about the origin, that is shown

    @classmethod
    def fit(cls, rows: Floats, dims: int = 2, *, centered: bool = True) -> "Projection":
        """The `dims` main axes of `rows` (N, D) about their mean or, not centered, the origin.

        No more than `dims` dimensions stay as they are.
        """
        dim = rows.shape[1]
        if dim <= dims:
            return cls(np.zeros(dim), np.eye(dim), 1.0)
        mean = rows.mean(axis=0) if centered else np.zeros(dim, rows.dtype)
        # Fewer samples than axes: rows of zeros change nothing, and the missing axes are found.
        missing = np.zeros((max(0, dims - len(rows)), dim), rows.dtype)
        _, sizes, axes = np.linalg.svd(np.concatenate([rows - mean, missing]), full_matrices=False)
        # Either sign of an axis is as good; the largest entry positive makes it one answer.
        signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
        total = float((sizes**2).sum())
        share = float((sizes[:dims] ** 2).sum()) / total if total else 1.0
        return cls(mean, (axes[:dims] * signs[:dims, None]).T, share)

    def __call__(self, rows: Floats) -> Floats:
        """Points (N, d) of embeddings (N, D)."""
        points: Floats = (rows - self.mean) @ self.basis
        return points

    @property
    def note(self) -> str:
        """What the picture leaves out; nothing where it leaves out nothing."""
        dim, dims = self.basis.shape
        if dim == dims:
            return ""
        return (
            f"PCA of {dim} dimensions: {self.share:.0%} of the variance; distances are not to scale"
        )


# Scenes


@dataclass(frozen=True, eq=False)
class Scene:
    """Embeddings of known and unseen classes with the classifier that goes with them.

    kind: where they live: `circle` and `sphere` (unit vectors), `plane` and `space` (raw), or
        `shadow` (more than three dimensions, to be seen through `flatten_scene`).
    """

    kind: str
    known: Floats  # (N, D)
    labels: Labels  # (N,)
    names: tuple[str, ...]
    unseen: Floats  # (U, D), U = 0 where there are none
    unseen_labels: Labels  # (U,)
    unseen_names: tuple[str, ...]
    centers: Floats | None  # (C, D)
    biases: Floats | None  # (C,), in units of W·x: divided by the scale of a normalized loss
    normalized: bool
    origin: Floats  # (D,), where center vectors start
    note: str = ""


def still_scene(view: RunView) -> Scene:
    """The trained run: all test samples and all unseen ones."""
    centers, biases = (
        None if tensor is None else tensor.detach().float().numpy()
        for tensor in (view.loss.centers, view.loss.biases)
    )
    samples = {"test": view.test, "unseen": view.unseen}
    parts = {name: part.embeddings for name, part in samples.items() if part is not None}
    labels = {name: part.labels for name, part in samples.items() if part is not None}
    return _scene(view, "test", Frame(view.config.epochs, parts, centers, biases), labels)


def epoch_scenes(view: RunView, part: str = "test") -> dict[int, Scene]:
    """The kept samples over the epochs: epoch → scene. Raises `RunError` where none are kept."""
    check_choice("part", part, PARTS)
    if not view.frames or not len(view.frames[-1].parts.get(part, ())):
        raise RunError(
            f"{view.run.path} keeps no embeddings of its epochs; train it with --set snapshot=1000"
        )
    samples = view.run.samples()
    names = [name for name in (part, "unseen") if name in view.frames[-1].parts]
    labels = {name: samples[f"{name}.labels"].numpy() for name in names}
    return {frame.epoch: _scene(view, part, frame, labels) for frame in view.frames}


def flatten_scene(scene: Scene, plane: Projection | None = None) -> Scene:
    """A scene of more than three dimensions as its PCA shadow; others come back as they are.

    Where no `plane` is given, the known embeddings decide it.
    """
    if scene.kind != "shadow":
        return scene
    plane = plane or Projection.fit(scene.known)
    return replace(
        scene,
        known=plane(scene.known),
        unseen=plane(scene.unseen),
        centers=None if scene.centers is None else plane(scene.centers),
        origin=plane(scene.origin),
        note=f"PCA of {len(plane.mean)} dimensions: {plane.share:.0%} of the variance shown",
    )


def _scene(view: RunView, part: str, frame: Frame, labels: Mapping[str, Labels]) -> Scene:
    known = frame.parts[part]
    dim, normalized = known.shape[1], view.loss.normalized
    kinds = {2: "circle", 3: "sphere"} if normalized else {2: "plane", 3: "space"}
    biases = frame.biases
    if biases is not None and normalized:
        biases = biases / float(view.loss.settings().get("scale", 1.0))
    others = view.selection.unseen if part == "test" else None
    with_unseen = part == "test" and "unseen" in labels
    return Scene(
        kind=kinds.get(dim, "shadow"),
        known=known,
        labels=labels[part],
        names=view.selection.known.class_names,
        unseen=frame.parts["unseen"] if with_unseen else np.empty((0, dim), np.float32),
        unseen_labels=labels["unseen"] if with_unseen else np.empty(0, np.int64),
        unseen_names=() if others is None else others.class_names,
        centers=frame.centers,
        biases=biases,
        normalized=normalized,
        origin=np.zeros(dim, np.float32),
    )


# Decision borders: where the scores of two classes are equal, and higher than every other's. All
# take class centers (C, D) and biases (C,) or None.

_SLACK = 1e-9  # scores that differ by less are equal


def border_lines(centers: Floats, biases: Floats | None, reach: float) -> Floats:
    """Borders in the plane of W_j·x + b_j: segments (M, 2, 2), at most `reach` from the origin.

    >>> border_lines(np.array([[1.0, 0.0], [-1.0, 0.0]]), None, reach=3.0).tolist()
    [[[0.0, -3.0], [0.0, 3.0]]]
    """
    W, b = _float64(centers, biases)
    segments = []
    for i, j in itertools.combinations(range(len(W)), 2):
        normal = W[i] - W[j]
        length = np.linalg.norm(normal)
        if length < _SLACK:
            continue
        foot = (b[j] - b[i]) * normal / length**2  # the line's point nearest to the origin
        along = np.array([0 - normal[1], normal[0]]) / length
        if np.linalg.norm(foot) >= reach:
            continue
        # On the line at foot + t·along, class k stays below where rise·t ≤ lead.
        half = math.sqrt(reach**2 - float(foot @ foot))
        rise, lead = (W - W[i]) @ along, (W[i] - W) @ foot + b[i] - b
        up, down = rise > _SLACK, rise < -_SLACK
        high = (lead[up] / rise[up]).min(initial=half)
        low = (lead[down] / rise[down]).max(initial=-half)
        if high - low > _SLACK and (lead[~up & ~down] > -_SLACK).all():
            segments.append((foot + low * along, foot + high * along))
    return np.array(segments).reshape(-1, 2, 2)


def border_angles(centers: Floats, biases: Floats | None = None) -> Floats:
    """Borders on the unit circle of W_j·u + b_j: their angles (M,), ascending, radians in (−π, π].

    Between unit centers without biases these are the bisecting angles.

        >>> np.degrees(border_angles(np.array([[1.0, 0.0], [0.0, 1.0]]))).round(6).tolist()
        [-135.0, 45.0]
    """
    W, b = _float64(centers, biases)
    angles = []
    for i, j in itertools.combinations(range(len(W)), 2):
        normal = W[i] - W[j]
        length = float(np.linalg.norm(normal))
        if length < _SLACK or abs(b[j] - b[i]) > length:
            continue
        middle = math.atan2(normal[1], normal[0])
        apart = math.acos((b[j] - b[i]) / length)
        for angle in (middle - apart, middle + apart):
            scores = W @ (math.cos(angle), math.sin(angle)) + b
            if scores.max() - scores[i] < 1e-6:
                angles.append(math.remainder(angle, 2 * math.pi))
    return np.array(sorted(angles))


def border_arcs(centers: Floats, biases: Floats | None = None, steps: int = 240) -> Floats:
    """Borders on the unit sphere of W_j·u + b_j: short segments (M, 2, 3) of circles."""
    W, b = _float64(centers, biases)
    turn = np.linspace(0, 2 * math.pi, steps + 1)[:, None]
    pieces = [np.empty((0, 2, 3))]
    for i, j in itertools.combinations(range(len(W)), 2):
        normal = W[i] - W[j]
        length = float(np.linalg.norm(normal))
        if length <= _SLACK or abs(b[j] - b[i]) >= length:
            continue
        normal, height = normal / length, (b[j] - b[i]) / length
        first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
        first /= np.linalg.norm(first)
        around = np.cos(turn) * first + np.sin(turn) * np.cross(normal, first)
        ring = height * normal + math.sqrt(1 - height**2) * around  # (steps + 1, 3)
        scores = ring @ W.T + b
        leads = scores.max(axis=1) - scores[:, i] < 1e-6
        pieces.append(np.stack((ring[:-1], ring[1:]), axis=1)[leads[:-1] & leads[1:]])
    return np.concatenate(pieces)


def _float64(centers: Floats, biases: Floats | None) -> tuple[Floats, Floats]:
    W = np.asarray(centers, dtype=np.float64)
    return W, np.zeros(len(W)) if biases is None else np.asarray(biases, dtype=np.float64)


# Panels


class Panel(ABC):
    """Shows scenes of one kind on one pair of axes; artists are made once and moved.

    Known samples are filled, unseen ones hollow; center vectors are arrows with the class's name,
    where there is room for it. `moving` are the artists that `show` changes: a film redraws only
    those.
    """

    BOX: Box  # of unit vectors
    under: list[Artist]  # the moving artists below the samples

    def __init__(self, axes: Axes, scene: Scene, box: Box, detail: float = 1.0) -> None:
        self.axes, self.detail = axes, detail
        axes.set(xlim=box[:2], ylim=box[2:], aspect="equal")
        self._set_up(scene, box)
        # Samples overlap; in an order that mixes the classes none of them lies on top.
        shuffle = np.random.default_rng(0).permutation
        self._order, self._unseen_order = shuffle(len(scene.known)), shuffle(len(scene.unseen))
        known = len(scene.names)
        self.points = self._points(scene.labels[self._order], hollow=False)
        self.hollow = self._points(scene.unseen_labels[self._unseen_order] + known, hollow=True)
        self.arrows = self._arrows(scene)
        self.names = self._names(scene)
        self.moving: list[Artist] = [*self.under, self.points, self.hollow]
        self.moving += [*([] if self.arrows is None else [self.arrows]), *self.names]

    @abstractmethod
    def show(self, scene: Scene, turn: float = 0.0) -> None:
        """Move everything to where `scene` says; `turn` in radians, for what can be turned."""

    @abstractmethod
    def _set_up(self, scene: Scene, box: Box) -> None:
        """Draw what never moves, and make the artists that lie under the samples."""

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
        return self.axes.quiver(
            *(start, start, start + 1, start + 1),
            color=[class_colour(number) for number in range(len(start))],
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
        if nowhere or len(scene.names) > MOST_NAMES:
            return []
        names = [
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
        renderer = cast(Any, self.axes.figure.canvas).get_renderer()
        extents = [text.get_window_extent(renderer).size for text in names]
        self._name_sizes = np.reshape(extents, (-1, 2))  # pixels
        return names

    def _place(self, known: Floats, unseen: Floats) -> None:
        self.points.set_offsets(known[self._order])
        self.hollow.set_offsets(unseen[self._unseen_order])

    def _point_arrows(
        self,
        tips: Floats,
        origin: Floats,
        labels: Floats,
        behind: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Arrows from `origin` (2,) to `tips` (C, 2), names at `labels` (C, 2)."""
        if self.arrows is not None:
            self.arrows.set_offsets(np.broadcast_to(origin, tips.shape))
            self.arrows.set_UVC(*(tips - origin).T)
        if not self.names:
            return
        middles = self.axes.transData.transform(labels)  # (C, 2), pixels
        order = np.arange(len(labels)) if behind is None else np.argsort(behind, kind="stable")
        fits = set(without_overlaps(middles, self._name_sizes, order))
        for number, (text, (x, y)) in enumerate(zip(self.names, labels.tolist(), strict=True)):
            text.set_position((x, y))
            text.set_visible(number in fits)


def without_overlaps(middles: Floats, sizes: Floats, order: Iterable[int]) -> list[int]:
    """The boxes that find room: in `order`, each that overlaps none of those before it.

    >>> middles, sizes = np.array([[0.0, 0.0], [3.0, 0.0], [9.0, 0.0]]), np.full((3, 2), 4.0)
    >>> without_overlaps(middles, sizes, [0, 1, 2])
    [0, 2]
    """
    chosen: list[int] = []
    for number in order:
        apart = np.abs(middles[chosen] - middles[number])
        room = (sizes[chosen] + sizes[number]) / 2
        if (apart >= room).any(axis=1).all():
            chosen.append(int(number))
    return chosen


class CirclePanel(Panel):
    """Samples on the circle, and outside it per class a petal: √ of its share at each angle."""

    BOX: Box = (-1.62, 1.62, -1.62, 1.62)
    _BINS = 120  # petals of 3°
    _PETAL_FOOT, _PETAL_HEIGHT = 1.05, 0.42
    _NAME_RADIUS = 1.53
    _UNSEEN_BAND = (0.72, 0.93)  # radii between which unseen samples are spread

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
        self.under = [self.borders, self.petals]
        for collection in (self.borders, self.petals):
            self.axes.add_collection(collection, autolim=False)
        # The golden ratio's multiples spread evenly however many there are.
        steps = np.arange(len(scene.unseen)) * (math.sqrt(5) - 1) / 2 % 1
        low, high = self._UNSEEN_BAND
        self._radii = low + (high - low) * steps[:, None]

    def show(self, scene: Scene, turn: float = 0.0) -> None:
        """Move everything; `turn` is not used."""
        self._place(scene.known, scene.unseen * self._radii)
        angles = np.arctan2(scene.known[:, 1], scene.known[:, 0])
        members = [scene.labels == number for number in range(len(scene.names))]
        self.petals.set_verts([self._petal(angles[rows]) for rows in members])
        if scene.centers is not None:
            rays = border_angles(scene.centers, scene.biases)
            self.borders.set_segments([[(0, 0), tuple(1.44 * _direction(ray))] for ray in rays])
            tips = scene.centers
        else:  # the middle of each class
            tips = np.array([scene.known[rows].sum(axis=0) for rows in members])
        heading = np.arctan2(tips[:, 1], tips[:, 0])
        names = self._NAME_RADIUS * _direction(_apart(heading, math.radians(11)))
        self._point_arrows(tips, scene.origin, names)

    def _petal(self, angles: Floats) -> Floats:
        """The outline of a histogram around the circle; a class all in one bin has full height."""
        edges = np.linspace(-math.pi, math.pi, self._BINS + 1)
        counts, _ = np.histogram(angles, edges)
        heights = self._PETAL_HEIGHT * np.sqrt(counts / max(1, len(angles)))
        outer = np.repeat(self._PETAL_FOOT + heights, 2)[:, None]
        at = np.repeat(edges, 2)[1:-1]  # (2 · bins,)
        return np.concatenate((outer * _direction(at), self._PETAL_FOOT * _direction(at[::-1])))


def _direction(angles: Floats) -> Floats:
    """Unit vectors (…, 2)."""
    return np.stack((np.cos(angles), np.sin(angles)), axis=-1)


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
        self.under = [self.borders]
        self.axes.add_collection(self.borders, autolim=False)

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


class SpacePanel(Panel):
    """Raw samples in space: what lies farther away is fainter. Borders are not drawn."""

    def _set_up(self, scene: Scene, box: Box) -> None:
        self.axes.set_axis_off()
        self._half = box[1] / math.sqrt(3)
        self.wires = LineCollection([], colors=GREY, linewidths=0.7, zorder=1)
        self.under = [self.wires]
        self.axes.add_collection(self.wires, autolim=False)
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
        pairs = itertools.combinations(corners, 2)
        edges = [pair for pair in pairs if np.abs(pair[0] - pair[1]).sum() == 2]
        axes = [(-row, row) for row in np.eye(3)]
        self._grid: Floats = self._half * np.array(edges + axes)  # lines (M, 2, 3): a cube, axes

    def _strength(self, depth: Floats) -> Floats:
        """Opacity (…,) by nearness."""
        return np.asarray(np.clip(0.55 + 0.4 * depth / self._half, 0.2, 0.95))

    def _length(self, scene: Scene) -> float:
        """By how much center vectors are lengthened."""
        assert scene.centers is not None
        return 0.75 * self._half / max(1e-9, float(np.linalg.norm(scene.centers, axis=1).max()))

    def show(self, scene: Scene, turn: float = 0.0) -> None:
        """Move everything to where it is seen after the turn."""
        positions, depth = _seen(scene.known, turn)
        hidden, hidden_depth = _seen(scene.unseen, turn)
        self._place(positions, hidden)
        _set_opacity(self.points, self._strength(depth[self._order]))
        _set_opacity(self.hollow, self._strength(hidden_depth[self._unseen_order]))
        lines, depth = _seen(self._grid, turn)
        self.wires.set_segments(list(lines))
        _set_opacity(self.wires, 0.35 * self._strength(depth.mean(axis=1)))
        if scene.centers is not None and self.arrows is not None:
            self._show_centers(scene, self.arrows, turn)

    def _show_centers(self, scene: Scene, arrows: Quiver, turn: float) -> None:
        tips, depth = _seen(self._length(scene) * np.asarray(scene.centers), turn)
        lengths = np.linalg.norm(tips, axis=1, keepdims=True)
        away = tips / np.maximum(lengths, 1e-9) * 0.1 * self._half
        self._point_arrows(tips, np.zeros(2), tips + away, depth < 0)
        tints: Any = np.array(arrows.get_facecolor())
        tints[:, 3] = np.where(depth < 0, 0.3, 1)
        arrows.set_facecolor(tints)
        for text, behind in zip(self.names, depth < 0, strict=False):
            text.set_alpha(0.4 if behind else 1.0)


class SpherePanel(SpacePanel):
    """Unit vectors on a wire sphere with the borders between classes; the far side is faint."""

    BOX: Box = (-1.25, 1.25, -1.25, 1.25)
    _FAINT = 0.13  # of what lies behind

    def _set_up(self, scene: Scene, box: Box) -> None:
        super()._set_up(scene, box)
        self._half = 1.0
        self._grid = _globe()
        self.axes.add_patch(Circle((0, 0), 1, fill=False, color="#BBBBBB", lw=0.8, zorder=1))
        self.borders = LineCollection([], colors=GREY, linewidths=1.1, zorder=2)
        self.under = [self.wires, self.borders]
        self.axes.add_collection(self.borders, autolim=False)

    def _strength(self, depth: Floats) -> Floats:
        return np.where(depth < 0, self._FAINT, 0.8)

    def _length(self, scene: Scene) -> float:
        return 1.0

    def show(self, scene: Scene, turn: float = 0.0) -> None:
        """Move everything to where it is seen after the turn."""
        super().show(scene, turn)
        if scene.centers is not None:
            lines, depth = _seen(border_arcs(scene.centers, scene.biases), turn)
            self.borders.set_segments(list(lines))
            _set_opacity(self.borders, self._strength(depth.mean(axis=1)))


_TILT = math.radians(20)  # the eye looks down by this much


def _seen(points: Floats, turn: float) -> tuple[Floats, Floats]:
    """Points (…, 3) after a turn about the vertical: where one sees them (…, 2), how near (…,)."""
    cos, sin = math.cos(turn), math.sin(turn)
    x, y, z = np.moveaxis(np.asarray(points, dtype=np.float64), -1, 0)
    right, near = cos * x - sin * y, sin * x + cos * y
    up = math.cos(_TILT) * z - math.sin(_TILT) * near
    depth = math.cos(_TILT) * near + math.sin(_TILT) * z
    return np.stack((right, up), axis=-1), depth


def _set_opacity(artists: Collection, opacities: Floats) -> None:
    """One opacity for each; matplotlib refuses none at all."""
    if len(opacities):
        artists.set_alpha(opacities.tolist())


def _globe() -> Floats:
    """Meridians and parallels every 30° as short segments (M, 2, 3)."""
    around = np.radians(np.arange(0, 361, 7.5))
    lines = [
        np.cos(around)[:, None] * [math.cos(angle), math.sin(angle), 0]
        + np.sin(around)[:, None] * [0, 0, 1]
        for angle in np.radians(range(0, 180, 30))
    ]
    for height in np.radians(range(-60, 61, 30)):
        rim = math.cos(height) * _direction(around)
        lines.append(np.column_stack([rim, np.full_like(around, math.sin(height))]))
    return np.concatenate([np.stack((line[:-1], line[1:]), axis=1) for line in lines])


# Boards

_PANELS: dict[str, type[Panel]] = {
    "circle": CirclePanel,
    "sphere": SpherePanel,
    "plane": PlanePanel,
    "space": SpacePanel,
    "shadow": PlanePanel,
}
MOST_NAMES = 60  # of classes, beside their centers and in the legend
MOST_ROWS = 10  # of the legend
_GAP = 0.42  # inches above each panel, for its title
_ROW = 0.23  # inches of a row of the legend

_CIRCLE_NOTE = (
    "Petals: share of a class at each angle (square root), as samples on a circle hide each other"
)
_CIRCLE_NOTE_UNSEEN = "; hollow ones spread inward"


class Board:
    """Panels in rows of `columns`. `scenes` are the ones to start with, one per panel.

    `history` are all scenes that will ever be shown: panels of the same kind get axes that hold
    them all, so that what looks larger is larger. `header` inches stay free at the top.
    """

    def __init__(
        self,
        scenes: Sequence[Scene],
        titles: Sequence[str],
        columns: int,
        *,
        history: Iterable[Scene] = (),
        width: float = 8.0,
        header: float = 0.0,
        dpi: float = 150,
    ) -> None:
        rows = math.ceil(len(scenes) / columns)
        side = (width - 0.2) / columns
        legend, notes = _legend(scenes, width)
        foot = 0.2 + _ROW * len(legend) + 0.155 * len(notes)
        height = header + rows * (side + _GAP) + foot
        self.figure: Figure = new_figure(width, height, dpi)
        ever = [*scenes, *history]
        self.panels: list[Panel] = []
        for number, (scene, title) in enumerate(zip(scenes, titles, strict=True)):
            row, column = divmod(number, columns)
            left, low = 0.1 + column * side, foot + (rows - 1 - row) * (side + _GAP)
            inset = 0.45 if issubclass(_PANELS[scene.kind], PlanePanel) else 0.05  # for the ticks
            axes = self.figure.add_axes(
                (
                    (left + inset) / width,
                    (low + inset) / height,
                    (side - inset - 0.05) / width,
                    (side - inset - 0.05) / height,
                )
            )
            axes.set_title(title)
            box = _box([each for each in ever if _group(each) == _group(scene)])
            panel = _PANELS[scene.kind](axes, scene, box, min(1.0, side / 3.4))
            stretch = _stretch([each for each in scenes if _group(each) == _group(scene)], box)
            if isinstance(panel, PlanePanel) and stretch is not None:
                panel.stretch_arrows(stretch)
            self.panels.append(panel)
        for number, swatches in enumerate(legend):
            self._draw_swatches(swatches, (foot - 0.05 - _ROW * number) / height)
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

    def _draw_swatches(self, swatches: list[Line2D], top: float) -> None:
        self.figure.legend(
            handles=swatches,
            ncols=len(swatches),
            loc="upper center",
            bbox_to_anchor=(0.5, top),
            handletextpad=0.1,
            columnspacing=0.9,
            borderaxespad=0.0,
            borderpad=0.0,
        )


def _legend(scenes: Sequence[Scene], width: float) -> tuple[list[list[Line2D]], list[str]]:
    """Rows of swatches, first those of known classes, and lines of text, all `width` inches."""
    most = max(scenes, key=lambda scene: len(scene.unseen_names))
    known = class_swatches(most.names)
    unseen = class_swatches(most.unseen_names, len(known), hollow=True)
    rows, notes = [], []
    if len(known) + len(unseen) <= MOST_NAMES:
        rows = [*_swatch_rows("known", known, width), *_swatch_rows("unseen", unseen, width)]
    if len(rows) > MOST_ROWS or not rows:
        rows = []
        notes.append(f"{len(known)} known classes are filled, {len(unseen)} unseen ones hollow.")
    if any(scene.kind == "circle" for scene in scenes):
        notes.append(_CIRCLE_NOTE + (_CIRCLE_NOTE_UNSEEN if most.unseen_names else "") + ".")
    if any(scene.centers is not None for scene in scenes):
        bordered = any(scene.kind not in ("shadow", "space") for scene in scenes)
        notes.append("Arrows: class centers." + (" Grey: decision borders." if bordered else ""))
    across = int(width * 17)  # small characters that fit
    return rows, [line for note in notes for line in textwrap.wrap(note, across)]


def _swatch_rows(heading: str, swatches: list[Line2D], width: float) -> list[list[Line2D]]:
    """The swatches after their heading, in as many rows as they need at `width` inches."""
    if not swatches:
        return []
    rows: list[list[Line2D]] = [[]]
    taken = 0.0
    for swatch in (Line2D([], [], linestyle="none", label=heading), *swatches):
        name = TextPath((0, 0), str(swatch.get_label()), size=9).get_extents().width  # points
        taken += (name + 27) / 72  # with its mark and the gaps around it
        if taken > width and rows[-1]:
            rows.append([])
            taken = (name + 27) / 72
        rows[-1].append(swatch)
    return rows


def _group(scene: Scene) -> tuple[str, bool]:
    """Scenes of one group share their axes."""
    return scene.kind, scene.normalized


def _box(scenes: Sequence[Scene]) -> Box:
    """A square that holds all scenes of a group, and the origin."""
    kind = scenes[0].kind
    if kind in ("circle", "sphere"):
        return _PANELS[kind].BOX
    clouds = [cloud for scene in scenes for cloud in (scene.known, scene.unseen) if len(cloud)]
    if kind == "space":
        far = max(float(np.linalg.norm(cloud, axis=1).max()) for cloud in clouds)
        return (-far, far, -far, far)
    if kind == "shadow":  # arrows stay as long as they are; their names stand beyond the tips
        clouds += [1.12 * scene.centers for scene in scenes if scene.centers is not None]
    points = np.concatenate([np.zeros((1, 2)), *clouds])
    low, high = points.min(axis=0), points.max(axis=0)
    x, y = ((low + high) / 2).tolist()
    half = 0.54 * float((high - low).max()) or 1.0  # with some air
    return (x - half, x + half, y - half, y + half)


def _stretch(scenes: Sequence[Scene], box: Box) -> float | None:
    """The factor that makes the longest center vector a third of the axes, in the plane."""
    centers = [scene.centers for scene in scenes if scene.centers is not None]
    if scenes[0].kind != "plane" or not centers:
        return None
    longest = max(1e-9, *(float(np.linalg.norm(rows, axis=1).max()) for rows in centers))
    return max(1.0, float(f"{(box[1] - box[0]) / 3 / longest:.1g}"))


# Samples as a background, and single images, for other pictures

MOST_POINTS = 3000  # a picture holds no more that one could tell apart


def draw_cloud(axes: Axes, points: Floats, labels: Labels, *, alpha: float = 0.35) -> None:
    """The samples as a quiet background, at most `MOST_POINTS` of them, evenly chosen."""
    step = -(-len(points) // MOST_POINTS)
    points, labels = points[::step], labels[::step]
    for number in np.unique(labels).tolist():
        members = points[labels == number]
        axes.scatter(
            members[:, 0],
            members[:, 1],
            s=9,
            marker=class_marker(number),
            color=class_colour(number),
            alpha=alpha,
            linewidths=0,
        )
    axes.set_aspect("equal", adjustable="datalim")
    axes.spines[:].set_visible(False)
    axes.set(xticks=[], yticks=[])


def draw_image(
    axes: Axes, image: npt.NDArray[np.uint8], title: str, colour: str | None = None
) -> None:
    """One image, grey or RGB, with a title above it and nothing else."""
    axes.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, linewidth=2.0 if colour else 0.8, edgecolor=colour or GREY)
    axes.set_title(title, fontsize=9.5)
