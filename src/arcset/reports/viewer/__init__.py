"""What viewer.js draws: every kept epoch of every run, in few bytes; viewer.js says in which form.

Per run, part and epoch: the points as int16 with one scale factor, and for every point three
uint16: the angle to its own center and to the nearest other one, in steps of 0.01°, and which that
is. The angles are computed here, from all dimensions, so that the page shows them as they are even
where it can only draw a projection.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.reports.embedding_plot import Projection
from arcset.reports.page import choose_evenly, sprite_sheet
from arcset.reports.style import DARK_PALETTE, PALETTE
from arcset.reports.view import Embedded, Floats, Frame, RunView, unit_float64

__all__ = ["NO_ANGLE", "quantize", "sample_angles", "viewer_data"]

NO_ANGLE = 65535  # where there is none: an unseen class has no center of its own
PARTS = ("train", "test", "unseen")


def viewer_data(
    views: Sequence[RunView],
    *,
    groups: Mapping[str, str] | None = None,
    points: int = 500,
    epochs: int | None = None,
) -> dict[str, Any]:
    """Everything that viewer.js reads; runs that kept no epochs are left out.

    groups: the heading over the choice of runs, by the run's title.
    points: most samples per part; 500 keep eight runs below 3 MB.
    epochs: most epochs per run, evenly spread from the first to the last; by default all.
    """
    views = [view for view in views if view.frames]
    classes = _class_names(views)
    sheets: dict[bytes, dict[str, Any]] = {}
    runs = [
        {
            "name": view.title,
            "group": (groups or {}).get(view.title, ""),
            **_run(
                view,
                classes,
                sheets,
                points,
                choose_evenly(view.frames, epochs or len(view.frames)),
            ),
        }
        for view in views
    ]
    return {
        "classes": classes,
        "colours": {"light": PALETTE, "dark": DARK_PALETTE},
        "sheets": list(sheets.values()),
        "runs": runs,
    }


def _class_names(views: Sequence[RunView]) -> list[str]:
    """All class names of the runs, each once; numbers in their order."""
    parts = [part for view in views for part in (view.selection.known, view.selection.unseen)]
    names = list(dict.fromkeys(name for part in parts if part for name in part.class_names))
    return sorted(names, key=int) if all(name.isdecimal() for name in names) else names


def _run(
    view: RunView,
    classes: list[str],
    sheets: dict[bytes, dict[str, Any]],
    points: int,
    frames: Sequence[Frame],
) -> dict[str, Any]:
    number = {name: position for position, name in enumerate(classes)}
    samples = {part: view.sampled(part) for part in PARTS}
    directions = [_centers(frame, samples) for frame in frames]  # each (C, D)
    normalized, last = view.loss.normalized, frames[-1]
    # About the origin: it stays where it is, from where angles are measured.
    axes = Projection.fit(_finite(last.parts["test"]), 3, centered=False)
    parts = []
    for name, sample in samples.items():
        if sample is None:
            continue
        chosen = np.array(choose_evenly(range(len(sample.labels)), points))
        images = sample.images[chosen]
        key = repr(images.shape).encode() + images.tobytes()
        if key not in sheets:  # runs on the same data share their thumbnails
            sheets[key] = sprite_sheet(images)
        labels = sample.labels[chosen]
        drawn = [
            _drawn(frame.parts[name][chosen], axes, centers, None if name == "unseen" else labels)
            for frame, centers in zip(frames, directions, strict=True)
        ]
        parts.append(
            {
                "name": name,
                "sheet": list(sheets).index(key),
                "classes": [number[sample.class_names[label]] for label in labels],
                "frames": drawn,
            }
        )
    return {
        "epochs": [frame.epoch for frame in frames],
        "known": [number[name] for name in view.selection.train.class_names],
        "dim": axes.basis.shape[1],
        "unit": normalized,
        "flat": view.config.dim > 3,
        "radius": 1.0 if normalized else round(_radius(frames, axes), 6),
        "means": last.centers is None,
        "notes": _notes(view, axes),
        "centers": [axes(unit_float64(rows)).round(4).tolist() for rows in directions],
        "parts": parts,
    }


def _drawn(
    rows: Floats, axes: Projection, centers: Floats, labels: npt.NDArray[np.int64] | None
) -> dict[str, Any]:
    scale, points = quantize(axes(rows))
    angles = _base64(sample_angles(rows, centers, labels), "<u2")
    return {"scale": scale, "points": points, "angles": angles}


def _centers(frame: Frame, samples: Mapping[str, Embedded | None]) -> Floats:
    """The class centers, or the mean directions of the classes for a loss that has none."""
    if frame.centers is not None:
        return frame.centers
    part = "train" if "train" in frame.parts else "test"
    sample = samples[part]
    assert sample is not None  # the frame has this part
    rows, count = unit_float64(frame.parts[part]), len(sample.class_names)
    return np.stack([rows[sample.labels == label].sum(0) for label in range(count)])


def _radius(frames: Sequence[Frame], axes: Projection) -> float:
    """Of what is drawn; the few farthest out may leave the picture."""
    lengths = [
        np.quantile(np.linalg.norm(axes(part), axis=1), 0.995)
        for frame in frames
        for part in frame.parts.values()
    ]
    return float(max(lengths)) or 1.0


def _notes(view: RunView, axes: Projection) -> list[str]:
    """What a reader must know to read the drawing rightly."""
    notes, dim, normalized = [], view.config.dim, view.loss.normalized
    if dim > 3:
        notes.append(
            f"{dim} dimensions, drawn in the 3 that hold most of the test samples' squared length "
            f"({axes.share:.0%}). Angles are measured in all {dim}."
        )
    if normalized and dim == 2:
        notes.append(
            "Only the direction counts, so every point belongs on the circle; the parts are "
            "drawn as rings: training inside, test on it, unseen outside."
        )
    if not normalized:
        bias = view.frames[-1].biases is not None
        notes.append(
            "Length counts here: points lie at their own distance, centers show a direction "
            + ("only, and the bias moves the borders between them." if bias else "only.")
        )
    if view.frames[-1].centers is None:
        notes.append(
            "This loss has no centers; the dashed ones are the mean directions of the kept "
            "training samples."
        )
    return notes


def quantize(values: Floats) -> tuple[float, str]:
    """`values` as base64 of little-endian int16, and the factor that turns those back."""
    wide = _finite(values)
    peak = float(np.abs(wide).max(initial=0.0)) or 1.0
    return peak / 32767, _base64(np.round(wide / peak * 32767), "<i2")


def _finite(values: Floats) -> npt.NDArray[np.float64]:
    if not np.isfinite(values).all():
        raise InputError("the kept embeddings hold values that are not finite")
    return np.asarray(values, np.float64)


def sample_angles(
    embeddings: Floats, centers: Floats, labels: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.uint16]:
    """(N, 3): 0.01° to the own center, to the nearest other one, and that one's number.

    `labels` is None where the samples belong to no center; the nearest of all is the second column.
    """
    cosines = unit_float64(embeddings) @ unit_float64(centers).T  # (N, C)
    steps = np.degrees(np.arccos(cosines.clip(-1, 1))) * 100
    angles = np.full((len(embeddings), 3), NO_ANGLE, np.uint16)
    rows = np.arange(len(embeddings))
    if labels is not None:
        angles[:, 0] = np.round(steps[rows, labels])
        steps[rows, labels] = np.inf
    if labels is None or len(centers) > 1:
        angles[:, 2] = steps.argmin(1)
        angles[:, 1] = np.round(steps.min(1))
    return angles


def _base64(values: npt.NDArray[Any], dtype: str) -> str:
    return base64.b64encode(values.astype(dtype).tobytes()).decode()
