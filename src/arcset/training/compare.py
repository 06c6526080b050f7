"""Variants of a run × seeds: which is best, and which differences between them are real.

Losses side by side, measured on identities never seen:

    arcset compare mnist-sample --classes 0-4 --losses softmax,arcface --seeds 3 --out runs/losses

A grid of settings, ranked on the validation identities; the unseen ones are for the best alone:

    arcset compare faces/ --set margin=0.2,0.3 --set scale=16,32 --out runs/grid
"""

import html
import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from arcset.checks import check_count
from arcset.data import DATASETS, Dataset, Selection
from arcset.devices import choose_device
from arcset.distributed import join_group
from arcset.errors import DataError, OptionError, TrainingError
from arcset.evaluation import Assessment
from arcset.evaluation.assessment import FEW, Verdict, compare_assessments
from arcset.evaluation.measures import Measure, run_figures, short_name
from arcset.files import finite, read_json, write_text
from arcset.launch import is_main_process
from arcset.losses import loss_options
from arcset.registry import unknown_option
from arcset.runs import Run, RunConfig
from arcset.runs.assess import assess_unseen, assessment_figures, evaluation_data, measure_run
from arcset.runs.data import dataset_of, selection_for
from arcset.runs.model import TrainedRun, add_data_settings, add_loss_settings, build_model
from arcset.runs.settings import Layer, Settings, resolve_settings
from arcset.text import html_table, plural, skipped_lines
from arcset.training.batches import TrainingBatches
from arcset.training.checkpoint import check_same_settings
from arcset.training.fine_tune import check_start, load_earlier
from arcset.training.monitor import build_validator
from arcset.training.optimize import check_update_settings
from arcset.training.trainer import train
from arcset.training.watchers import Lines, Watcher

#: Settings that a grid cannot vary: they say which identities the runs are measured on, and how.
_SHARED = ("seed", "data", "mapping", "classes", "split", "hold_out", "start", "best_by")
#: Settings that change nothing about the outcome of a run.
_UNSEEN_IN_RESULTS = ("frames", "checkpoint_minutes", "checkpoint_steps", "checkpoints")


@dataclass(frozen=True)
class Variant:
    """One of the things compared.

    label: unique. values: the settings in which it differs from the others. config: all settings;
    the seed is replaced by each of the comparison's.
    """

    label: str
    values: dict[str, Any]
    config: RunConfig


