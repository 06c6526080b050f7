"""A grid of settings: a run for each point and seed, one after another, and which is the best.

arcset sweep mnist-sample --set margin=0.2,0.3,0.5 --set scale=16,32 --out runs/sweep
"""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arcset.data import Dataset, ImageSet, Selection
from arcset.devices import choose_device
from arcset.distributed import join_group
from arcset.errors import OptionError, RunError, TrainingError
from arcset.files import finite, parse_json, write_text
from arcset.runs import Run, RunConfig
from arcset.runs.assess import assess_unseen, measure_run
from arcset.runs.data import selection_for
from arcset.runs.model import add_data_settings, build_model
from arcset.training.feeding import Feed
from arcset.training.loop import train
from arcset.training.progress import Watcher
from arcset.training.start import check_start, earlier_of
from arcset.training.stepping import check_stepping
from arcset.training.sweep_outcome import Point, Sweep

__all__ = ["READ_BY", "SAME", "Point", "Sweep", "sweep"]

#: Settings that all points share: they say whom the runs are judged on, and by what.
SAME = ("data", "classes", "split", "hold_out", "start", "best_by")
#: Settings that decide how the same data are read.
READ_BY = ("size", "channels", "fit", "invert")
_FILE = "sweep.json"


def sweep(
    points: Sequence[Point],
    seeds: int,
    out: Path | str,
    *,
    grid: dict[str, list[Any]] | None = None,
    device: str = "auto",
    watcher: Watcher | None = None,
    datasets: Sequence[tuple[RunConfig, Dataset]] = (),
    ready: Callable[[], None] | None = None,
) -> Sweep:
    """Train every point with seeds 0 … seeds − 1 into `out`/NAME-SEED, measure each, choose.

    Called again with the same points it goes on where it was stopped or killed. `out`/sweep.json
    has the grid from the start, and every result as soon as it is there. A run whose loss is no
    longer finite is noted, and the others go on.

    `grid` is what the points span, for the record. `datasets` are the data as certain
    configurations read them, where somebody has done so already. `ready` is called when all
    settings have been found to fit. Of several processes the first alone measures: the others'
    outcome has no runs.

    Raises, before anything is written:
        OptionError: a setting that does not fit, points that are not comparable, or nobody held out
            to compare them on.
        RunError: `out` holds another sweep, or something else in the way.
    """
    out = Path(out)
    group = join_group(choose_device(device))
    _check_points(points, seeds)
    selections = _selections(points, datasets)
    _check_identities(list(selections.values()))
    for point in points:
        _check(point, selections[_reading(point.config)], device)
    spanned = json.loads(json.dumps(grid or _grid(points)))  # as the file will have it
    held = selections[_reading(points[0].config)].validation
    identities = 0 if held is None else len(held.class_names)
    outcome = Sweep(spanned, list(points), seeds, identities=identities)
    if (out / _FILE).exists():
        _check_same(out, outcome)
    else:
        for point in points:
            for seed in range(seeds):
                Run.check_place(out / f"{point.folder}-{seed}")
    group.barrier()  # all have looked at what is there
    if ready is not None:
        ready()
    written = _Record(out / _FILE, outcome) if group.is_main else None
    if written is not None:
        written.write()
    for point in points:
        selection = selections[_reading(point.config)]
        for seed in range(seeds):
            place, config = out / f"{point.folder}-{seed}", point.config.replace(seed=seed)
            entry = {"name": point.name, "values": point.values, "seed": seed, "run": str(place)}
            failed = None
            try:
                trained = train(
                    config, place, device=device, again=True, watcher=watcher, selection=selection
                )
            except TrainingError as error:
                failed = str(error)
            if written is None:
                continue
            if failed is not None:
                outcome.runs.append({**entry, "failed": failed})
            else:
                unseen = assess_unseen(trained) if _tells(selection.unseen) else None
                if unseen is not None:
                    outcome.unseen.setdefault(point.name, []).append(unseen)
                figures = measure_run(trained, unseen)
                outcome.runs.append(
                    {**entry, **_validation(trained), **figures, **_course(trained)}
                )
            written.write()
    if written is not None:
        written.finish()
    group.barrier()  # nobody leaves while others still need an answer
    return outcome


