"""Trained runs to look at on the page: what its viewer draws of them.

A run is read when it is first asked for, and what was made of it is kept as bytes: the page asks
for the same few again and again. A run that trains on is read anew.
"""

import json
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from arcset.errors import RunError
from arcset.runs import Run
from arcset.service.models import RunEntry

MOST_POINTS = 500  # of each part, and
MOST_EPOCHS = 60  # together about 1 MB
MOST_KEPT = 16  # runs whose bytes stay in memory


class Views:
    """The runs that a server was given to show.

    folders: of runs, or folders that hold some, such as comparisons. Only configurations are read
        now. Raises `RunError` where there is no run.

    Runs have an id: the name of their folder, with the one above where two are called the same.
    """

    def __init__(self, folders: Iterable[Path | str]) -> None:
        paths: dict[Path, Path] = {}
        for folder in map(Path, folders):
            is_run = (folder / "config.toml").is_file()
            inside = [folder] if is_run else sorted(f.parent for f in folder.glob("*/config.toml"))
            if not inside:
                raise RunError(f"{folder} holds no run: there is no config.toml in it or below it")
            for path in inside:
                Run.open(path)  # a damaged one is told at the start, and not to a visitor
                paths.setdefault(path.resolve(), path)
        self._runs = _name_runs(list(paths.values()))
        self._lock = threading.Lock()

    def entries(self) -> list[RunEntry]:
        """What there is to look at."""
        return [_entry(name, path) for name, path in self._runs.items()]

    def read(self, name: str) -> bytes | None:
        """The run of this id as JSON for viewer.js; None where there is none that kept epochs.

        Takes seconds at the first time. Raises `RunError` or `DataError` for a run that cannot be
        read, or whose data are gone.
        """
        path = self._runs.get(name)
        if path is None or not (epochs := _entry(name, path).epochs):
            return None
        with self._lock:  # so that a run is read once, however many ask
            return _read_run(path, tuple(epochs), (path / "embeddings").stat().st_mtime)


def _entry(name: str, path: Path) -> RunEntry:
    run = Run.open(path)
    config, epochs = run.config, list(run.epochs())
    return RunEntry(
        id=name,
        title=name,
        loss=str(config.loss),
        dim=config.dim,
        epochs=epochs,
        pictured=bool(epochs),
    )


def _name_runs(paths: Sequence[Path]) -> dict[str, Path]:
    """An id for each: its folder's name; with the folder above or a number where that is taken."""
    names = [path.resolve().name for path in paths]
    runs: dict[str, Path] = {}
    for path, name in zip(paths, names, strict=True):
        if names.count(name) > 1:
            name = f"{path.resolve().parent.name}-{name}"
        number, free = 1, name
        while free in runs:
            number += 1
            free = f"{name}-{number}"
        runs[free] = path
    return runs


@lru_cache(maxsize=MOST_KEPT)
def _read_run(path: Path, epochs: tuple[int, ...], changed: float) -> bytes:
    from arcset.reports.view import RunView  # brings torch and matplotlib
    from arcset.reports.viewer import viewer_data

    data = viewer_data([RunView(path)], points=MOST_POINTS, epochs=MOST_EPOCHS)
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
