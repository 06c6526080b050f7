"""What the shell does, from Python, with the same words: train, evaluate, compare.

run = arcset.train("faces/", out="runs/faces", loss="arcface", epochs=20)
run = arcset.train(dataset, network=module, out="runs/mine")     # any torch Dataset, any nn.Module
assessment = arcset.evaluate(run)
recognizer = arcset.Recognizer.load(run)
"""

import logging
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset as TorchDataset

from arcset import training
from arcset.data import DATASETS, Dataset, ImageSet, Selection, Source, Split, load_dataset
from arcset.data.augment import parse_augmentation
from arcset.data.embeddings import holds_embeddings
from arcset.data.mapping import ClassMapping
from arcset.data.sources.arrays import dataset_of_arrays, hold_back_tests
from arcset.data.sources.load import load_source
from arcset.data.torch_dataset import from_torch, is_repeatable
from arcset.devices import choose_device
from arcset.errors import DataError, InputError, OptionError, RunError
from arcset.evaluation import Assessment, Difference, Thresholds, differences
from arcset.evaluation.measures import figure_meanings, meaning
from arcset.evaluation.results import Missing
from arcset.files import finite, one_line, write_text
from arcset.launch import is_main_process, is_restarted
from arcset.losses import build_loss
from arcset.networks.registry import NETWORKS
from arcset.reports import RunReport, RunView
from arcset.reports.evaluation_report import write_evaluation
from arcset.reports.model_card import write_card
from arcset.reports.page import Section
from arcset.runs import Run, RunConfig
from arcset.runs.assess import (
    EvaluationData,
    evaluation_data,
    make_run_thresholds,
    measure_run,
    read_evaluation_data,
    shape_words,
)
from arcset.runs.config import GIVEN, unknown_setting
from arcset.runs.data import dataset_of, selection_for, selection_of
from arcset.runs.model import TrainedRun
from arcset.runs.settings import (
    SUITED,
    Layer,
    Settings,
    is_user_data,
    list_layers,
    resolve_settings,
)
from arcset.text import plural, skipped_lines
from arcset.training import Comparison
from arcset.training.fine_tune import load_earlier, measure_forgetting
from arcset.training.trainer import lock_run
from arcset.training.watchers import Lines, Several, TensorBoardWatcher, Watcher

__all__ = [
    "Data",
    "Evaluation",
    "choose_settings",
    "compare",
    "comparison_report",
    "evaluate",
    "evaluate_each",
    "train",
]

logger = logging.getLogger("arcset")

#: What can be trained on: a name or path as on the command line, any source or dataset, a torch
#: Dataset of (image, label), or arrays (images, labels).
Data: TypeAlias = str | Path | Source | Dataset | TorchDataset[Any] | tuple[Any, Any]

_SOME = 1000  # classes that a loss is built for to see whether its options fit


