"""One image walked through a trained run: from its embedding to probabilities, class by class.

Every number is what the run's own network, loss and margin give; nothing is computed a second way.
"""

import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from matplotlib.patheffects import withStroke
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from arcset.checks import check_choice
from arcset.data import ImageSet
from arcset.data.image import Reading, is_grey, open_image, read_file, turn_upright
from arcset.errors import DataError, OptionError
from arcset.losses import Loss
from arcset.losses.base import AuxiliaryLoss
from arcset.losses.margin_softmax import MarginSoftmax
from arcset.margins import Samples
from arcset.numerics import angle, unit_rows, widen
from arcset.registry import unknown_name
from arcset.reports.embedding_plot import Projection, draw_cloud, draw_image
from arcset.reports.style import GREY, INK, PALE, PALETTE, class_colour, new_figure, style
from arcset.reports.view import Floats, RunView, unit_float64
from arcset.runs.data import reading_of
from arcset.runs.model import embed

PARTS = ("test", "train", "unseen")

Pixels = npt.NDArray[np.uint8]


# The image


@dataclass(frozen=True, eq=False)
class ExplainedImage:
    """An image as the network takes it, what it is, and what was done to it."""

    pixels: Pixels  # (H, W) or (H, W, 3)
    source: str  # such as: test sample 17, a 3
    target: int | None  # number of its known class, None where it has none or none was named
    part: str | None = None  # of the run's data, None for a file
    index: int | None = None
    truth: str | None = None  # name of its class, known or unseen
    notes: tuple[str, ...] = ()


def image_of_sample(view: RunView, index: int, part: str = "test") -> ExplainedImage:
    """A sample of the run's data by its number in `test`, `train` or `unseen`.

    Raises `OptionError` for another part, one that the run does not have, and a number that is
    not in it.
    """
    check_choice("part", part, PARTS)
    images: ImageSet | None = getattr(view.selection, part)
    if images is None:
        raise OptionError(f"{view.title} knows every class of {view.config.data}: none is unseen")
    if not 0 <= index < len(images):
        raise OptionError(
            f"there is no sample {index} in part {part!r} of {view.title}, expected 0 to "
            f"{len(images) - 1}"
        )
    if images.images.dtype != np.uint8:
        raise OptionError(f"{view.title} takes no images, and only images are explained")
    label = int(images.labels[index])
    truth = images.class_names[label]
    notes: tuple[str, ...] = ()
    if part == "unseen":
        notes = (f"{truth!r} was never trained on: there is no target, only the nearest centers",)
    return ExplainedImage(
        pixels=images.images[index],
        source=f"{part} sample {index}, {truth!r}",
        target=None if part == "unseen" else label,
        part=part,
        index=index,
        truth=truth,
        notes=notes,
    )


def image_of_file(view: RunView, path: Path, target: str | None = None) -> ExplainedImage:
    """An image file, read as the run reads its data; `target` names its class.

    Raises `DataError` for a file that is missing or no image, `OptionError` for an unknown class.
    """
    names = view.config.class_names or ()
    if target is not None and target not in names:
        raise unknown_name("class", target, names)
    reading = reading_of(view.config)
    if reading is None:
        raise OptionError(f"{view.title} takes no images")
    content = read_file(path)
    with open_image(content, str(path)) as opened:
        notes = _reading_notes(turn_upright(opened), reading)
    pixels = reading.read(content, str(path))
    with suppress(DataError):  # without its data the run still explains, just not the border
        notes += _border_notes(pixels, view.selection.train.images)
    if target is None and view.loss.classifies:
        notes.append("no target was named with --target, so no margin is shown")
    return ExplainedImage(
        pixels=pixels,
        source=path.name + ("" if target is None else f", said to be {target!r}"),
        target=None if target is None else names.index(target),
        truth=target,
        notes=tuple(notes),
    )