@dataclass
class Comparison:
    """The outcome of `compare_variants`; it shows itself in a notebook.

    out: the folder of the runs. grid: the values of each setting; None where losses are compared.
    runs: one entry per run, in the order trained; one whose training broke has `failed`, a
    sentence, instead of figures. assessments: by variant, one per seed, of the unseen identities;
    in a grid of the validation identities. winner: in a grid, the best variant's assessments of the
    unseen identities.
    """

    out: Path
    variants: list[Variant]
    seeds: int
    grid: dict[str, Sequence[Any]] | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    assessments: dict[str, list[Assessment]] = field(default_factory=dict)
    winner: list[Assessment] = field(default_factory=list)

    def path(self, label: str, seed: int) -> Path:
        """The folder of a run."""
        return self.out / run_folder(label, seed)

    @property
    def complete(self) -> list[Variant]:
        """The variants all of whose runs came to their end."""
        return [each for each in self.variants if len(self._finished(each.label)) == self.seeds]

    @property
    def measure(self) -> Measure:
        """What a grid is ranked by: the `best_by` of its runs, or MAP@R where the identities are
        too few for it."""
        best_by = self.variants[0].config.best_by
        runs = [run for variant in self.complete for run in self._finished(variant.label)]
        if any(run[f"validation_{best_by}"] is None for run in runs):
            best_by = "map"
        return run_figures()[f"unseen_{best_by}"]

    @property
    def ranking(self) -> list[Variant]:
        """The complete variants; in a grid best first, and equal ones as the grid has them."""
        if self.grid is None:
            return self.complete
        sign = 1 if self.measure.lower_is_better else -1
        return sorted(self.complete, key=lambda variant: sign * self._score(variant.label))

    @property
    def summary(self) -> dict[str, dict[str, dict[str, float]]]:
        """LABEL → FIGURE → mean, low, high over the seeds; figures that a variant lacks are left
        out."""
        summary: dict[str, dict[str, dict[str, float]]] = {}
        for variant in self.ranking:
            summary[variant.label] = {}
            for name in (*run_figures(), *_validation_figures(), "seconds"):
                runs = self._finished(variant.label)
                values = [run[name] for run in runs if run.get(name) is not None]
                if values:
                    spread = {"mean": fmean(values), "low": min(values), "high": max(values)}
                    summary[variant.label][name] = spread
        return summary

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """By measure, which variant is ahead, and of which others that is shown."""
        assessments = {v.label: self.assessments.get(v.label, []) for v in self.complete}
        return compare_assessments(assessments) if all(assessments.values()) else []

    @property
    def best(self) -> dict[str, Any]:
        """The first of a grid's ranking: its name, values, mean of the measure that decides, its
        runs, and the command that trains it again."""
        variant = self.ranking[0]
        runs = [run["run"] for run in self._finished(variant.label)]
        config = str(Path(runs[0]) / "config.toml")
        return {
            "name": variant.label,
            "values": variant.values,
            "score": self._score(variant.label),
            "runs": runs,
            "command": shlex.join(["arcset", "train", "--config", config, "--out", "runs/best"]),
        }

    @property
    def note(self) -> str:
        """What the figures are measured on; empty where no identity is held out."""
        if not self.assessments:
            return ""
        count = self.assessments[self.complete[0].label][0].identities
        if self.grid is not None:
            few = " (few, so the order is rough)" if count < FEW else ""
            return (
                f"Ranked by {self.measure.title} on {count:,} validation identities{few}; the "
                f"unseen identities took no part in the choice."
            )
        over = "and seeds" if self.seeds > 1 else "alone: with one seed each, about these runs only"
        few = f"; fewer than {FEW} classes, so intervals are rough" if count < FEW else ""
        return f"On {count:,} classes never seen. Intervals of 95 % over classes {over}{few}."

    def sentences(self) -> list[str]:
        """What the comparison comes to: a sentence for each measure in which a difference is shown,
        and one for all others; of a grid, how sure the choice is, and how good the best is on
        identities never seen."""
        clear = [v for v in self.verdicts if any(d.shown for d in v.differences.values())]
        if self.grid is None:
            unclear = [verdict.title for verdict in self.verdicts if verdict not in clear]
            lines = [f"{verdict.title}: {verdict.sentence()}" for verdict in clear]
            return [*lines, f"{', '.join(unclear)}: no difference is shown."] if unclear else lines
        decides = (self.measure.part, self.measure.full_name)
        lines = [v.sentence() for v in self.verdicts if (v.part, v.name) == decides]
        if self.winner:
            best = self.ranking[0].label
            figures = [
                f"{short_name(entry.full_name)} {entry.format(self.summary[best][key]['mean'])}"
                for key, entry in run_figures().items()
                if entry.part != "known" and key in self.summary[best]
            ]
            classes = plural(self.winner[0].identities, "class", "classes")
            lines.append(f"{best} on {classes} never seen: {', '.join(figures)}.")
        return lines

    def rows(self) -> list[list[str]]:
        """The table for people, its heading first: mean ± half the range over the seeds."""
        if self.grid is None:
            names = ["loss"]
            columns = {
                key: (entry.short if entry.part == "known" else f"unseen {entry.title}", entry)
                for key, entry in run_figures().items()
                if entry.part == "known" or entry.unit == "number"  # there is no room for more
            }
        else:
            names = [key for key, values in self.grid.items() if len(values) > 1]
            decides = f"validation_{self.measure.key}"
            columns = {decides: (f"validation {self.measure.title}\n(decides)", self.measure)}
            for key, entry in _validation_figures().items():
                columns.setdefault(key, (entry.title, entry))
        summary = self.summary
        present = {name for figures in summary.values() for name in figures}
        columns = {key: column for key, column in columns.items() if key in present}
        rows = [[*names, *(heading for heading, _ in columns.values())]]
        for variant in self.ranking:
            values = [_text(k, variant.values[k]) if k in variant.values else "–" for k in names]
            figures = summary[variant.label]
            cells = [_cell(figures.get(key), entry) for key, (_, entry) in columns.items()]
            rows.append([*values, *cells])
        return rows

    def json(self) -> dict[str, Any]:
        """As one object; infinite values, which JSON lacks, become None."""
        content: dict[str, Any] = {
            "runs": self.runs,
            "summary": self.summary,
            "verdicts": [verdict.json() for verdict in self.verdicts],
        }
        if self.grid is not None:
            decides = f"validation {self.measure.key}"
            content |= {"grid": self.grid, "chosen_by": decides, "best": self.best}
            content["note"] = self.note
        return dict(finite(content))

    def _repr_html_(self) -> str:
        """The table and the sentences, for notebooks."""
        heading, *rows = self.rows()
        paragraphs = "".join(
            f"<p>{html.escape(text)}</p>" for text in (self.note, *self.sentences())
        )
        return html_table(rows, heading) + paragraphs

    def add(self, variant: Variant, seed: int, result: TrainedRun | TrainingError) -> None:
        """Measure a run, or note why there is none, and write it down."""
        entry: dict[str, Any] = {"name": variant.label, "values": variant.values, "seed": seed}
        entry["run"] = str(self.path(variant.label, seed))
        self.runs.append(entry)
        if isinstance(result, TrainingError):
            entry["failed"] = str(result)
        else:
            config, lines = result.config, result.metrics()
            entry["loss"] = variant.label if self.grid is None else config.loss
            entry |= {key: getattr(config, key) for key in ("dim", "scale", "margin", "options")}
            if self.grid is None:
                assessment = assess_unseen(result)
                entry |= measure_run(result, assessment)
            else:
                assessment = evaluation_data(result, part="validation").assess()
                entry |= assessment_figures(assessment, "validation")
            if assessment is not None:
                self.assessments.setdefault(variant.label, []).append(assessment)
            entry["epochs"] = len(lines)
            entry["seconds"] = round(math.fsum(line["seconds"] for line in lines), 2)
        self.save({"grid": self.grid, "runs": finite([*self.runs, *self._runs_of_before()])})

    def measure_winner(self, selection: Selection, device: str) -> None:
        """Measure the best of a grid on the images that took no part in choosing it."""
        for entry in self._finished(self.ranking[0].label):
            trained = TrainedRun.load(entry["run"], device=device, selection=selection)
            assessment = assess_unseen(trained)
            entry |= measure_run(trained, assessment)
            if assessment is not None:
                self.winner.append(assessment)

    def save(self, content: dict[str, Any]) -> None:
        """Write comparison.json."""
        write_text(self._file, json.dumps(content, indent=2, allow_nan=False) + "\n")

    @property
    def _file(self) -> Path:
        return self.out / "comparison.json"

    def _runs_of_before(self) -> list[dict[str, Any]]:
        """Entries of an earlier call that this one has not come to yet: a kill keeps them."""
        measured = {run["run"] for run in self.runs}
        with suppress(DataError, KeyError):  # none yet, or no file of ours
            content = read_json(self._file, "comparison", dict[str, Any])
            return [run for run in content["runs"] if run["run"] not in measured]
        return []

    def _finished(self, label: str) -> list[dict[str, Any]]:
        return [run for run in self.runs if run["name"] == label and "failed" not in run]

    def _score(self, label: str) -> float:
        return fmean([run[f"validation_{self.measure.key}"] for run in self._finished(label)])