def train(
    data: Data | None = None,
    *,
    out: Path | str | None = None,
    network: str | nn.Module | None = None,
    recipe: str | None = None,
    config: Path | str | None = None,
    start: Run | Path | str | None = None,
    resume: Run | Path | str | None = None,
    again: bool = False,
    force: bool = False,
    device: str = "auto",
    report: bool = True,
    licence: str = "",
    tensorboard: bool = False,
    watcher: Watcher | None = None,
    **settings: Any,
) -> TrainedRun:
    """Train an embedding, measure it on unseen identities, and write the run's folder.

    Does what `arcset train` does: `out` gets weights, config.toml, measures.json, threshold.json, a
    model card (README.md) and report.html.

    Args:
        data: the name of a dataset; the path of a folder with a sub-folder per identity, a table,
            arrays, records or a pack; a `Source`; a torch Dataset of (image, label), read once; or
            arrays (images, labels).
        out: the run's folder.
        network: the name of a network, or a module from images (N, C, H, W), float32 in −1 .. 1, to
            embeddings (N, D). It is trained itself, from the weights that it has.
        recipe: a tested set of settings for everything that is not given.
        config: a TOML file of settings, such as a run's config.toml.
        start: a run to start from (`--from`): its weights, centers and settings.
        resume: the run to continue, instead of a new one. Data and network are handed over again
            where they were given in Python. Only how long it is may change, and what is kept.
        again: continue the run in `out` if it is there already, with the same settings
            (`--continue`).
        force: replace a run that is there.
        device: auto, cpu, cuda or mps.
        report: whether to draw report.html.
        licence: of the model, for its card.
        tensorboard: write scalars to `out`/tensorboard as well.
        watcher: told of every step and epoch; lines on stderr if left out, `Watcher()` is silent.
        settings: those of `RunConfig`, as `epochs=20`, and options of the loss, as `subcenters=2`.

    Returns:
        The run, with network, loss and data in memory. `run.measures`, `run.thresholds`,
        `run.assessment` and `run.report` say how good it is, `run.missing` what was not measured.

    Raises:
        OptionError: a setting that does not exist or does not fit.
        DataError: data that cannot be read, or is too little.
        RunError: a folder that is in the way, or is no run.
        TrainingError: the loss is no longer finite; the last good epoch is kept.

    Example:
        >>> run = train("mnist-sample", classes="0-4", dim=2, epochs=1, out=out)  # doctest: +SKIP
        >>> run.measures["unseen_auc"]  # doctest: +SKIP
        0.87
    """
    watcher = watcher or Lines()
    if resume is not None:
        _refuse_beside_resume(
            out=out, recipe=recipe, config=config, start=start, again=again, force=force
        )
        folder = Run.open(_path_of(resume)).path
        work = partial(_resume, folder, data, network, settings)
    elif out is None or not (data or config or settings.get("data")):
        raise OptionError(
            "name data and a folder: arcset train mnist-sample --out runs/first, or "
            'arcset.train("mnist-sample", out="runs/first")'
        )
    else:
        folder, again = Path(out), again or is_restarted()
        begun = _begun(folder) if again and not force else None
        # Before the folder is looked at: there may be a mistake in the settings as well.
        chosen = choose_settings(
            data, network=network, recipe=recipe, config=config, start=start, begun=begun,
            **settings,
        )  # fmt: skip
        _check_settings(chosen, device)
        work = partial(_begin, folder, data, network, chosen, begun, force=force, again=again)
    with lock_run(folder), _curves(watcher, folder if tensorboard else None) as told:
        try:
            trained: TrainedRun = work(device=device, watcher=told)
        except KeyboardInterrupt:
            if (folder / "config.toml").exists():
                done = plural(len(Run.open(folder).metrics()), "epoch")
                told.noted(f"stopped after {done}. Go on with: arcset train --resume {folder}")
            raise
        if is_main_process():
            _complete(trained, told, licence=licence, report=report)
    return trained


def compare(
    data: Data,
    *,
    losses: Sequence[str] = ("softmax", "normface", "arcface"),
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | None = None,
    out: Path | str | None = None,
    recipe: str | None = None,
    config: Path | str | None = None,
    start: Run | Path | str | None = None,
    device: str = "auto",
    force: bool = False,
    report: bool = True,
    watcher: Watcher | None = None,
    command: str = "",
    **settings: Any,
) -> Comparison:
    """Train several losses, or a grid of settings, on the same data and seeds, and compare them.

    Does what `arcset compare` does: the runs, comparison.json and report.html are written to `out`,
    runs/compare-DATE-TIME if left out. The same call goes on with what is there.

    Args:
        losses: each may carry options and settings that suit it: "softmax:bias=false".
        grid: instead of losses, the values of settings; every combination is trained, the best
            chosen on the validation identities, and it alone measured on the unseen ones.
        seeds: runs of each: 3, or 1 in a grid.
        command: that makes the comparison again, for the report.
        data, recipe, config, start, device, force, report, watcher, settings: as of `train`.

    Example:
        >>> comparison = compare("faces/", losses=["softmax", "arcface"])  # doctest: +SKIP
        >>> comparison.summary["arcface"]["unseen_auc"]  # doctest: +SKIP
        {'mean': 0.93, 'low': 0.92, 'high': 0.94}
    """
    watcher = watcher or Lines()
    folder = Path(out or f"runs/compare-{datetime.now():%Y%m%d-%H%M%S}")
    layers = _layers(data, settings, recipe=recipe, config=config, start=start)
    dataset = None
    if not isinstance(data, str | Path):
        dataset = _read_given(data, resolve_settings(layers).config, watcher)
    try:
        outcome = training.compare(
            layers,
            folder,
            losses=() if grid else losses,
            grid=grid,
            seeds=seeds or (1 if grid else 3),
            device=device,
            force=force,
            watcher=watcher,
            dataset=dataset,
        )
    except KeyboardInterrupt:
        watcher.noted(f"stopped; the same command or call goes on with out={folder}")
        raise
    if report and is_main_process():
        title = f"{layers[-1].values.get('data', '')}"
        with watcher.working("drawing the report"):
            comparison_report(
                outcome,
                title=f"{Path(title).name}: {' × '.join(grid) if grid else ', '.join(losses)}",
                command=command or shlex.join(["arcset", "compare", title]),
            ).write(folder)
    return outcome