def _reading_notes(image: Image.Image, reading: Reading) -> list[str]:
    """What reading changes about the image."""
    notes = []
    if image.mode.startswith(("I", "F")):
        notes.append("more than 8 bits per pixel were cut to 8")
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        notes.append("transparent pixels are laid on white, bright ones on black")
    if reading.channels == 1 and not is_grey(image):
        channels = np.asarray(image.convert("RGB"), dtype=np.int16)
        if np.ptp(channels, axis=2).max() > 0:
            notes.append("colours were turned to grey")
    if image.size != (reading.width, reading.height):
        bent = image.width * reading.height != image.height * reading.width
        how = {
            "pad": ", padded to its shape",
            "crop": ", only its middle",
            "stretch": ", which changes its proportions",
        }[reading.fit]
        notes.append(
            f"resized from {image.width}×{image.height} to {reading.width}×{reading.height}"
            + (how if bent else "")
        )
    if reading.invert:
        notes.append("turned into its negative, as the run's data are")
    return notes


_BORDERS_APART = 128  # mean brightness of borders, 0 … 255


def _border_notes(image: Pixels, training: Pixels) -> list[str]:
    """A note where the image's border is bright and those in training were dark, or reversed."""
    here, usual = _border(image[None]), _border(training[:: max(1, len(training) // 500)])
    if abs(here - usual) < _BORDERS_APART:
        return []
    kinds = ("bright", "dark") if here > usual else ("dark", "bright")
    return [
        f"its border is {kinds[0]} ({here:.0f} of 255) where training images have a {kinds[1]} one "
        f"({usual:.0f}); it was not inverted"
    ]


def _border(images: Pixels) -> float:
    edges = (images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1])
    return float(np.mean([edge.mean() for edge in edges]))


# The steps


@dataclass(frozen=True)
class ClassStep:
    """How the image fares with one class. Angles are in degrees."""

    name: str
    dot: float  # x·W, as trained
    center_norm: float  # ‖W‖
    cosine: float
    angle: float
    bias: float | None
    logit: float  # without margin
    probability: float
    margined_logit: float | None  # as training sees it; None without a target or a margin
    margined_probability: float | None


@dataclass(frozen=True)
class MarginStep:
    """What the margin does to the target: its cosine before and after, and the angle before."""

    angle: float
    cosine: float
    margined: float

    @property
    def as_if(self) -> float | None:
        """The angle that has the margined cosine; None below −1, where none has."""
        return float(np.degrees(np.arccos(self.margined))) if abs(self.margined) <= 1 else None


@dataclass(frozen=True)
class Neighbours:
    """For a loss without centers: the image among the test samples of one class."""

    name: str
    mean_cosine: float
    nearest: int  # number of the test sample with the highest cosine
    nearest_cosine: float
    nearest_angle: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """All that `arcset explain` shows; `steps` and `neighbours` are in the order of the classes."""

    run: str
    loss: str
    settings: dict[str, float | str]
    image: ExplainedImage
    embedding: tuple[float, ...]
    norm: float
    steps: tuple[ClassStep, ...]
    neighbours: tuple[Neighbours, ...]
    margin: MarginStep | None
    cross_entropy: float | None  # −log p of the target, as training sees it

    @property
    def ranking(self) -> list[int]:
        """Class numbers, the most probable first; without centers, the most similar first."""
        scores = [s.logit for s in self.steps] or [n.mean_cosine for n in self.neighbours]
        return sorted(range(len(scores)), key=lambda number: -scores[number])

    def most_probable(self, count: int) -> list[int]:
        """The first `count` classes of the ranking, the target among them in any case."""
        numbers, target = self.ranking[:count], self.image.target
        return numbers if target is None or target in numbers else [*numbers[:-1], target]

    def json(self) -> dict[str, Any]:
        """Everything but the pixels, as JSON knows it."""
        image = asdict(self.image)
        del image["pixels"]
        return {
            "run": self.run,
            "loss": self.loss,
            "settings": self.settings,
            "subject": {**image, "notes": list(self.image.notes)},
            "embedding": list(self.embedding),
            "norm": self.norm,
            "classes": [asdict(step) for step in self.steps or self.neighbours],
            "margin": self.margin and {**asdict(self.margin), "as_if": self.margin.as_if},
            "cross_entropy": self.cross_entropy,
        }


@torch.no_grad()
def explain(view: RunView, image: ExplainedImage) -> Explanation:
    """Walk `image` through the run; the loss decides which steps there are."""
    pixels = image.pixels[..., None] if image.pixels.ndim == 2 else image.pixels  # (H, W, C)
    images = torch.tensor(pixels.transpose(2, 0, 1).copy())[None]  # (1, C, H, W)
    x = embed(view.network, images.to(view.trained.device)).cpu()  # (1, D)
    loss, names = view.loss, view.config.class_names or ()
    steps: tuple[ClassStep, ...] = ()
    neighbours: tuple[Neighbours, ...] = ()
    margin, cross_entropy = None, None
    if loss.classifies:
        label = None if image.target is None else torch.tensor([image.target])
        steps = _steps(loss, x, label, names)
        if label is not None:
            margin = _margin_step(loss, x, label)
            cross_entropy = F.cross_entropy(loss.logits(x, label), label).item()
    else:
        neighbours = _neighbours(view, x, image)
    return Explanation(
        run=str(view.run.path),
        loss=view.config.loss,
        settings=loss.settings(),
        image=image,
        embedding=tuple(x[0].tolist()),
        norm=unit_rows(x)[1].item(),
        steps=steps,
        neighbours=neighbours,
        margin=margin,
        cross_entropy=cross_entropy,
    )


def _steps(
    loss: Loss, x: Tensor, label: Tensor | None, names: tuple[str, ...]
) -> tuple[ClassStep, ...]:
    centers = widen(loss.trained_centers())  # (C, D)
    cosines = _cosines(loss, x)[0]  # (C,)
    logits = loss.logits(x)
    margined = loss.logits(x, label) if label is not None and _margin_of(loss) else None
    columns: list[list[float] | list[None]] = [
        (x @ centers.T)[0].tolist(),
        unit_rows(centers)[1].tolist(),
        cosines.tolist(),
        torch.rad2deg(angle(cosines)).tolist(),
        [None] * len(names) if loss.biases is None else loss.biases.tolist(),
        logits[0].tolist(),
        logits.softmax(dim=1)[0].tolist(),
        [None] * len(names) if margined is None else margined[0].tolist(),
        [None] * len(names) if margined is None else margined.softmax(dim=1)[0].tolist(),
    ]
    rows = zip(names, *columns, strict=True)
    return tuple(ClassStep(*row) for row in rows)


def _cosines(loss: Loss, x: Tensor) -> Tensor:
    """Cosines (B, C), by the same steps as in the loss."""
    assert loss.centers is not None
    directions = loss.centers if loss.normalized else unit_rows(loss.centers)[0]
    return unit_rows(widen(x))[0] @ directions.T


def _margin_of(loss: Loss) -> MarginSoftmax | None:
    """The part of the loss that holds the margin; None for softmax and where it does nothing."""
    base = loss.base if isinstance(loss, AuxiliaryLoss) else loss
    return base if isinstance(base, MarginSoftmax) and base.margin.settings() else None


def _margin_step(loss: Loss, x: Tensor, label: Tensor) -> MarginStep | None:
    holder = _margin_of(loss)
    if holder is None:
        return None
    cosine = _cosines(loss, x)[:, label].squeeze(1)  # (1,)
    step = int(holder.step)
    samples = Samples(label, unit_rows(widen(x))[1], step, holder.margin.warmup.strength(step))
    return MarginStep(
        angle=torch.rad2deg(angle(cosine)).item(),
        cosine=cosine.item(),
        margined=holder.margin(cosine, samples).item(),
    )


def _neighbours(view: RunView, x: Tensor, image: ExplainedImage) -> tuple[Neighbours, ...]:
    test = view.test
    cosines = (unit_rows(torch.from_numpy(test.embeddings))[0] @ unit_rows(x)[0].T)[:, 0]  # (N,)
    neighbours = []
    for number, name in enumerate(test.class_names):
        members = np.flatnonzero(test.labels == number)
        if image.part == "test":
            members = members[members != image.index]  # it is no neighbour of its own
        if not len(members):
            continue
        similar = cosines[torch.from_numpy(members)]
        nearest = int(similar.argmax())
        best = similar[nearest]
        degrees = torch.rad2deg(angle(best)).item()
        neighbours.append(
            Neighbours(name, similar.mean().item(), int(members[nearest]), best.item(), degrees)
        )
    return tuple(neighbours)


# In sentences


def introduction(explanation: Explanation) -> list[str]:
    """What is explained and by what, what was done to it, and its embedding."""
    settings = ", ".join(
        f"{key} {value if isinstance(value, str) else f'{value:g}'}"
        for key, value in explanation.settings.items()
    )
    how = f"{explanation.loss}: {settings}" if settings else explanation.loss
    x = explanation.embedding
    numbers = ", ".join(f"{value:.4g}" for value in x[:8])
    more = f", … {len(x)} numbers" if len(x) > 8 else ""
    return [
        f"{explanation.image.source}, through {explanation.run} ({how})",
        *(f"note: {note}" for note in explanation.image.notes),
        f"embedding x = ({numbers}{more}), ‖x‖ = {explanation.norm:.4g}",
    ]


def conclusion(explanation: Explanation) -> list[str]:
    """What comes of it; the first sentence is the verdict."""
    image, loss = explanation.image, explanation.loss
    if not explanation.steps:
        most = explanation.neighbours[explanation.ranking[0]].name
        return [
            f"{image.source}, is on average most similar to {most!r}",
            f"{loss} learns distances between samples and has no class centers: there are no "
            "logits and no probabilities, so it is compared with the test samples of each class",
        ]
    lines = [_verdict(explanation)]
    if image.part == "unseen":
        nearest = sorted(explanation.steps, key=lambda step: step.angle)[:3]
        near = ", ".join(f"{step.name} at {step.angle:.1f}°" for step in nearest)
        lines.append(f"nearest centers: {near}")
    margin = explanation.margin
    if margin is not None:
        as_if = "beyond 180°" if margin.as_if is None else f"{margin.as_if:.2f}°"
        lines.append(
            f"the margin moves the target's cosine from {margin.cosine:.4f} "
            f"(θ = {margin.angle:.2f}°) to {margin.margined:.4f}, as if θ were {as_if}"
        )
    elif image.target is not None:
        lines.append(f"{loss} has no margin here: training sees the same scores")
    if explanation.cross_entropy is not None:
        added = f", before the term that {loss} adds" if "weight" in explanation.settings else ""
        lines.append(f"in training it would cost −log p = {explanation.cross_entropy:.4f}{added}")
    return lines


def _verdict(explanation: Explanation) -> str:
    best = explanation.ranking[0]
    step, image = explanation.steps[best], explanation.image
    sure = format_probability(step.probability)
    verdict = f"{image.source}, is named {step.name!r} with probability {sure}"
    if image.part == "unseen":
        return f"{verdict}: wrong, as every name it could give"
    if image.target is None:
        return verdict
    return verdict + (", rightly" if best == image.target else f": wrong, it is {image.truth!r}")


def format_probability(value: float) -> str:
    """Four digits; where they would say 0 or 1, the order of magnitude or a bound instead.

    >>> format_probability(0.87654321), format_probability(2e-7), format_probability(1 - 2e-7)
    ('0.8765', '2e-07', '> 0.9999')
    """
    if value >= 0.99995:
        return "> 0.9999"
    return f"{value:.4f}" if value >= 5e-5 else f"{value:.0e}"


# As a picture

MOST_CLASSES = 10  # bars and center names
_HALO = [withStroke(linewidth=2.5, foreground="white")]


@style()
def explanation_picture(view: RunView, explanation: Explanation) -> Figure:
    """The image, the embedding among the test samples with the centers' angles, and bars.

    Directions are shown: of two dimensions as they are, of more by PCA of unit vectors.
    """
    figure = new_figure(11.5, 4.4)
    grid = figure.add_gridspec(
        1, 3, width_ratios=(1, 2.1, 1.9), left=0.02, right=0.98, bottom=0.14, top=0.82, wspace=0.22
    )
    draw_image(figure.add_subplot(grid[0]), explanation.image.pixels, explanation.image.source)
    _draw_embedding(figure.add_subplot(grid[1]), view, explanation)
    bars = figure.add_subplot(grid[2])
    if explanation.steps:
        _draw_probabilities(bars, explanation)
    else:
        _draw_cosines(bars, explanation)
    title = f"{view.title}: {conclusion(explanation)[0]}"
    figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    return figure


def _draw_embedding(axes: Axes, view: RunView, explanation: Explanation) -> None:
    """Test samples, the image as a star, and the centers with their angles to it."""
    test = view.test
    x = np.array(explanation.embedding)
    cloud: Floats = test.embeddings.astype(np.float64)
    flat = len(x) == 2
    if not flat or view.loss.normalized:
        cloud, x = unit_float64(cloud), unit_float64(x[None])[0]
    plane = Projection.fit(cloud)
    points, star = plane(cloud), plane(x[None])[0]
    draw_cloud(axes, points, test.labels)
    reach = float(np.linalg.norm(points, axis=1).max())
    if view.loss.centers is not None:
        centers = unit_float64(view.loss.centers.double().numpy())
        tips = centers * reach * 1.12 if flat else plane(centers)
        _draw_centers(axes, explanation, tips, star, rays=flat)
        if flat:
            _draw_angle(axes, explanation, star, centers, reach)
    axes.scatter(
        [star[0]], [star[1]], s=190, marker="*", color=INK, edgecolors="white", zorder=8, label="x"
    )
    axes.margins(0.12)
    space = "unit vectors" if view.loss.normalized else "raw embeddings, centers as directions"
    axes.set_xlabel(plane.note or space, fontsize=8.5, color=GREY)
    axes.set_title(f"★ the image   ‖x‖ = {explanation.norm:.3g}", fontsize=10)


def _draw_centers(
    axes: Axes, explanation: Explanation, tips: Floats, star: Floats, *, rays: bool
) -> None:
    for number in reversed(explanation.ranking[:MOST_CLASSES]):  # the most probable on top
        colour, step = class_colour(number), explanation.steps[number]
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
    axes: Axes, explanation: Explanation, star: Floats, centers: Floats, reach: float
) -> None:
    """The angle between the image and its target, or else the nearest center."""
    class_number = explanation.image.target
    if class_number is None:
        class_number = int(np.argmin([step.angle for step in explanation.steps]))
    axes.plot([0, star[0]], [0, star[1]], color=INK, lw=1.6, zorder=5)
    start, stop = (math.degrees(math.atan2(v[1], v[0])) for v in (centers[class_number], star))
    turn = math.remainder(stop - start, 360)
    low, high = sorted((start, start + turn))
    axes.add_patch(
        Arc((0, 0), reach * 0.7, reach * 0.7, theta1=low, theta2=high, color=INK, lw=1.6, zorder=5)
    )


def _draw_probabilities(axes: Axes, explanation: Explanation) -> None:
    numbers, target = explanation.most_probable(MOST_CLASSES), explanation.image.target
    steps = [explanation.steps[number] for number in numbers]
    plain = [step.probability for step in steps]
    margined = [step.margined_probability for step in steps]
    kinds = [("without margin", plain, PALETTE[0])]
    if explanation.margin is not None:
        kinds.append(("with margin, as in training", [m or 0.0 for m in margined], PALE))
    _bars(axes, kinds)
    names = [explanation.steps[n].name + (" (target)" if n == target else "") for n in numbers]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(0, 1.14)
    axes.set_xlabel("probability")


def _draw_cosines(axes: Axes, explanation: Explanation) -> None:
    near = [explanation.neighbours[number] for number in explanation.ranking[:MOST_CLASSES]]
    _bars(axes, [("", [n.mean_cosine for n in near], PALETTE[0])])
    axes.set_yticks(range(len(near)), [n.name for n in near])
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_xlim(-1.25, 1.25)
    axes.set_xlabel("mean cosine to the class's test samples (there are no centers)")


def _bars(axes: Axes, kinds: list[tuple[str, list[float], str]]) -> None:
    """Horizontal bars, the first class on top, each with its value at the end."""
    height = 0.8 / len(kinds)
    for position, (label, values, colour) in enumerate(kinds):
        at = np.arange(len(values)) + (position - (len(kinds) - 1) / 2) * height
        bars = axes.barh(
            at, values, height * 0.92, color=colour, edgecolor=GREY, linewidth=0.5, label=label
        )
        texts = [f"{value:.3f}" if abs(value) >= 5e-4 else "" for value in values]
        axes.bar_label(bars, texts, padding=2, fontsize=8)
    axes.invert_yaxis()
    if len(kinds) > 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)
