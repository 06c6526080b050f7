"""`arcset train`: one run."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from arcset import training
from arcset.cli import options as o
from arcset.cli.kept import kept_of_start, kept_section, kept_table, tell_start
from arcset.cli.settings import (
    absolute,
    chosen_config,
    given_options,
    is_own,
    named_data,
    resumed_settings,
    was_given,
)
from arcset.cli.show import ProgressBars, print_json, print_table, say, tell_skipped, working
from arcset.data import Selection, selection_for, selection_of
from arcset.data.of_run import dataset_of
from arcset.errors import OptionError
from arcset.evaluation import Assessment
from arcset.losses import loss_names
from arcset.pictures import RunView, Story
from arcset.runs import Run, RunConfig
from arcset.training.card import write_card
from arcset.training.judge import Judged, judge_run
from arcset.training.measure import MEASURES
from arcset.training.processes import is_chief, restarted
from arcset.training.progress import Several, Watcher
from arcset.training.start import earlier_of, has_begun
from arcset.training.tensorboard import TensorBoardWatcher

__all__ = ["train"]

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
    recipe: o.RecipeOption = None,
    loss: Annotated[str, typer.Option(help=f"One of: {', '.join(loss_names())}.")] = "arcface",
    classes: o.Classes = None,
    split: o.SplitFile = None,
    hold_out: o.HoldOut = None,
    size: Annotated[
        str | None,
        typer.Option(help="Read own images at this size, as 64 or 64x48; from the files if not."),
    ] = None,
    network: o.NetworkOption = "simple",
    dim: o.Dim = 128,
    epochs: o.Epochs = 20,
    batch: o.Batch = 256,
    seed: Annotated[int, typer.Option(help="Decides weights and shuffling.")] = 0,
    scale: o.Scale = None,
    margin: o.MarginOption = None,
    augment: o.Augment = None,
    optimizer: o.Optimizer = "sgd",
    learning_rate: o.LearningRate = 0.1,
    schedule: o.Schedule = "one-cycle",
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
    mapping: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help='Merge or remove identities: JSON, as {"anna 2": "anna", "unknown": null}.',
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings from a TOML file, such as a run's config.toml."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any other setting, or option of the loss."
        ),
    ] = None,
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
    json: o.Json = False,
) -> None:
    """Train one embedding and measure it on known and on unseen classes.

    Own data gets settings that suit its size; a tenth of the identities is held out for validation
    and a tenth for testing. Ctrl-C stops after a checkpoint; --resume goes on from there, and also
    where the process was killed. Several processes share the work under torchrun. --from goes on
    from another run with other identities, and shows what of the old ones was forgotten.

    Example: arcset train faces/ --out runs/faces
    """
    if resume is not None:
        _refuse_beside_resume(context)
    elif out is None or (data is None and config is None):
        raise OptionError("name a dataset and a folder: arcset train mnist-sample --out runs/first")
    place = resume or out
    assert place is not None
    try:
        with ProgressBars() as bars, _watchers(bars, place if tensorboard else None) as watcher:
            if resume is not None:
                changes = resumed_settings(context)
                run = training.resume(resume, device=device, watcher=watcher, changes=changes)
            else:
                if not (again or restarted()):
                    Run.check_place(place, force=force)
                chosen, selection = _chosen(context, bars)
                run = training.train(
                    chosen,
                    place,
                    device=device,
                    force=force,
                    again=again,
                    watcher=watcher,
                    selection=selection,
                )
    except KeyboardInterrupt:
        if (place / "config.toml").exists():
            kept = len(Run.open(place).metrics())
            say(f"stopped; {kept} epochs are done. Go on with: arcset train --resume {place}")
        raise
    if not is_chief():
        return
    chosen_data = selection_of(run) if resume is not None else selection
    with working("measuring"):
        outcome = kept_of_start(run, chosen_data, device)
        judged, assessment = _judged(run, chosen_data, device)
        measures = training.measure(run, device=device, selection=chosen_data, unseen=assessment)
        write_card(run, chosen_data, judged, assessment, licence=licence)
    if report:
        with working("drawing the report"):
            command = shlex.join(["arcset", "train", "--config", "config.toml", "--out", "again"])
            Story(
                title=run.path.name,
                runs=[RunView(run.path)],
                unseen={} if assessment is None else {run.path.name: assessment},
                command=command,
                more=kept_section(outcome),
            ).write(run.path)
    _show(run, measures, outcome, json)


def _chosen(context: typer.Context, bars: ProgressBars) -> tuple[RunConfig, Selection]:
    """The configuration that the command line asks for, and the data that it chooses."""
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
    dataset = None
    data = named_data(given, file)
    if is_own(data):
        given["data"] = absolute(data)
        # Read once, at the size that the options ask for; what suits it depends on the data.
        asked = chosen_config(given, **options, quiet=True)
        if begun is None or asked.start is None:
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
    goes_on = restarted() or (context.params["again"] and not context.params["force"])
    if not goes_on or not (place / "config.toml").exists():
        return None
    run = Run.open(place)
    return run if has_begun(run) else None


@contextmanager
def _watchers(bars: ProgressBars, place: Path | None) -> Iterator[Watcher]:
    """The bars, and TensorBoard's files where asked for."""
    if place is None:
        yield bars
        return
    with TensorBoardWatcher(place / "tensorboard") as board:
        yield Several([bars, board])


def _judged(run: Run, selection: Selection, device: str) -> tuple[Judged | None, Assessment | None]:
    """The run on the identities that it has never seen, where there are some."""
    if selection.unseen is None or len(selection.unseen.class_names) < 2:
        return None, None
    judged = judge_run(run, part="unseen", device=device, selection=selection)
    return judged, judged.assess(intervals=True)


def _refuse_beside_resume(context: typer.Context) -> None:
    """A continued run keeps its settings; one that is named anyway would be silently ignored."""
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name in context.params:
        if was_given(context, name) and name not in _WITH_RESUME:
            shown = "DATA" if name == "data" else options[name]
            raise OptionError(f"--resume takes its settings from the run; leave out {shown}")


def _show(
    run: Run, measures: dict[str, float | None], kept: dict[str, Any] | None, as_json: bool
) -> None:
    if as_json:
        content = {"run": str(run.path), "config": run.config.model_dump(mode="json"), **measures}
        print_json(content if kept is None else {**content, "forgetting": kept})
        return
    table = Table(
        "measure", "value", "what it says", title=Text(str(run.path)), title_justify="left"
    )
    for name, meaning in MEASURES.items():
        value = measures[name]
        table.add_row(name, "–" if value is None else f"{value:.4g}", meaning)
    print_table(table)
    if kept is not None:
        print_table(kept_table(kept))