class _Record:
    """sweep.json, written whole each time."""

    def __init__(self, path: Path, outcome: Sweep) -> None:
        self.path, self.outcome = path, outcome
        # On a second start the old results stay on file until the new ones are as many.
        self.kept = parse_json(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []

    def write(self) -> None:
        """The grid, all settings, and the runs so far."""
        outcome = self.outcome
        runs = outcome.runs + self.kept[len(outcome.runs) :]
        self._save({"grid": outcome.grid, "chosen_by": None, "best": None, "runs": finite(runs)})

    def finish(self) -> None:
        """With what was chosen."""
        self._save(self.outcome.json())

    def _save(self, content: dict[str, Any]) -> None:
        settings = {p.name: p.config.model_dump(mode="json") for p in self.outcome.points}
        content = {**content, "seeds": self.outcome.seeds, "settings": settings}
        write_text(self.path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def _check_points(points: Sequence[Point], seeds: int) -> None:
    if seeds < 1:
        raise OptionError(f"seeds must be at least 1, not {seeds}")
    if not points:
        raise OptionError("a sweep needs a point at least")
    folders = [point.folder for point in points]
    for point in points:
        if folders.count(point.folder) > 1:
            raise OptionError(f"two runs would share the folder {point.folder}: name each once")
        for name in SAME:
            if getattr(point.config, name) != getattr(points[0].config, name):
                raise OptionError(
                    f"{name} says what the runs are judged by, and must be the same for all"
                )


def _check_identities(selections: Sequence[Selection]) -> None:
    """There must be somebody to compare the runs on, and the same for all."""
    first, *others = (
        [
            None if part is None else part.class_names
            for part in (selection.train, selection.validation, selection.unseen)
        ]
        for selection in selections
    )
    if any(other != first for other in others):
        raise OptionError("all runs must know the same identities and hold the same ones out")
    if not (_tells(selections[0].validation) or _tells(selections[0].unseen)):
        raise OptionError(
            "nobody is held out to compare the runs on: keep identities from training with "
            "--hold-out 0.1,0.1, or name the known classes with --classes"
        )


def _check(point: Point, selection: Selection, device: str) -> None:
    """Whatever would stop the run before its first step is found now, not after hours."""
    config = add_data_settings(point.config, selection)
    place = choose_device(device)
    network, loss = build_model(config, training=True)
    check_start(config, network, point.folder)
    check_stepping(config, loss, place)
    Feed(config, selection.train, place)


def _tells(images: ImageSet | None) -> bool:
    """Whether there are pairs of one identity and pairs of two."""
    if images is None or not len(images):
        return False
    counts = np.bincount(images.labels)
    return bool(counts.max() >= 2 and (counts > 0).sum() >= 2)


def _check_same(out: Path, outcome: Sweep) -> None:
    """Refuse a folder whose sweep is another."""
    try:
        found = parse_json((out / _FILE).read_text(encoding="utf-8"))
        seeds, grid = found["seeds"], found["grid"]
        settings = {name: RunConfig(**values) for name, values in found["settings"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(f"{out / _FILE} is damaged: {error}; name another folder") from None
    asked = {point.name: point.config for point in outcome.points}
    for name, theirs, ours in (
        ("seeds", seeds, outcome.seeds),
        *(
            (key, grid.get(key, "one value"), outcome.grid.get(key, "one value"))
            for key in {**grid, **outcome.grid}
        ),
        *(
            (key, getattr(settings[name], key), getattr(asked[name], key))
            for name in asked
            if name in settings
            for key in RunConfig.model_fields
        ),
        ("its points", sorted(settings), sorted(asked)),
    ):
        if theirs != ours:
            raise RunError(
                f"{out} holds a sweep with {name} {_listed(theirs)}, and {_listed(ours)} is asked "
                "for: name another folder"
            )


def _listed(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _selections(
    points: Sequence[Point], datasets: Sequence[tuple[RunConfig, Dataset]]
) -> dict[tuple[Any, ...], Selection]:
    """What the points train on, each way of reading the data once."""
    known = {_reading(config)[:-1]: dataset for config, dataset in datasets}
    found: dict[tuple[Any, ...], Selection] = {}
    for point in points:
        key = _reading(point.config)
        if key not in found:
            found[key] = selection_for(
                point.config, dataset=known.get(key[:-1]), earlier=earlier_of(point.config)
            )
    return found


def _reading(config: RunConfig) -> tuple[Any, ...]:
    return (*(getattr(config, name) for name in READ_BY), config.train_on)


def _grid(points: Sequence[Point]) -> dict[str, list[Any]]:
    """The values of each setting among the points, in the order of their first appearance."""
    found: dict[str, list[Any]] = {}
    for point in points:
        for key, value in point.values.items():
            if value not in found.setdefault(key, []):
                found[key].append(value)
    return found


def _validation(run: Run) -> dict[str, Any]:
    """Figures on the validation identities, of the epoch whose weights were kept."""
    kept = [line for line in run.metrics() if line.get("kept")]
    if not kept:
        return {}
    figures = {f"validation_{name}": value for name, value in kept[-1]["validation"].items()}
    return {"epoch": kept[-1]["epoch"], **figures}


def _course(run: Run) -> dict[str, Any]:
    lines = run.metrics()
    return {
        "epochs": len(lines),
        "seconds": round(math.fsum(line["seconds"] for line in lines), 2),
    }
