"""`arcset train`: one run."""

import logging
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from arcset import training
from arcset.cli import options as o
from arcset.cli.kept import kept_of_start, kept_section, tell_start
from arcset.cli.output import (
    print_json,
    say,
    show_progress,
    tell_skipped,
    working,
)
from arcset.cli.settings import (
    OPTIONS,
    RecipeOption,
    SetOption,
    chosen_config,
    given_options,
    print_settings,
    resumed_settings,
    takes_settings,
    was_given,
)
from arcset.cli.train_outcome import Outcome, held_out_words, settings_words
from arcset.data import DATASETS, Selection, Split, load_dataset
from arcset.data.augment import parse_augmentation
from arcset.data.mapping import ClassMapping
from arcset.devices import choose_device
from arcset.errors import ArcsetError, DataError, OptionError
from arcset.evaluation import Assessment, Thresholds
from arcset.evaluation.results import Missing
from arcset.launch import is_main_process, is_restarted
from arcset.losses import build_loss
from arcset.networks.registry import NETWORKS
from arcset.reports import RunView, Story
from arcset.runs import Run, RunConfig
from arcset.runs.assess import EvaluationData, evaluation_data, make_run_thresholds, measure_run
from arcset.runs.data import dataset_of, selection_for, selection_of
from arcset.runs.model import TrainedRun
from arcset.runs.settings import Layer, Settings, is_user_data, list_layers, resolve_settings
from arcset.training.card import write_card
from arcset.training.loop import alone
from arcset.training.progress import Several, Silent, Watcher
from arcset.training.start import earlier_of, has_begun
from arcset.training.tensorboard import TensorBoardWatcher

__all__ = ["train"]

logger = logging.getLogger("arcset")

_SOME = 1000  # classes that a loss is built for to see whether its options fit

_WITH_RESUME = (
    "resume",
    "device",
    "json",
    "report",
    "tensorboard",
    "licence",
    "epochs",
    "settings",
)


@takes_settings(*OPTIONS, after="recipe")
def train(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A named dataset (see `arcset data list`), or one's own: a folder with a "
            "sub-folder per identity, a CSV or Parquet table of path,label, an .npz, .rec or pack."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the run.")] = None,
    recipe: RecipeOption = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Begin with this run's weights and, for identities that it knows, its centers; "
            "its settings stand where none are given, with a quarter of the epochs and a fifth of "
            "the learning rate. --set freeze=N keeps the first N layers with weights.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings from a TOML file, such as a run's config.toml."),
    ] = None,
    settings: SetOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Continue this run instead of a new one. --epochs and --set may change how long "
            "it is and what is kept on the way, and nothing else.",
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--continue", help="If the run is there already, with the same settings, go on with it."
        ),
    ] = False,
    device: o.Device = "auto",
    force: o.Force = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write scalars to RUN/tensorboard as well.")
    ] = False,
    licence: Annotated[
        str, typer.Option(help="Of the model, for its card: README.md of the run.")
    ] = "",
    report: o.Report = True,
    show_settings: Annotated[
        bool,
        typer.Option(
            "--show-settings",
            help="Print every setting, its value and where it comes from, and train nothing.",
        ),
    ] = False,
    json: o.Json = False,
    **_: Any,
) -> None:
    """Train one embedding and measure it on known and on unseen classes.

    Your own data gets settings that suit it, which are printed before training begins; a tenth of
    its identities is held out for validation and a tenth for testing, where there are enough.
    --show-settings prints all settings and where each comes from. Ctrl-C stops after a checkpoint;
    --resume goes on from there, and also where the process was killed. Several processes share the
    work under torchrun. --from starts from another run with other identities, and shows what of the
    old ones was forgotten.

    Example: arcset train faces/ --out runs/faces
    """
    if show_settings:
        print_settings(_resolved(context), as_json=json)
        return
    if resume is not None:
        _refuse_beside_resume(context)
        resumed_settings(context)
        Run.open(resume)
    elif out is None or (data is None and config is None):
        raise OptionError("name a dataset and a folder: arcset train mnist-sample --out runs/first")
    else:
        _check_options(context)  # before the place: it may be a mistake, too
    place = resume or out
    assert place is not None
    with alone(place):
        trained = _trained(context, place)
        if is_main_process():
            _finish(trained, device, licence=licence, report=report, as_json=json)


