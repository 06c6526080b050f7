"""Trained runs to look at on the page: points over the epochs, and a sheet of their images.

A run is read when it is first asked for, and what was made of it is kept as bytes: the page asks
for the same few again and again. A run that trains on is read anew.
"""

import io
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.errors import InputError, RunError
from arcset.runs import Run

__all__ = ["Made", "Views"]

PARTS = ("train", "test", "unseen")
MOST_POINTS = 1500
MOST_FRAMES = 60
MOST_NUMBERS = 200_000  # in the JSON of a run: about 1.6 MB
MOST_KEPT = 16  # runs whose bytes stay in memory
TILE = 28  # pixels of an image on the sheet; larger ones are made smaller, up to twice this

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Made:
    """A run as the page takes it: JSON and a PNG, ready to be sent."""

    content: bytes
    sprite: bytes


class Views:
    """The runs that a server was given to show.

    Runs have an id: the name of their folder, with the one above where two are called the same.
    """

    def __init__(self, runs: dict[str, Path]) -> None:
        self._runs = runs
        self._made: OrderedDict[tuple[str, tuple[int, ...], float], Made] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, folders: Iterable[Path | str]) -> "Views":
        """Of run folders, and of folders that hold some, such as comparisons.

        Only configurations are read now. Raises `RunError` where there is no run.
        """
        found: list[Path] = []
        for folder in map(Path, folders):
            if (folder / "config.toml").is_file():
                inside = [folder]
            else:
                inside = sorted(file.parent for file in folder.glob("*/config.toml"))
            if not inside:
                raise RunError(f"{folder} holds no run: there is no config.toml in it or below it")
            for path in inside:
                Run.open(path)  # a damaged one is told at the start, and not to a visitor
                if path.resolve() not in (known.resolve() for known in found):
                    found.append(path)
        return cls(_named(found))

    def __len__(self) -> int:
        return len(self._runs)

    def listing(self) -> list[dict[str, Any]]:
        """What there is: id, title, loss, dim, kept epochs, and whether it can be pictured."""
        return [self._entry(name, path) for name, path in self._runs.items()]

    def get(self, name: str) -> Made | None:
        """The run of this id; None where there is none, or none that can be pictured.

        Takes seconds at the first time. Raises `RunError` or `DataError` for a run that cannot be
        read, or whose data are gone.
        """
        path = self._runs.get(name)
        if path is None:
            return None
        entry = self._entry(name, path)
        if not entry["pictured"]:
            return None
        with self._lock:
            key = (name, tuple(entry["epochs"]), (path / "embeddings").stat().st_mtime)
            if key not in self._made:
                for other in [other for other in self._made if other[0] == name]:
                    del self._made[other]
                self._made[key] = _make(entry, path)
            self._made.move_to_end(key)
            while len(self._made) > MOST_KEPT:
                self._made.popitem(last=False)
            return self._made[key]

    @staticmethod
    def _entry(name: str, path: Path) -> dict[str, Any]:
        run = Run.open(path)
        epochs = run.epochs()
        return {
            "id": name,
            "title": name,
            "loss": run.config.loss,
            "dim": run.config.dim,
            "epochs": epochs,
            "pictured": run.config.dim in (2, 3) and bool(epochs),
        }


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """An id for each: its folder's name; with the folder above or a number where that is taken."""
    names = [path.resolve().name for path in paths]
    found: dict[str, Path] = {}
    for path, name in zip(paths, names, strict=True):
        if names.count(name) > 1:
            name = f"{path.resolve().parent.name}-{name}"
        number, free = 1, name
        while free in found:
            number += 1
            free = f"{name}-{number}"
        found[free] = path
    return found


def _make(entry: dict[str, Any], path: Path) -> Made:
    from arcset.reports.view import RunView  # brings torch and matplotlib

    view = RunView(path)
    dim = view.config.dim
    frames = [view.frames[place] for place in _evenly(len(view.frames), MOST_FRAMES)]
    room = min(MOST_POINTS, MOST_NUMBERS // (dim * len(frames)))
    parts = {part: view.sampled(part) for part in PARTS}
    there = {part: sample for part, sample in parts.items() if sample is not None}
    total = sum(len(sample.labels) for sample in there.values())
    classes: dict[str, int] = {}
    for sample in there.values():
        for class_name in sample.class_names:
            classes.setdefault(class_name, len(classes))
    chosen: dict[str, Whole] = {}
    labels: list[int] = []
    belongs: list[str] = []
    images: list[npt.NDArray[np.uint8]] = []
    for part, sample in there.items():
        count = len(sample.labels)
        chosen[part] = _evenly(count, max(1, min(count, room * count // total)))
        rows = chosen[part]
        labels += [classes[sample.class_names[label]] for label in sample.labels[rows].tolist()]
        belongs += [part] * len(rows)
        images += list(sample.images[rows])
    if not images:
        raise InputError(f"{path} has kept no samples to show")
    sheet, size, columns = _sheet(images)
    known = there.get("test") or next(iter(there.values()))
    content = {
        **{name: entry[name] for name in ("id", "title", "loss", "dim")},
        "unit": bool(view.loss.normalized),  # only directions count: all points on the sphere
        "classes": list(classes),
        "known": [classes[name] for name in known.class_names],
        "labels": labels,
        "parts": belongs,
        "frames": [
            {
                "epoch": frame.epoch,
                "points": _numbers(
                    np.concatenate([frame.parts[part][rows] for part, rows in chosen.items()])
                ),
                "centers": None if frame.centers is None else _numbers(_unit(frame.centers)),
            }
            for frame in frames
        ],
        "sprite": {"size": size, "columns": columns},
    }
    return Made(json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode(), sheet)


def _numbers(values: npt.NDArray[Any]) -> list[float]:
    """All values, row by row, with four digits after the point."""
    wide = np.asarray(values, np.float64).ravel()
    if not np.isfinite(wide).all():
        raise InputError("the kept embeddings hold values that are not finite")
    found: list[float] = (np.round(wide, 4) + 0.0).tolist()  # + 0: no −0
    return found


def _unit(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    wide: npt.NDArray[np.float64] = np.asarray(rows, np.float64)
    lengths: npt.NDArray[np.float64] = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.maximum(lengths, 1e-12)


def _sheet(images: Sequence[npt.NDArray[np.uint8]]) -> tuple[bytes, int, int]:
    """All images on one PNG, row by row, in square tiles; its tile size and columns."""
    size = min(2 * TILE, max(TILE, *images[0].shape[:2]))
    columns = math.ceil(math.sqrt(len(images)))
    grey = all(image.ndim == 2 for image in images)
    sheet = Image.new(
        "L" if grey else "RGB", (columns * size, math.ceil(len(images) / columns) * size)
    )
    for place, image in enumerate(images):
        tile = Image.fromarray(image)
        scale = size / max(tile.size)
        if scale != 1:
            sides = (max(1, round(side * scale)) for side in tile.size)
            tile = tile.resize(tuple(sides), Image.Resampling.LANCZOS)
        left, top = place % columns * size, place // columns * size
        sheet.paste(tile, (left + (size - tile.width) // 2, top + (size - tile.height) // 2))
    small = sheet.quantize(16 if grey else 256, dither=Image.Dither.NONE)
    file = io.BytesIO()
    small.save(file, format="PNG", compress_level=8)
    return file.getvalue(), size, columns


def _evenly(count: int, most: int) -> Whole:
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
