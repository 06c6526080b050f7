"""What one panel shows at one moment, taken from a run: a scene."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice
from arcset.errors import OptionError, RunError
from arcset.reports.view import Frame, RunView

__all__ = [
    "Floats",
    "Scene",
    "check_alike",
    "epoch_scenes",
    "flattened",
    "principal",
    "still_scene",
    "titles",
]

Floats: TypeAlias = npt.NDArray[np.floating]
Labels: TypeAlias = npt.NDArray[np.int64]

PARTS = ("train", "test")


@dataclass(frozen=True, eq=False)
class Scene:
    """Embeddings of known and unseen classes with the classifier that goes with them.

    kind: where they live: `circle` and `sphere` (unit vectors), `plane` and `space` (raw), or
        `shadow` (more than three dimensions, to be seen through `flattened`).
    """

    title: str
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


def still_scene(view: RunView, part: str = "test") -> Scene:
    """The trained run: all test samples and all unseen ones, or the kept training samples."""
    check_choice("part", part, PARTS)
    known = view.test if part == "test" else view.sampled(part) if view.frames else None
    if known is None:
        raise _nothing_kept(view)
    centers, biases = (
        None if tensor is None else tensor.detach().float().numpy()
        for tensor in (view.loss.centers, view.loss.biases)
    )
    unseen = view.unseen if part == "test" else None
    if unseen is None:
        return _scene(view, part, (known.embeddings, None), centers, biases, known.labels, None)
    shown = (known.embeddings, unseen.embeddings)
    return _scene(view, part, shown, centers, biases, known.labels, unseen.labels)


def epoch_scenes(view: RunView, part: str = "test") -> dict[int, Scene]:
    """The kept samples over the epochs: epoch → scene. Raises `RunError` where none are kept."""
    check_choice("part", part, PARTS)
    if not view.frames or not len(view.frames[-1].parts.get(part, ())):
        raise _nothing_kept(view)
    labels = view.run.samples()
    rows = labels[f"{part}.labels"].numpy()
    others = labels["unseen.labels"].numpy() if _has_unseen(view.frames[-1], part) else None

    def scene(frame: Frame) -> Scene:
        unseen = frame.parts["unseen"] if others is not None else None
        shown = (frame.parts[part], unseen)
        return _scene(view, part, shown, frame.centers, frame.biases, rows, others)

    return {frame.epoch: scene(frame) for frame in view.frames}


def check_alike(views: Sequence[RunView], *, dim: bool = False) -> None:
    """Raise `OptionError` unless there are runs, all with the same data and classes (and dim)."""
    if not views:
        raise OptionError("a picture needs at least one run")
    first = views[0]
    for view in views[1:]:
        for setting in ("data", "classes", *(["dim"] if dim else [])):
            ours, theirs = getattr(first.config, setting), getattr(view.config, setting)
            if ours != theirs:
                raise OptionError(
                    f"runs in one picture need the same {setting}: {first.title} has "
                    f"{_said(ours)}, {view.title} has {_said(theirs)}"
                )


def titles(views: Sequence[RunView]) -> list[str]:
    """What each run is called; where two folders have one name, the folder above tells them apart.

    Runs that are still called the same are numbered.
    """
    names = [view.title for view in views]
    if len(set(names)) < len(names):
        names = [f"{view.run.path.resolve().parent.name}/{view.title}" for view in views]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    return names


def principal(embeddings: Floats) -> tuple[Floats, Floats, float]:
    """PCA to the plane: mean (D,), basis (D, 2), and the share of the variance that it shows."""
    mean = embeddings.mean(axis=0)
    # A single sample has no direction: a row of zeros changes nothing, and some are found.
    centered = np.concatenate([embeddings - mean, np.zeros_like(embeddings[:1])])
    _, sizes, rows = np.linalg.svd(centered, full_matrices=False)
    # Either sign of a direction is as good; the largest entry positive makes it one answer.
    signs = np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)])
    total = float((sizes**2).sum())
    share = float((sizes[:2] ** 2).sum()) / total if total else 1.0
    return mean, (rows[:2] * signs[:2, None]).T, share


def flattened(scene: Scene, plane: tuple[Floats, Floats, float] | None = None) -> Scene:
    """A scene of more than three dimensions as its PCA shadow; others come back as they are.

    `plane` comes from `principal`; where it is not given, the known embeddings decide it.
    """
    if scene.kind != "shadow":
        return scene
    mean, basis, share = plane or principal(scene.known)
    return replace(
        scene,
        known=(scene.known - mean) @ basis,
        unseen=(scene.unseen - mean) @ basis,
        centers=None if scene.centers is None else (scene.centers - mean) @ basis,
        origin=-mean @ basis,
        note=f"PCA of {len(mean)} dimensions: {share:.0%} of the variance shown",
    )


def _scene(
    view: RunView,
    part: str,
    shown: tuple[Floats, Floats | None],
    centers: Floats | None,
    biases: Floats | None,
    labels: Labels,
    unseen_labels: Labels | None,
) -> Scene:
    known, unseen = shown
    dim, normalized = known.shape[1], view.loss.normalized
    kinds = {2: "circle", 3: "sphere"} if normalized else {2: "plane", 3: "space"}
    if biases is not None and normalized:
        biases = biases / float(view.loss.settings().get("scale", 1.0))
    others = view.selection.unseen
    return Scene(
        title=view.title,
        kind=kinds.get(dim, "shadow"),
        known=known,
        labels=labels,
        names=view.selection.known.class_names,
        unseen=np.empty((0, dim), np.float32) if unseen is None else unseen,
        unseen_labels=np.empty(0, np.int64) if unseen_labels is None else unseen_labels,
        unseen_names=others.class_names if others is not None and part == "test" else (),
        centers=centers,
        biases=biases,
        normalized=normalized,
        origin=np.zeros(dim, np.float32),
    )


def _has_unseen(frame: Frame, part: str) -> bool:
    return part == "test" and "unseen" in frame.parts


def _nothing_kept(view: RunView) -> RunError:
    return RunError(
        f"{view.run.path} keeps no embeddings of its epochs; train it with --set snapshot=1000"
    )


def _said(value: object) -> str:
    return "all" if value is None else str(value)