def comparison_report(outcome: Comparison, **options: Any) -> RunReport:
    """The report: of losses, their first runs side by side; of a grid, its table and the best."""
    ranking, content = outcome.ranking, outcome.json()
    views = [RunView(outcome.path(one.label, 0), one.label) for one in ranking]
    if outcome.grid is not None:
        decides = outcome.measure
        meanings = {
            f"validation_{decides.key}": f"{meaning(decides.full_name)}, on validation identities",
            **figure_meanings(),
        }
        return RunReport(
            runs=views[:1],
            comparison={**content, "of": "variant"},
            measures=meanings,
            unseen=dict(zip([ranking[0].label], outcome.winner, strict=False)),
            verdict=" ".join([outcome.note, *outcome.sentences()]),
            **options,
        )
    differences: dict[str, list[Difference]] = {}
    if verdicts := outcome.verdicts:
        best = verdicts[0].best
        for other in verdicts[0].differences:
            found = [verdict.between(best, other) for verdict in verdicts]
            differences[f"{best} against {other}"] = found
    return RunReport(
        runs=views,
        comparison=content,
        measures=figure_meanings(),
        unseen={label: found[0] for label, found in outcome.assessments.items()},
        differences=differences,
        verdicts=[(verdict.title, verdict.sentence()) for verdict in verdicts],
        **options,
    )


def choose_settings(
    data: Data | None = None,
    *,
    network: str | nn.Module | None = None,
    recipe: str | None = None,
    config: Path | str | None = None,
    start: Run | Path | str | None = None,
    begun: Run | None = None,
    **settings: Any,
) -> Settings:
    """The settings of a run by the arguments of `train`, each with the layer that it comes from.

    Nothing is read yet: `Settings.suited_to` adds what suits the user's data. begun: a run that
    goes on; the one that it started from may be gone.
    """
    given = dict(settings)
    if network is not None:
        given["network"] = network if isinstance(network, str) else GIVEN
    return resolve_settings(
        _layers(data, given, recipe=recipe, config=config, start=start, begun=begun)
    )


def _layers(
    data: Data | None,
    given: Mapping[str, Any],
    *,
    recipe: str | None,
    config: Path | str | None,
    start: Run | Path | str | None,
    begun: Run | None = None,
) -> list[Layer]:
    """The layers of settings that arguments come to."""
    given = dict(given)
    if data is not None:
        path = str(data.resolve()) if isinstance(data, Path) else data
        given["data"] = path if isinstance(path, str) else GIVEN
    if start is not None and begun is not None:
        given["start"] = str(_path_of(start).resolve())
    goes_on = begun is not None and start is not None
    return list_layers(
        given,
        recipe=recipe,
        file=None if config is None else Path(config),
        start=None if start is None or goes_on else Run.open(_path_of(start)),
        continued=begun if goes_on else None,
    )