def _trained(context: typer.Context, place: Path) -> TrainedRun:
    """Train what the command line asks for, or go on with it."""
    resume, device = context.params["resume"], context.params["device"]
    force, again = context.params["force"], context.params["again"]
    board = place / "tensorboard" if context.params["tensorboard"] else None
    try:
        with show_progress() as bars, _watchers(bars, board) as watchers:
            if resume is not None:
                changes = resumed_settings(context)
                watchers.append(_Announcer(place, "settings of the run"))
                watcher = Several(watchers[::-1])
                return training.resume(resume, device=device, watcher=watcher, changes=changes)
            if not (again or is_restarted()):
                Run.check_place(place, force=force)
            chosen, selection = _chosen(context, bars)
            watchers.append(_Announcer(place, _origin(context, chosen), selection))
            return training.train(
                chosen,
                place,
                device=device,
                force=force,
                again=again,
                watcher=Several(watchers[::-1]),
                selection=selection,
            )
    except KeyboardInterrupt:
        if (place / "config.toml").exists():
            kept = len(Run.open(place).metrics())
            say(f"stopped; {kept} epochs are done. Go on with: arcset train --resume {place}")
        raise


def _finish(trained: TrainedRun, device: str, *, licence: str, report: bool, as_json: bool) -> None:
    """Measure what can be measured, and write and show it; the report last, as most can go wrong
    in it."""
    missing = Missing()
    with working("measuring"):
        kept = missing.attempt(
            "forgetting", lambda: kept_of_start(trained, trained.selection, device)
        )
        data, assessment = missing.attempt("unseen classes", lambda: _assess(trained)) or (
            None,
            None,
        )
        measures = measure_run(trained, assessment, missing=missing)
        thresholds = missing.attempt("threshold", lambda: _thresholds(trained, assessment))
        write_card(trained, trained.selection, data, assessment, thresholds, licence=licence)
    problem = _draw(trained, assessment, kept) if report else None
    for why in dict.fromkeys(missing.values()):
        names = ", ".join(name for name, reason in missing.items() if reason == why)
        say(f"not measured: {names}: {why}")
    if problem is not None:
        missing["report"] = f"{type(problem).__name__}: {problem}"
        say(f"warning: report.html was not drawn: {missing['report']}")
    drawn = report and problem is None
    outcome = Outcome(trained, measures, assessment, thresholds, kept, dict(missing), drawn)
    if as_json:
        print_json(outcome.json())
    else:
        outcome.show()
    if isinstance(problem, ArcsetError | OSError):
        raise problem


def _thresholds(trained: TrainedRun, assessment: Assessment | None) -> Thresholds:
    """Write threshold.json, so that the run can say which cosine means "the same"."""
    thresholds = make_run_thresholds(trained, assessment)
    if thresholds is None:
        raise DataError("it takes two images of one identity, and one of another")
    thresholds.save(trained.path / "threshold.json")
    return thresholds


def _draw(
    run: TrainedRun, assessment: Assessment | None, kept: dict[str, Any] | None
) -> Exception | None:
    """Write report.html; what went wrong, as the figures and the run are complete without it."""
    try:
        with working("drawing the report"):
            Story(
                title=run.path.name,
                runs=[RunView(run)],
                unseen={} if assessment is None else {run.path.name: assessment},
                command=shlex.join(
                    ["arcset", "train", "--config", "config.toml", "--out", "again"]
                ),
                more=kept_section(kept),
            ).write(run.path)
    except Exception as error:
        logger.info("the report was not drawn", exc_info=True)
        return error
    return None


def _resolved(context: typer.Context) -> Settings:
    """The settings that the command line asks for, each with its layer."""
    if context.params["resume"] is not None:
        run = Run.open(context.params["resume"])
        changed = Layer("options", resumed_settings(context), explicit=True)
        return resolve_settings([Layer("run", run.config.model_dump(), str(run.path)), changed])
    given, options, begun = _asked(context)
    layers = list_layers(
        given,
        recipe=options["recipe"],
        file=options["file"],
        changes=options["settings"] or (),
        start=options.get("start"),
        continued=options.get("begun"),
    )
    settings = resolve_settings(layers)
    if is_user_data(settings.config.data) and begun is None:
        settings = settings.suited_to(dataset_of(settings.config))
    return settings


