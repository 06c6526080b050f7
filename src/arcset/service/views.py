"""Trained runs to look at on the page: what its viewer draws of them.

A run is read when it is first asked for, and what was made of it is kept as bytes: the page asks
for the same few again and again. A run that trains on is read anew.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from arcset.errors import RunError
from arcset.runs import Run

__all__ = ["Views"]

MOST_POINTS = 500  # of each part, and
MOST_EPOCHS = 60  # together about 1 MB
MOST_KEPT = 16  # runs whose bytes stay in memory


class Views:
    """The runs that a server was given to show.

    Runs have an id: the name of their folder, with the one above where two are called the same.
    """

    def __init__(self, runs: dict[str, Path]) -> None:
        self._runs = runs
        self._made: OrderedDict[tuple[str, tuple[int, ...], float], bytes] = OrderedDict()
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

    def get(self, name: str) -> bytes | None:
        """The run of this id as JSON for viewer.js; None where there is none that kept epochs.

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
                self._made[key] = _read(path)
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
            "pictured": bool(epochs),
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


def _read(path: Path) -> bytes:
    from arcset.reports.view import RunView  # brings torch and matplotlib
    from arcset.reports.viewer import viewer_data

    data = viewer_data([RunView(path)], points=MOST_POINTS, epochs=MOST_EPOCHS)
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