def _begin(
    folder: Path,
    data: Data | None,
    network: str | nn.Module | None,
    settings: Settings,
    begun: Run | None,
    *,
    force: bool,
    again: bool,
    device: str,
    watcher: Watcher,
) -> TrainedRun:
    """Train a new run, or go on with the one that is there."""
    if not again:
        Run.check_place(folder, force=force)
    module = network if isinstance(network, nn.Module) else None
    goes_on = begun is not None and settings.config.start is not None
    dataset = None
    if settings.config.data == GIVEN:
        dataset = _read_given(data, settings.config, watcher)
    elif is_user_data(settings.config.data) and not goes_on:
        # Read once, at the size that was asked for; what suits it depends on the data.
        dataset = dataset_of(settings.config, watch=watcher.reading)
        for note in skipped_lines(dataset.skipped):
            watcher.noted(note)
    if dataset is not None:
        settings = settings.suited_to(dataset)
    for note in settings.notes:
        watcher.noted(f"note: {note}")
    config = settings.config
    if begun is not None and goes_on:
        selection = selection_of(begun, dataset=dataset)
    else:
        earlier = load_earlier(config)
        selection = selection_for(config, dataset=dataset, earlier=earlier)
        if earlier is not None:
            for note in earlier.describe(selection):
                watcher.noted(note)
        if dataset is not None and selection.unseen is None:
            watcher.noted(
                "note: no identity is held out, so how well others are recognized is not measured; "
                "see --hold-out"
            )
    if module is not None:
        config = config.replace(dim=_embedding_size(module, selection, settings))
    announcer = _Announcer(folder, _origin(settings), watcher, selection)
    return training.train(
        config,
        folder,
        device=device,
        force=force,
        again=again,
        watcher=Several([announcer, watcher]),
        selection=selection,
        network=module,
    )


def _resume(
    folder: Path,
    data: Data | None,
    network: str | nn.Module | None,
    settings: Mapping[str, Any],
    *,
    device: str,
    watcher: Watcher,
) -> TrainedRun:
    """Go on with a run, under its own settings but for those that may change."""
    run = Run.open(folder)
    changes = dict(settings)
    for name in changes:
        if name not in RunConfig.model_fields:
            raise OptionError(unknown_setting(name))
    if isinstance(network, str):
        changes["network"] = network
    selection = None
    if data is not None:
        if run.config.data != GIVEN:
            raise OptionError(f"{folder} knows its data, {run.config.data}: leave data out")
        selection = selection_of(run, dataset=_read_given(data, run.config, watcher, run))
    return training.resume(
        folder,
        device=device,
        watcher=Several([_Announcer(folder, "settings of the run", watcher), watcher]),
        changes=changes,
        selection=selection,
        network=network if isinstance(network, nn.Module) else None,
    )


def _refuse_beside_resume(**options: object) -> None:
    """A continued run has its settings; one that is named anyway would silently be ignored."""
    for name, value in options.items():
        if value:
            raise OptionError(f"resume takes its settings from the run: leave out {name}")


def _begun(folder: Path) -> Run | None:
    """The run in a folder, if it has a checkpoint to go on from."""
    if not (folder / "config.toml").exists():
        return None
    run = Run.open(folder)
    return run if run.has_checkpoint else None


def _read_given(
    data: Data | None, config: RunConfig, watcher: Watcher, run: Run | None = None
) -> Dataset:
    """Data that was given in Python, its identities mapped: by the run's own copy of the mapping
    where there is a run, whose shape pictures are then brought to."""
    size: Any = config.size
    channels: int | None = config.channels
    if config.shape is not None and len(config.shape) == 3:
        channels, *size = config.shape
    reading: dict[str, Any] = {"size": size, "channels": channels, "fit": config.fit}
    if isinstance(data, Dataset):
        dataset = data
    elif isinstance(data, Source):
        dataset = load_source(data, invert=config.invert, watch=watcher.reading, **reading)
    elif isinstance(data, tuple) and len(data) == 2:
        dataset = dataset_of_arrays(*data)
    elif isinstance(data, TorchDataset):
        if not is_repeatable(data):
            watcher.noted(
                "note: dataset[i] is another image each time it is read. It is read once, so every "
                "epoch sees the same images (augment=… changes them), and a continued run, which "
                "reads them again, is not the same to the last bit"
            )
        dataset = hold_back_tests(from_torch(data, **reading))
    else:
        raise InputError(
            "data must be a name, a path, a Source, a torch Dataset of (image, label) or arrays "
            f"(images, labels), not {type(data).__name__}"
        )
    if config.mapping is None:
        return dataset
    return ClassMapping.load(config.mapping if run is None else run.mapping_file).apply(dataset)


