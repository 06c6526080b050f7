"""`arcset train`: one run."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from arcset import training
from arcset.cli import options as o
from arcset.cli.show import ProgressBars, print_json, print_table, say, working
from arcset.data import selection_of
from arcset.errors import OptionError
from arcset.losses import loss_names
from arcset.pictures import RunView, Story
from arcset.runs import Run, RunConfig
from arcset.runs.config import read_settings
from arcset.training.compare import LossSpec, parse_value
from arcset.training.measure import MEASURES

__all__ = ["train"]


def train(
    context: typer.Context,
    data: Annotated[
        str | None, typer.Argument(help="A named dataset: see `arcset data list`.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the run.")] = None,
    loss: Annotated[str, typer.Option(help=f"One of: {', '.join(loss_names())}.")] = "arcface",
    classes: o.Classes = None,
    split: o.SplitFile = None,
    network: o.NetworkOption = "simple",
    dim: o.Dim = 128,
    epochs: o.Epochs = 20,
    batch: o.Batch = 256,
    seed: Annotated[int, typer.Option(help="Decides weights and shuffling.")] = 0,
    scale: o.Scale = None,
    margin: o.MarginOption = None,
    optimizer: o.Optimizer = "sgd",
    learning_rate: o.LearningRate = 0.1,
    schedule: o.Schedule = "one-cycle",
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
        Path | None, typer.Option(metavar="RUN", help="Continue this run instead of a new one.")
    ] = None,
    device: o.Device = "auto",
    force: o.Force = False,
    report: o.Report = True,
    json: o.Json = False,
) -> None:
    """Train one embedding and measure it on known and on unseen classes.

    Ctrl-C keeps the epochs that are done; --resume goes on from there.

    Example: arcset train mnist-sample --classes 0-4 --loss arcface --dim 2 --out runs/arcface
    """
    if resume is not None:
        _refuse_beside_resume(context)
    elif out is None or (data is None and config is None):
        raise OptionError("name a dataset and a folder: arcset train mnist-sample --out runs/first")
    place = resume or out
    assert place is not None
    try:
        with ProgressBars() as bars:
            if resume is not None:
                run = training.resume(resume, device=device, watcher=bars)
            else:
                chosen = _config(context, config, settings or [])
                run = training.train(chosen, place, device=device, force=force, watcher=bars)
    except KeyboardInterrupt:
        if (place / "config.toml").exists():
            kept = len(Run.open(place).metrics())
            say(f"stopped; {kept} epochs are kept. Go on with: arcset train --resume {place}")
        raise
    measures = training.measure(run, device=device, selection=selection_of(run))
    if report:
        with working("drawing the report"):
            again = shlex.join(["arcset", "train", "--config", "config.toml", "--out", "again"])
            Story(title=run.path.name, runs=[RunView(run.path)], command=again).write(run.path)
    _show(run, measures, json)


#: Options of the verb that are settings of the run under the same name.
_FIELDS = (
    "data",
    "loss",
    "classes",
    "split",
    "network",
    "dim",
    "epochs",
    "batch",
    "seed",
    "scale",
    "margin",
    "optimizer",
    "learning_rate",
    "schedule",
)


def _config(context: typer.Context, file: Path | None, settings: list[str]) -> RunConfig:
    """The run's configuration: a file's settings, then options that were given, then --set.

    --set takes settings of the run and options of the loss.
    """
    values = {key: context.params[key] for key in _FIELDS}
    if file is not None:
        given = {key: value for key, value in values.items() if _was_given(context, key)}
        saved = read_settings(file)
        copy = file.with_name("split.json")
        if "split" in saved and file.name == "config.toml" and copy.is_file():
            saved["split"] = str(copy)  # the run's own: the original may have moved or changed
        for one, other in (("classes", "split"), ("split", "classes")):
            if one in given:
                saved.pop(other, None)
        if "loss" in given:  # another loss does not inherit the options of the one in the file
            for key in ("scale", "margin", "options"):
                saved.pop(key, None)
        values = {**saved, **given}
    spec = LossSpec.parse(values.pop("loss", "arcface"))
    options = dict(values.pop("options", {}))
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise OptionError(f"--set {setting}: write KEY=VALUE")
        if key in RunConfig.model_fields and key not in ("loss", "options"):
            values[key] = parse_value(value)
        else:
            options[key] = parse_value(value)
    spec = LossSpec(spec.loss, {**options, **spec.options}, spec.label)
    config, ignored = spec.applied(RunConfig(**values))
    for option in ignored:
        say(f"note: {spec.loss} has no {option}: --{option} is ignored")
    return config


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_beside_resume(context: typer.Context) -> None:
    """A continued run keeps its settings; one that is named anyway would be silently ignored."""
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name in context.params:
        if _was_given(context, name) and name not in ("resume", "device", "json", "report"):
            shown = "DATA" if name == "data" else options[name]
            raise OptionError(f"--resume takes its settings from the run; leave out {shown}")


def _show(run: Run, measures: dict[str, float | None], as_json: bool) -> None:
    if as_json:
        print_json({"run": str(run.path), "config": run.config.model_dump(mode="json"), **measures})
        return
    table = Table(
        "measure", "value", "what it says", title=Text(str(run.path)), title_justify="left"
    )
    for name, meaning in MEASURES.items():
        value = measures[name]
        table.add_row(name, "–" if value is None else f"{value:.4g}", meaning)
    print_table(table)
