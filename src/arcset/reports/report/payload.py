"""What the interactive view is drawn from: every kept epoch of every run, in few bytes.

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
from arcset.reports.page import sprite_sheet
from arcset.reports.report.angles import sample_angles, unit
from arcset.reports.report.space import Space
from arcset.reports.style import DARK_PALETTE, PALETTE
from arcset.reports.view import Embedded, Frame, RunView

__all__ = ["class_list", "quantized", "viewer_data"]

PARTS = ("train", "test", "unseen")

Floats = npt.NDArray[np.floating[Any]]


def viewer_data(
    views: Sequence[RunView],
    *,
    labels: Mapping[str, str],
    groups: Mapping[str, Sequence[str]],
    points: int,
) -> dict[str, Any]:
    """Everything the page's viewer reads; runs that kept no epochs are left out."""
    kept = [view for view in views if view.frames]
    classes = class_list(kept)
    sprites: dict[bytes, dict[str, Any]] = {}
    heading = {title: group for group, titles in groups.items() for title in titles}
    runs = []
    for view in kept:
        run = _run(view, classes, sprites, points)
        name, group = labels.get(view.title, view.title), heading.get(view.title, "")
        runs.append({"name": name, "group": group, **run})
    sheets = list(sprites.values())
    return {
        "classes": classes,
        "colours": {"light": PALETTE, "dark": DARK_PALETTE},
        "sprites": sheets,
        "runs": runs,
    }


def class_list(views: Sequence[RunView]) -> list[str]:
    """All class names of the runs, each once; numbers in their order."""
    names: dict[str, None] = {}
    for view in views:
        for part in (view.selection.known, view.selection.unseen):
            names.update(dict.fromkeys(part.class_names if part is not None else ()))
    found = list(names)
    return sorted(found, key=int) if all(name.isdecimal() for name in found) else found


def quantized(values: Floats) -> tuple[float, str]:
    """`values` as base64 of little-endian int16, and the factor that turns those back."""
    peak = float(np.abs(values).max(initial=0.0)) or 1.0
    if not np.isfinite(peak):
        raise InputError("the kept embeddings hold values that are not finite")
    whole = np.round(np.asarray(values, np.float64) / peak * 32767).astype("<i2")
    return peak / 32767, base64.b64encode(whole.tobytes()).decode()


def _run(
    view: RunView, classes: list[str], sprites: dict[bytes, dict[str, Any]], points: int
) -> dict[str, Any]:
    space = Space.of(view)
    number = {name: place for place, name in enumerate(classes)}
    samples = {part: view.sampled(part) for part in PARTS}
    parts = []
    centers = [_centers(frame, samples) for frame in view.frames]  # each (C, D)
    for name, sample in samples.items():
        if sample is None:
            continue
        chosen = _evenly(len(sample.labels), points)
        images = sample.images[chosen]
        key = repr(images.shape).encode() + images.tobytes()
        if key not in sprites:  # runs on the same data share their thumbnails
            sprites[key] = sprite_sheet(images)
        own = None if name == "unseen" else sample.labels[chosen]
        frames = []
        for frame, directions in zip(view.frames, centers, strict=True):
            rows = frame.parts[name][chosen]
            scale, drawn = quantized(space.shown(rows))
            angles = sample_angles(rows, directions, own).astype("<u2").tobytes()
            frames.append(
                {"scale": scale, "points": drawn, "angles": base64.b64encode(angles).decode()}
            )
        numbers = [number[sample.class_names[label]] for label in sample.labels[chosen]]
        sheet = list(sprites).index(key)
        parts.append({"name": name, "sprite": sheet, "classes": numbers, "frames": frames})
    shown_centers = [space.shown(unit(rows)).round(4).tolist() for rows in centers]
    return {
        "epochs": [frame.epoch for frame in view.frames],
        "known": [number[name] for name in view.selection.train.class_names],
        "dim": space.dim,
        "unit": view.loss.normalized,
        "flat": view.config.dim > 3,
        "radius": round(space.radius, 6),
        "means": view.frames[-1].centers is None,
        "notes": space.notes(view),
        "centers": shown_centers,
        "parts": parts,
    }


def _centers(frame: Frame, samples: Mapping[str, Embedded | None]) -> Floats:
    """The class centers, or the mean directions of the classes for a loss that has none."""
    if frame.centers is not None:
        return frame.centers
    part = "train" if "train" in frame.parts else "test"
    sample = samples[part]
    assert sample is not None  # the frame has this part
    rows, count = unit(frame.parts[part]), len(sample.class_names)
    return np.stack([rows[sample.labels == label].sum(0) for label in range(count)])


def _evenly(count: int, most: int) -> npt.NDArray[np.int64]:
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