def _embedding_size(module: nn.Module, selection: Selection, settings: Settings) -> int:
    """The dimension of the embeddings that a module makes of the data, found by trying."""
    shape = selection.train.shape
    weight = next(module.parameters(), torch.empty(0))
    was_training = module.training
    try:
        with torch.no_grad():
            rows = module.eval()(torch.zeros(2, *shape, dtype=weight.dtype, device=weight.device))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"the network does not take {shape_words(shape)}: {one_line(error)}"
        ) from error
    finally:
        module.train(was_training)
    if not isinstance(rows, torch.Tensor) or rows.ndim != 2 or len(rows) != 2:
        shown = tuple(rows.shape) if isinstance(rows, torch.Tensor) else type(rows).__name__
        raise InputError(f"the network gives {shown} for two images, and embeddings are (2, D)")
    if settings.is_explicit("dim") and settings.config.dim != rows.shape[1]:
        raise OptionError(
            f"dim={settings.config.dim}, and the network gives {rows.shape[1]}: leave dim out"
        )
    return int(rows.shape[1])


def _check_settings(settings: Settings, device: str) -> None:
    """Find mistakes among the settings, as far as no data need be read for it."""
    config = settings.config
    if config.data not in DATASETS and config.data != GIVEN and not is_user_data(config.data):
        load_dataset(config.data)  # raises
    if config.data in DATASETS:
        for name in ("size", "channels", "fit", "invert"):
            if settings.is_explicit(name):
                raise OptionError(
                    f"{config.data} is a named dataset, which is read as it is: leave out {name}"
                )
    choose_device(device)
    if config.split is not None:
        Split.load(Path(config.split))
    if config.mapping is not None:
        ClassMapping.load(config.mapping)
    if config.network != GIVEN and not config.network.startswith("timm:"):
        NETWORKS[config.network]  # raises for one that is not known
    for text in config.augment:
        parse_augmentation(text)
    options: dict[str, Any] = {**config.options, "scale": config.scale, "margin": config.margin}
    options.pop("group", None)
    level = logger.level
    logger.setLevel(logging.WARNING)  # what it would choose for so many classes tells nothing
    try:
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            build_loss(config.loss, config.dim, _SOME, **options)
    finally:
        logger.setLevel(level)


class _Announcer(Watcher):
    """Says what is trained, and on what, when training begins and all settings are known."""

    def __init__(
        self, folder: Path, origin: str, watcher: Watcher, selection: Selection | None = None
    ) -> None:
        self._folder, self._origin, self._watcher = folder, origin, watcher
        self._selection = selection

    def started(self, name: str, done: int, steps: int) -> None:
        """The settings, as the run has them, and whom it holds out."""
        self._watcher.noted(f"{self._origin}: {_settings_words(Run.open(self._folder).config)}")
        if self._selection is not None:
            self._watcher.noted(_held_out_words(self._selection))


def _origin(settings: Settings) -> str:
    """Where the settings come from that were not given."""
    if settings.config.recipe is not None:
        return f"settings of the recipe {settings.config.recipe}"
    suited = SUITED in settings.origin.values()
    return "settings that suit the data" if suited else "settings"


def _settings_words(config: RunConfig) -> str:
    """The settings that matter most, of a run whose data and loss are known."""
    loss = [config.loss]
    loss += [] if config.scale is None else [f"scale {config.scale:g}"]
    loss += [] if config.margin is None else [f"margin {config.margin:g}"]
    return "; ".join(
        [
            f"network {config.network}, {config.dim} dimensions",
            ", ".join(loss),
            f"{config.optimizer}, learning rate {config.learning_rate:g}, {config.schedule}",
            f"batches of {config.batch}, {plural(config.epochs, 'epoch')}",
            *([] if config.shape is None else [shape_words(config.shape)]),
        ]
    )


