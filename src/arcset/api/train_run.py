"""`train`: settings → data → trainer → evaluation → what is written."""

import logging
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset as TorchDataset

from arcset.data import DATASETS, Dataset, ImageSet, Selection, Source, Split, load_dataset
from arcset.data.augment import parse_augmentation
from arcset.data.mapping import ClassMapping
from arcset.data.sources.arrays import dataset_of_arrays, hold_back_tests
from arcset.data.torch_dataset import from_torch, is_repeatable
from arcset.devices import choose_device
from arcset.errors import DataError, InputError, OptionError, RunError
from arcset.evaluation import Thresholds
from arcset.evaluation.results import Missing
from arcset.files import one_line
from arcset.launch import is_main_process, is_restarted
from arcset.losses import build_loss
from arcset.networks.registry import NETWORKS
from arcset.reports import RunReport, RunView
from arcset.reports.model_card import write_card
from arcset.reports.page import Section
from arcset.runs import Run, RunConfig
from arcset.runs.assess import evaluation_data, make_run_thresholds, measure_run, shape_words
from arcset.runs.config import GIVEN, unknown_setting
from arcset.runs.data import dataset_of, selection_of
from arcset.runs.model import TrainedRun
from arcset.runs.settings import (
    SUITED,
    Layer,
    Settings,
    is_user_data,
    list_layers,
    parse_setting,
    resolve_settings,
)
from arcset.text import plural, skipped_lines
from arcset.training import trainer
from arcset.training.fine_tune import choose_selection, load_earlier, measure_forgetting
from arcset.training.watchers import Lines, TensorBoardWatcher, Watcher, Watchers

#: What can be trained on: a name or path as on the command line, any source or dataset, a torch
#: Dataset of (image, label), or arrays (images, labels).
Data: TypeAlias = str | Path | Source | Dataset | TorchDataset[Any] | tuple[Any, Any]

logger = logging.getLogger("arcset")

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
        beside = {"out": out, "recipe": recipe, "config": config, "start": start}
        for name, value in {**beside, "again": again, "force": force}.items():
            if value:
                raise OptionError(f"resume takes its settings from the run: leave out {name}")
        folder = Run.open(path_of(resume)).path
        work = partial(_resume, folder, data, network, settings)
    elif out is None or (data in (None, "") and not (config or settings.get("data"))):
        raise OptionError(
            "name data and a folder: arcset train mnist-sample --out runs/first, or "
            'arcset.train("mnist-sample", out="runs/first")'
        )
    else:
        folder, again = Path(out), again or is_restarted()
        existing = _run_to_continue(folder) if again and not force else None
        # Before the folder is looked at: there may be a mistake in the settings as well.
        chosen = choose_settings(
            data, network=network, recipe=recipe, config=config, start=start, existing=existing,
            **settings,
        )  # fmt: skip
        _check_settings(chosen, device)
        work = partial(_begin, folder, data, network, chosen, existing, force=force, again=again)
    with trainer.lock_run(folder), _curves(watcher, folder if tensorboard else None) as watcher:
        try:
            trained: TrainedRun = work(device=device, watcher=watcher)
        except KeyboardInterrupt:
            if (folder / "config.toml").exists():
                done = plural(len(Run.open(folder).metrics()), "epoch")
                path = shlex.quote(str(folder))
                watcher.noted(f"stopped after {done}. Go on with: arcset train --resume {path}")
            raise
        if is_main_process():
            _complete(trained, watcher, licence=licence, report=report)
    return trained


def choose_settings(
    data: Data | None = None,
    *,
    network: str | nn.Module | None = None,
    recipe: str | None = None,
    config: Path | str | None = None,
    start: Run | Path | str | None = None,
    existing: Run | None = None,
    **settings: Any,
) -> Settings:
    """The settings of a run by the arguments of `train`, each with the layer that it comes from.

    Nothing is read yet: `Settings.suited_to` adds what suits the user's data. existing: a run that
    goes on; the one that it started from may be gone.
    """
    given = dict(settings)
    if network is not None:
        given["network"] = network if isinstance(network, str) else GIVEN
    return resolve_settings(
        layers_of(data, given, recipe=recipe, config=config, start=start, existing=existing)
    )