def compare_variants(
    layers: Sequence[Layer],
    out: Path | str,
    *,
    losses: Sequence[str] | Mapping[str, str] = (),
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: int = 3,
    device: str = "auto",
    force: bool = False,
    watcher: Watcher | None = None,
    dataset: Dataset | None = None,
) -> Comparison:
    """Train every variant with seeds 0 … `seeds` − 1 into `out`/LABEL-SEED, and measure each.

        layers = list_layers({"data": "mnist-sample", "classes": "0-4", "scale": 16.0})
        compare_variants(layers, "runs/losses", losses=["softmax:bias=false", "arcface"])
        compare_variants(layers, "runs/grid", grid={"margin": [0.2, 0.3], "scale": [16, 32]})

    losses: each may carry options and settings of training that suit it; in a mapping, by the label
    that it goes by. What a recipe tuned for one loss counts for none. They are measured on the
    identities held out of training.

    grid: values of settings and of options of the loss; every combination is a variant, the last
    setting varying fastest. Options that a loss does not have are left out for it. Variants are
    ranked by `best_by` on the validation identities; the unseen ones are for the best alone.

    Killed at any moment, the same call goes on: runs that are there with the same settings are not
    trained again, nor are they where further variants or seeds are asked for. With `force` they
    are replaced. A run whose loss is no longer finite is noted, and the others go on. Of several
    processes the first alone measures: the others' outcome has no runs.

    dataset: the data, where it has been read already or was given in Python.

    Raises, before anything is written:
        OptionError: a setting that does not fit, or a grid without validation identities.
        RunError: something else stands in a run's folder.
    """
    seeds = check_count("seeds", seeds)
    watcher = watcher or Lines()
    group = join_group(choose_device(device))
    listed = list(_list_losses(layers, losses) if grid is None else _list_grid(layers, grid))
    data = _DataCache(dataset, watcher)
    variants, notes = [], []
    for label, values, settings in listed:
        variants.append(Variant(label, values, data.suit(settings)))
        notes += settings.notes
    outcome = Comparison(Path(out), variants, seeds, None if grid is None else dict(grid))
    folders = [run_folder(variant.label, 0) for variant in variants]
    for variant, folder in zip(variants, folders, strict=True):
        if folders.count(folder) > 1:
            raise OptionError(f"{variant.label!r} is named more than once, or much like another")
        _check(variant, outcome, data.selection(variant.config), device, force=force)
    for note in dict.fromkeys(notes):
        watcher.noted(f"note: {note}")
    group.barrier()  # all have looked at what is there
    _train(outcome, data, watcher, device=device, force=force)
    if group.is_main:
        if not outcome.complete:
            raise TrainingError(f"nothing could be trained: {outcome.runs[0]['failed']}")
        if grid is not None:
            outcome.measure_winner(data.selection(outcome.ranking[0].config), device)
        outcome.save(outcome.json())
    group.barrier()  # nobody leaves while others still need an answer
    return outcome