def _held_out_words(selection: Selection) -> str:
    """Whom a run holds out, and what is left to train on."""
    held = [
        f"{_count_identities(part)} for {purpose}"
        for part, purpose in ((selection.validation, "validation"), (selection.unseen, "testing"))
        if part is not None
    ]
    train = selection.train
    text = f"held out: {', '.join(held) or 'no identity'}; trains on {_count_identities(train)}"
    text += f", {plural(len(train), 'image')}"
    if selection.test is not None:
        text += f"; {plural(len(selection.test), 'more image')} of them kept back"
    return text


def _count_identities(images: ImageSet) -> str:
    return plural(len(np.unique(images.labels)), "identity", "identities")


def _complete(run: TrainedRun, watcher: Watcher, *, licence: str, report: bool) -> None:
    """Measure what can be measured, and write it; the report last, as most can go wrong in it."""
    missing = Missing()
    with watcher.working("measuring"):
        if run.config.start is not None:
            try:
                run.forgetting = measure_forgetting(run)
            except RunError as error:
                missing["forgetting"] = str(error)
        data = None
        if run.selection.unseen is not None and len(run.selection.unseen.class_names) > 1:
            data = evaluation_data(run, part="unseen")
            run.assessment = missing.attempt("unseen classes", data.assess)
        run.write_measures(measure_run(run, run.assessment, missing=missing))
        thresholds = missing.attempt("threshold", lambda: _make_thresholds(run))
        before = _forgetting_section(run)
        write_card(run, data, run.assessment, thresholds, licence=licence, before=before)
    if report:
        with watcher.working("drawing the report"):
            _draw_report(run, missing)
    run.missing = dict(missing)
    if "report" in missing:
        watcher.warned(f"report.html was not drawn: {missing.pop('report')}")
    for why in dict.fromkeys(missing.values()):
        names = ", ".join(name for name, reason in missing.items() if reason == why)
        watcher.noted(f"not measured: {names}: {why}")


def _make_thresholds(run: TrainedRun) -> Thresholds:
    """Write threshold.json, so that the run can say which cosine means "the same"."""
    thresholds = make_run_thresholds(run, run.assessment)
    if thresholds is None:
        raise DataError("it takes two images of one identity, and one of another")
    thresholds.save(run.path / "threshold.json")
    return thresholds


def _draw_report(run: TrainedRun, missing: Missing) -> None:
    """Write report.html; the figures and the run are complete without it."""
    section = _forgetting_section(run)
    try:
        RunReport(
            title=run.path.resolve().name,
            runs=[RunView(run)],
            unseen={} if run.assessment is None else {run.path.name: run.assessment},
            command=shlex.join(["arcset", "train", "--config", "config.toml", "--out", "again"]),
            more=[section] if section else [],
        ).write(run.path)
    except Exception as error:
        logger.info("the report was not drawn", exc_info=True)
        missing["report"] = f"{type(error).__name__}: {one_line(error)}"


def _forgetting_section(run: TrainedRun) -> Section | None:
    """For the report and the card."""
    if not run.forgetting:
        return None
    rows = [
        [
            f"{row.group} ({row.identities:,})",
            "recall@1",
            f"{100 * row.before:.2f} %",
            f"{100 * row.after:.2f} %",
            row.change.sentence(),
        ]
        for row in run.forgetting
    ]
    return Section(
        "Old and new identities, before and after",
        [],
        f"Before is {Path(run.config.start or '').name}, the run that training started from; "
        "after is this one. Every image searches the others of its group, and finds its own "
        "identity first or not; the old identities show what was forgotten. Intervals are of "
        "95 %, over identities.",
        "Each group is searched by itself, so that a smaller one is easier: compare before with "
        "after, and not old with new.",
        [["identities", "measure", "before", "after", "change"], *rows],
    )


@contextmanager
def _curves(watcher: Watcher, folder: Path | None) -> Iterator[Watcher]:
    """The watcher, and TensorBoard's files where asked for."""
    if folder is None:
        yield watcher
        return
    with TensorBoardWatcher(folder / "tensorboard") as writer:
        yield Several([watcher, writer])