def _check_options(context: typer.Context) -> None:
    """Find mistakes among the options, as far as no data need be read for it."""
    given, options, _ = _asked(context)
    config = chosen_config(given, **options, quiet=True)
    if config.data not in DATASETS and not is_user_data(config.data):
        load_dataset(config.data)  # raises
    if config.data in DATASETS:
        named = [*given, *(text.partition("=")[0] for text in options["settings"] or ())]
        for name in ("size", "channels", "fit", "invert"):
            if name in named:
                option = f"--{name}" if name in given else f"--set {name}"
                raise OptionError(
                    f"{config.data} is a named dataset, which is read as it is: leave out {option}"
                )
    choose_device(context.params["device"])
    if config.split is not None:
        Split.load(Path(config.split))
    if config.mapping is not None:
        ClassMapping.load(config.mapping)
    if not config.network.startswith("timm:"):
        NETWORKS[config.network]  # raises for one that is not known
    for text in config.augment:
        parse_augmentation(text)
    own: dict[str, Any] = {key: value for key, value in config.options.items() if key != "group"}
    own |= {"scale": config.scale, "margin": config.margin}
    level = logger.level
    logger.setLevel(logging.WARNING)  # what it would choose for so many classes tells nothing
    try:
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            build_loss(config.loss, config.dim, _SOME, **own)
    finally:
        logger.setLevel(level)


def _asked(context: typer.Context) -> tuple[dict[str, Any], dict[str, Any], Run | None]:
    """What the command line gives: settings, further arguments of `chosen_config`, and the run
    that is to be continued, if it has begun."""
    given = given_options(context)
    start, file = context.params["start"], context.params["config"]
    options = {
        "recipe": context.params["recipe"],
        "file": file,
        "settings": context.params["settings"],
    }
    begun = _begun(context)
    if start is not None and begun is not None:
        given["start"] = str(start.resolve())  # a name only: the run there may be gone
        options["begun"] = begun
    elif start is not None:
        options["start"] = Run.open(start)
    return given, options, begun


def _origin(context: typer.Context, config: RunConfig) -> str:
    """Where the settings come from that no option gives."""
    if config.recipe is not None:
        return f"settings of the recipe {config.recipe}"
    named = [context.params[name] for name in ("config", "start")]
    if is_user_data(config.data) and not any(named):
        return "settings that suit the data"
    return "settings"


class _Announcer(Silent):
    """Says what is trained, and on what, when training begins and all settings are known."""

    def __init__(self, place: Path, origin: str, selection: Selection | None = None) -> None:
        self.place, self.origin, self.selection = place, origin, selection

    def started(self, name: str, done: int, steps: int) -> None:
        """The settings, as the run has them, and whom it holds out."""
        say(f"{self.origin}: {settings_words(Run.open(self.place).config)}")
        if self.selection is not None:
            say(held_out_words(self.selection))


def _chosen(context: typer.Context, bars: Watcher) -> tuple[RunConfig, Selection]:
    """The configuration that the command line asks for, and the data that it chooses."""
    given, options, begun = _asked(context)
    dataset = None
    asked = chosen_config(given, **options, quiet=True)
    if is_user_data(asked.data) and (begun is None or asked.start is None):
        # Read once, at the size that the options ask for; what suits it depends on the data.
        dataset = dataset_of(asked, watch=bars.reading)
        tell_skipped(dataset.skipped)
    config = chosen_config(given, **options, dataset=dataset)
    if begun is not None and config.start is not None:
        return config, selection_of(begun)
    earlier = earlier_of(config)
    selection = selection_for(config, dataset=dataset, earlier=earlier)
    if earlier is not None:
        tell_start(earlier, selection)
    if dataset is not None and selection.unseen is None:
        say(
            "note: no identity is held out, so how well others are recognized is not measured; "
            "see --hold-out"
        )
    return config, selection


def _begun(context: typer.Context) -> Run | None:
    """The run that is to be continued, if it is there and needs the one before no more."""
    place = context.params["out"]
    goes_on = is_restarted() or (context.params["again"] and not context.params["force"])
    if not goes_on or not (place / "config.toml").exists():
        return None
    run = Run.open(place)
    return run if has_begun(run) else None


@contextmanager
def _watchers(bars: Watcher, board: Path | None) -> Iterator[list[Watcher]]:
    """The bars or lines, and TensorBoard's files where asked for."""
    if board is None:
        yield [bars]
        return
    with TensorBoardWatcher(board) as writer:
        yield [bars, writer]


def _assess(trained: TrainedRun) -> tuple[EvaluationData | None, Assessment | None]:
    """The run on the identities that it has never seen, where there are some."""
    unseen = trained.selection.unseen
    if unseen is None or len(unseen.class_names) < 2:
        return None, None
    data = evaluation_data(trained, part="unseen")
    return data, data.assess()


def _refuse_beside_resume(context: typer.Context) -> None:
    """A continued run keeps its settings; one that is named anyway would be silently ignored."""
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name in context.params:
        if was_given(context, name) and name not in _WITH_RESUME:
            shown = "DATA" if name == "data" else options[name]
            raise OptionError(f"--resume takes its settings from the run; leave out {shown}")