def _begin(
    folder: Path,
    data: Data | None,
    network: str | nn.Module | None,
    settings: Settings,
    existing: Run | None,
    *,
    force: bool,
    again: bool,
    device: str,
    watcher: Watcher,
) -> TrainedRun:
    """Train a new run, or go on with the one that is there."""
    if not again:
        Run.check_path(folder, force=force)
    module = network if isinstance(network, nn.Module) else None
    goes_on = existing is not None and settings.config.start is not None
    dataset = None
    if settings.config.data == GIVEN:
        dataset = read_given(data, settings.config, watcher)
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
    selection = choose_selection(config, existing, dataset=dataset)
    if not goes_on and (earlier := load_earlier(config)) is not None:
        for note in earlier.describe(selection):
            watcher.noted(note)
    if dataset is not None and selection.unseen is None:
        watcher.noted(
            "note: no identity is held out, so how well others are recognized is not measured; "
            "see --hold-out"
        )
    if module is not None:
        config = config.replace(dim=embedding_size(module, selection, settings))
    return trainer.train(
        config,
        folder,
        device=device,
        force=force,
        again=again,
        watcher=_Announcer(watcher, folder, _origin(settings), selection),
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
        selection = selection_of(run, dataset=read_given(data, run.config, watcher, run))
    return trainer.resume(
        folder,
        device=device,
        watcher=_Announcer(watcher, folder, "settings of the run"),
        changes=changes,
        selection=selection,
        network=network if isinstance(network, nn.Module) else None,
    )


def _run_to_continue(folder: Path) -> Run | None:
    """The run in a folder, if it has a checkpoint to go on from."""
    if not (folder / "config.toml").exists():
        return None
    run = Run.open(folder)
    return run if run.has_checkpoint else None


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


class _Announcer(Watchers):
    """Says what is trained, and on what, when training begins and all settings are known."""

    def __init__(
        self, watcher: Watcher, folder: Path, origin: str, selection: Selection | None = None
    ) -> None:
        super().__init__([watcher])
        self._folder, self._origin, self._selection = folder, origin, selection

    def started(self, name: str, done: int, steps: int) -> None:
        """The settings, as the run has them, and whom it holds out."""
        self.noted(f"{self._origin}: {_settings_words(Run.open(self._folder).config)}")
        if self._selection is not None:
            self.noted(_held_out_words(self._selection))
        super().started(name, done, steps)


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
    if report and not run.config.snapshot:
        watcher.noted("note: snapshot=0 keeps no embeddings, so there is no report")
    elif report:
        with watcher.working("drawing the report"):
            _draw_report(run, before, missing)
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


def _draw_report(run: TrainedRun, before: Section | None, missing: Missing) -> None:
    """Write report.html; the figures and the run are complete without it."""
    try:
        RunReport(
            title=run.path.resolve().name,
            runs=[RunView(run)],
            unseen={} if run.assessment is None else {run.path.name: run.assessment},
            command=shlex.join(["arcset", "train", "--config", "config.toml", "--out", "again"]),
            more=[] if before is None else [before],
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
        yield Watchers([watcher, writer])


# What a call from Python hands over: data of any kind, modules, settings, runs


def layers_of(
    data: Data | None,
    given: Mapping[str, Any],
    *,
    recipe: str | None,
    config: Path | str | None,
    start: Run | Path | str | None,
    existing: Run | None = None,
) -> list[Layer]:
    """The layers of settings that arguments come to: values, or texts as on the command line."""
    given = {key: _value_of(key, value) for key, value in given.items()}
    if data is not None:
        path = str(data.resolve()) if isinstance(data, Path) else data
        given["data"] = path if isinstance(path, str) else GIVEN
    if start is not None and existing is not None:
        given["start"] = str(path_of(start).resolve())
    goes_on = existing is not None and start is not None
    return list_layers(
        given,
        recipe=recipe,
        file=None if config is None else Path(config),
        start=None if start is None or goes_on else Run.open(path_of(start)),
        continued=existing if goes_on else None,
    )


def _value_of(key: str, value: Any) -> Any:
    """A setting as `RunConfig` has it: `size` may be one number, and paths are text there."""
    if key == "size" and isinstance(value, int):
        return [value, value]
    if key in ("size", "hold_out", "augment") and isinstance(value, str):
        return parse_setting(key, value)
    return str(value) if isinstance(value, Path) else value


def read_given(
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
        dataset = load_dataset(data, invert=config.invert, watch=watcher.reading, **reading)
    elif isinstance(data, tuple) and len(data) == 2:
        dataset = dataset_of_arrays(*data)
    elif isinstance(data, TorchDataset):
        dataset = hold_back_tests(from_torch(data, **reading))
        if not is_repeatable(data):
            watcher.noted(
                "note: dataset[i] is another image each time it is read. It is read once, so every "
                "epoch sees the same images (augment=… changes them), and a continued run, which "
                "reads them again, is not the same to the last bit"
            )
    else:
        raise InputError(
            "data must be a name, a path, a Source, a torch Dataset of (image, label) or arrays "
            f"(images, labels), not {type(data).__name__}"
        )
    if config.mapping is None:
        return dataset
    return ClassMapping.load(config.mapping if run is None else run.mapping_file).apply(dataset)


def embedding_size(module: nn.Module, selection: Selection, settings: Settings) -> int:
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
        kind = tuple(rows.shape) if isinstance(rows, torch.Tensor) else type(rows).__name__
        raise InputError(f"the network gives {kind} for two images, and embeddings are (2, D)")
    if settings.is_explicit("dim") and settings.config.dim != rows.shape[1]:
        raise OptionError(
            f"dim={settings.config.dim}, and the network gives {rows.shape[1]}: leave dim out"
        )
    return int(rows.shape[1])


def path_of(run: Run | Path | str) -> Path:
    """The folder of a run, or the file, that was named or handed over."""
    return run.path if isinstance(run, Run) else Path(run)