def _path_of(run: Run | Path | str) -> Path:
    return run.path if isinstance(run, Run) else Path(run)


@dataclass
class Evaluation:
    """What `evaluate_each` measured, and where it wrote it.

    assessments: by the name of each run or file. differences: of the second from the first, where
    there are two. note: what a reader must know before any figure. thresholds: those of the first.
    """

    assessments: dict[str, Assessment]
    differences: list[Difference]
    note: str
    thresholds: Thresholds | None
    folder: Path
    threshold_file: Path

    def json(self) -> dict[str, Any]:
        """As one object, the one in evaluation.json."""
        if len(self.assessments) == 1:
            return {"note": self.note, **next(iter(self.assessments.values())).json()}
        return {
            "note": self.note,
            "models": {title: each.json() for title, each in self.assessments.items()},
            "differences": [difference.json() for difference in self.differences],
        }


def evaluate(
    source: Run | Path | str,
    data: Data | None = None,
    *,
    part: str | None = None,
    split: Path | str | None = None,
    validation: Path | str | None = None,
    allow_overlap: bool = False,
    intervals: bool = True,
    seed: int = 0,
    out: Path | str | None = None,
    network: nn.Module | None = None,
    device: str = "auto",
    report: bool = True,
    watcher: Watcher | None = None,
) -> Assessment:
    """Judge an embedding on identities that took no part in training.

    Does what `arcset evaluate` does: evaluation.json, pictures and report.html are written, and for
    a run with validation identities its threshold.json anew.

    Args:
        source: a run, which is not loaded again if `train` returned it; its folder; or a file of
            embeddings.
        data: other data to judge a run on; its own if left out. A run whose data was given in
            Python is handed that.
        part: of the run's own data: unseen, validation, test, train or all.
        split, validation: for embeddings: a split, or a file of other identities, which say whom to
            judge and whom to make thresholds from.
        allow_overlap: judge identities that were in training, and mark the report.
        intervals: whether to find 95 % intervals over identities. seed: of their draws.
        out: folder for what is written: RUN/evaluation or FILE-evaluation if left out.
        network: the module of a run whose network was given in Python.

    Raises:
        DataError: the identities were in training, or nothing can be measured.
        OptionError, RunError: as of `train`.
    """
    result = evaluate_each(
        [source],
        data,
        part=part,
        split=split,
        validation=validation,
        allow_overlap=allow_overlap,
        intervals=intervals,
        seed=seed,
        out=out,
        network=network,
        device=device,
        report=report,
        watcher=watcher,
    )
    return next(iter(result.assessments.values()))