def _train(
    outcome: Comparison, data: "_DataCache", watcher: Watcher, *, device: str, force: bool
) -> None:
    """Train and measure one run after another."""
    for variant in outcome.variants:
        for seed in range(outcome.seeds):
            path = outcome.path(variant.label, seed)
            result: TrainedRun | TrainingError
            try:
                result = train(
                    variant.config.replace(seed=seed),
                    path,
                    device=device,
                    force=force,
                    again=True,
                    watcher=watcher,
                    selection=data.selection(variant.config),
                )
            except TrainingError as error:
                result = error
                watcher.noted(f"note: {path} is left out: {error}")
            if is_main_process():
                outcome.add(variant, seed, result)


def run_folder(label: str, seed: int) -> str:
    """What the run of a variant is called.

    >>> run_folder("softmax, no bias", 0), run_folder("margin=0.2,size=64x48", 1)
    ('softmax-no-bias-0', 'margin=0.2-size=64x48-1')
    """
    return re.sub(r"[^A-Za-z0-9.=_+-]+", "-", label).strip("-.") + f"-{seed}"


def _list_losses(
    layers: Sequence[Layer], losses: Sequence[str] | Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any], Settings]]:
    """Label, value and settings of each loss."""
    if not losses:
        raise OptionError("name the losses to compare, as softmax,arcface")
    common = []
    for layer in layers:
        tuned = () if layer.explicit else ("loss", *layer.tuned)
        values = {key: value for key, value in layer.values.items() if key not in tuned}
        common.append(replace(layer, values=values))
    pairs = losses.items() if isinstance(losses, Mapping) else [(text, text) for text in losses]
    for label, loss in pairs:
        settings = resolve_settings([*common, Layer("losses", {"loss": loss}, explicit=True)])
        yield label, {"loss": label}, settings


def _list_grid(
    layers: Sequence[Layer], grid: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, dict[str, Any], Settings]]:
    """Label, values and settings of each combination, but those that come to the same run."""
    varied = [key for key, values in grid.items() if len(values) > 1]
    for key in varied:
        if key in _SHARED:
            raise OptionError(f"{key} cannot vary in a grid: give it one value")
    if not varied:
        raise OptionError("nothing varies: give a setting several values, as margin=0.2,0.3")
    configs: list[RunConfig] = []
    known: dict[str, dict[str, Any]] = {}  # by loss, its options
    for chosen in product(*grid.values()):
        point = dict(zip(grid, chosen, strict=True))
        of_loss = {k: v for k, v in point.items() if k not in RunConfig.model_fields}
        of_run = {k: v for k, v in point.items() if k not in of_loss}
        base = resolve_settings([*layers, Layer("--set", of_run, explicit=True)]).config
        known[base.loss] = loss_options(base.loss, **{**base.options, **of_loss})
        point = {
            key: value
            for key, value in point.items()
            if key in known[base.loss] or (key in of_run and key not in ("scale", "margin"))
        }
        settings = resolve_settings([*layers, Layer("--set", point, explicit=True)])
        settings.notes.extend(f"{base.loss} has no {k}: left out" for k in grid if k not in point)
        values = {key: point[key] for key in varied if key in point}
        if settings.config not in configs:
            configs.append(settings.config)
            yield ",".join(f"{k}={_text(k, v)}" for k, v in values.items()), values, settings
    names = [*RunConfig.model_fields, *(name for options in known.values() for name in options)]
    for key in grid:
        if key not in names:
            raise unknown_option(" and ".join(known), key, dict.fromkeys(names))


class _DataCache:
    """The data of the variants, read once for each way of reading it."""

    def __init__(self, dataset: Dataset | None, watcher: Watcher) -> None:
        self._given, self._watcher = dataset, watcher
        self._datasets: dict[tuple[Any, ...], Dataset] = {}
        self._selections: dict[tuple[Any, ...], Selection] = {}

    def suit(self, settings: Settings) -> RunConfig:
        """The configuration with what suits data that has no name."""
        if settings.config.data not in DATASETS:
            settings = settings.suited_to(self._read(settings.config))
        return settings.config

    def selection(self, config: RunConfig) -> Selection:
        """The images to train on and to hold out."""
        key = (*self._key(config), config.train_on)
        if key not in self._selections:
            dataset, earlier = self._read(config), load_earlier(config)
            self._selections[key] = selection_for(config, dataset=dataset, earlier=earlier)
        return self._selections[key]

    def _read(self, config: RunConfig) -> Dataset:
        key = self._key(config)
        if key not in self._datasets:
            dataset = self._given or dataset_of(config, watch=self._watcher.reading)
            for note in skipped_lines(dataset.skipped):
                self._watcher.noted(note)
            self._datasets[key] = dataset
        return self._datasets[key]

    @staticmethod
    def _key(config: RunConfig) -> tuple[Any, ...]:
        return tuple(getattr(config, name) for name in ("size", "channels", "fit", "invert"))


def _check(
    variant: Variant, outcome: Comparison, selection: Selection, device: str, *, force: bool
) -> None:
    """Find what would stop a run before its first step now, and not after hours."""
    chosen = choose_device(device)
    if outcome.grid is not None and build_validator(selection.validation, chosen) is None:
        raise OptionError(
            "a grid is ranked on validation identities, and two with two images each are needed: "
            "hold some out, as with --hold-out 0.1,0.1"
        )
    config = add_data_settings(variant.config, selection)
    network, loss = build_model(config, training=True)
    check_start(config, network, outcome.path(variant.label, 0))
    check_update_settings(config, loss, chosen)
    TrainingBatches(config, selection.train, chosen)
    for seed in range(outcome.seeds):
        path = outcome.path(variant.label, seed)
        if force or not (path / "config.toml").exists():
            Run.check_path(path, force=force)
        else:
            # Trained for a while and then for longer, it would not be what the others are.
            expected = add_loss_settings(config.replace(seed=seed), loss)
            check_same_settings(Run.open(path), expected, may_change=_UNSEEN_IN_RESULTS)


def _validation_figures() -> dict[str, Measure]:
    """The figures of a grid's runs by key, as `run_figures`."""
    figures = {key: entry for key, entry in run_figures().items() if entry.part != "known"}
    return {key.replace("unseen", "validation", 1): entry for key, entry in figures.items()}


def _text(key: str, value: Any) -> str:
    """A value as --set takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ("x" if key == "size" else "+").join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _cell(figure: dict[str, float] | None, entry: Measure) -> str:
    if figure is None:
        return "–"
    mean, low, high = (figure[key] for key in ("mean", "low", "high"))
    if not math.isfinite(mean):
        return "∞" if mean > 0 else "?"
    digits = 1 if entry.part == "known" and entry.unit == "number" else 3  # a Dunn index
    text = f"{mean:.{digits}f}"
    return text if low == high else f"{text} ± {(high - low) / 2:.{digits}f}"