def evaluate_each(
    sources: Sequence[Run | Path | str],
    data: Data | None = None,
    *,
    part: str | None = None,
    split: Path | str | None = None,
    validation: Path | str | None = None,
    allow_overlap: bool = False,
    intervals: bool = True,
    seed: int = 0,
    out: Path | str | None = None,
    network: nn.Module | None = None,
    device: str = "auto",
    report: bool = True,
    watcher: Watcher | None = None,
    command: str = "",
) -> Evaluation:
    """One run or file, or two that are compared on the same samples; else as `evaluate`."""
    watcher = watcher or Lines()
    if len(sources) > 1 and not intervals:
        raise OptionError("two are compared on draws of identities: leave intervals on")
    if len(sources) > 1 and validation is not None:
        raise OptionError(
            "validation holds embeddings of one model only; to compare two, name a split"
        )
    first: TrainedRun | None = None
    contents: list[EvaluationData] = []
    for number, source in enumerate(sources):
        with watcher.working(f"embedding {_path_of(source)}"):
            if isinstance(source, Run) or not holds_embeddings(source):
                if split is not None or validation is not None:
                    raise OptionError("split and validation are for files; a run has its own split")
                trained, other = _open_run(source, data, network, device, watcher)
                first = trained if number == 0 else first
                contents.append(evaluation_data(trained, other, part=part))
            elif data is not None or part is not None:
                raise OptionError(f"{source} holds embeddings: a dataset or part is for runs")
            else:
                contents.append(
                    read_evaluation_data(
                        Path(source),
                        split=None if split is None else Split.load(Path(split)),
                        validation=None if validation is None else Path(validation),
                    )
                )
        for line in skipped_lines(contents[-1].skipped):
            watcher.noted(line)
        if not allow_overlap:
            contents[-1].refuse_overlap()
    _check_same_samples(contents)
    assessments: dict[str, Assessment] = {}
    for content in contents:
        with watcher.working(f"measuring {content.title}"):
            title = f"{content.title} (2)" if content.title in assessments else content.title
            assessments[title] = content.assess(intervals=intervals, seed=seed)
    notes = [
        f"{title}: {content.note}" if len(contents) > 1 else content.note
        for title, content in zip(assessments, contents, strict=True)
        if content.note
    ]
    folder = Path(out) if out is not None else _evaluation_folder(_path_of(sources[0]), first)
    result = Evaluation(
        assessments,
        differences(*assessments.values()) if len(contents) > 1 else [],
        " ".join(notes),
        next(iter(assessments.values())).thresholds,
        folder,
        (folder if first is None else first.path) / "threshold.json",
    )
    write_text(folder / "evaluation.json", dumps(finite(result.json()), indent=2) + "\n")
    _write_thresholds(result, first)
    if report:
        names = " against ".join(assessments)
        with watcher.working("drawing the report"):
            write_evaluation(
                folder,
                assessments,
                title=f"{names}: {contents[0].description}",
                command=command or shlex.join(["arcset", "evaluate", *map(str, sources)]),
                note=result.note,
                differences={names: result.differences} if result.differences else None,
            )
    files = "evaluation.json and report.html" if report else "evaluation.json"
    more = "" if result.thresholds is None else f", and {result.threshold_file}"
    watcher.noted(f"wrote {files} in {folder}{more}")
    return result


def _open_run(
    source: Run | Path | str,
    data: Data | None,
    network: nn.Module | None,
    device: str,
    watcher: Watcher,
) -> tuple[TrainedRun, str | Dataset | None]:
    """The run in memory, and the data to judge it on if that is not its own."""
    if isinstance(source, TrainedRun):
        trained = source
    else:
        trained = TrainedRun.load(source, device=device, network=network)
    if data is None or isinstance(data, str | Path):
        return trained, None if data is None else str(data)
    dataset = _read_given(data, trained.config, watcher, trained)
    if trained.config.data == GIVEN and trained is not source:
        try:  # its own data, if the identities are the same
            selection = selection_of(trained, dataset=dataset)
        except (DataError, OptionError):
            return trained, dataset
        return TrainedRun(trained, trained.network, trained.loss, trained.device, selection), None
    return trained, dataset


def _evaluation_folder(path: Path, run: TrainedRun | None) -> Path:
    """In a run's folder; beside a file or folder of embeddings, which stays as it is."""
    if run is not None:
        return run.path / "evaluation"
    name = path.name if path.is_dir() else path.stem
    return path.with_name(f"{name}-evaluation")


def _write_thresholds(result: Evaluation, run: TrainedRun | None) -> None:
    """Write threshold.json, of a run into its folder, of embeddings beside the report."""
    if result.thresholds is None and run is not None and run.thresholds is None:
        result.thresholds = make_run_thresholds(run)  # trained before thresholds came with training
    if result.thresholds is not None:
        result.thresholds.save(result.threshold_file)
    elif run is None:
        result.threshold_file.unlink(missing_ok=True)  # of an earlier evaluation


def _check_same_samples(contents: Sequence[EvaluationData]) -> None:
    first, *others = contents
    for other in others:
        ours, theirs = first.embeddings, other.embeddings
        if not np.array_equal(ours.names, theirs.names):
            raise InputError(
                f"{first.title} has {len(ours):,} samples of {len(ours.class_names):,} identities, "
                f"and {other.title} {len(theirs):,} of {len(theirs.class_names):,}, or they stand "
                "in another order; a comparison needs the same samples, row by row"
            )
