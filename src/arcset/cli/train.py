"""`arcset train`: one run."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from arcset import api
from arcset.cli import options as o
from arcset.cli.output import print_json, print_table, print_text, show_progress
from arcset.cli.settings import (
    OPTIONS,
    RecipeOption,
    SetOption,
    check_names,
    print_settings,
    takes_settings,
)
from arcset.evaluation.measures import Measure, measures_of
from arcset.launch import is_main_process
from arcset.recognition.decisions import decide, threshold_words
from arcset.reports.tables import headline
from arcset.runs import Run
from arcset.runs.data import dataset_of
from arcset.runs.model import TrainedRun
from arcset.runs.settings import (
    Layer,
    is_user_data,
    parse_changes,
    resolve_settings,
)


@takes_settings(*OPTIONS, after="recipe")
def train(
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
    **given: Any,
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
    given |= parse_changes(settings or [])
    check_names(api.train, given)
    data = given.pop("data", data)
    if show_settings:
        if resume is not None:
            stored = Layer("run", Run.open(resume).config.model_dump(), str(resume))
            changed = resolve_settings([stored, Layer("options", given, explicit=True)])
            print_settings(changed, as_json=json)
            return
        chosen = api.choose_settings(data, recipe=recipe, config=config, start=start, **given)
        if is_user_data(chosen.config.data):
            chosen = chosen.suited_to(dataset_of(chosen.config))
        print_settings(chosen, as_json=json)
        return
    with show_progress() as watcher:
        run = api.train(
            data,
            out=out,
            recipe=recipe,
            config=config,
            start=start,
            resume=resume,
            again=again,
            force=force,
            device=device,
            report=report,
            licence=licence,
            tensorboard=tensorboard,
            watcher=watcher,
            **given,
        )
    if not is_main_process():
        return
    if json:
        print_json(_content(run))
    else:
        _show(run)
    if "report" in run.missing:
        raise typer.Exit(2)


def _content(run: TrainedRun) -> dict[str, Any]:
    """All that was measured, as one object."""
    used = None if run.thresholds is None else decide(1.0, run.thresholds)
    unseen = {}
    for value in [] if run.assessment is None else headline(run.assessment):
        low, high = value.interval or (None, None)
        unseen[f"{value.measure.part}.{value.name}"] = {
            "value": value.value,
            "low": low,
            "high": high,
        }
    content: dict[str, Any] = {
        "run": str(run.path),
        "config": run.config.model_dump(mode="json"),
        **run.measures,
        "unseen": unseen,
        "threshold": None if used is None else used.threshold,
        "far": None if used is None else used.far,
        "rough": None if used is None else used.rough,
        "expected": None if used is None else used.expected,
        "missing": run.missing,
        "report": None if run.report is None else str(run.report),
        "card": str(run.path / "README.md"),
    }
    if run.config.start is not None:
        content["forgetting"] = [change.json() for change in run.forgetting]
    return content


def _show(run: TrainedRun) -> None:
    """A table and a few lines on stdout: what counts most comes first."""
    table = Table(
        *("measure", "value", "95 % interval", "what it says"),
        title=Text(str(run.path)),
        title_justify="left",
    )
    for value in [] if run.assessment is None else headline(run.assessment):
        row = (value.format(), value.format_interval(), value.meaning)
        table.add_row(f"unseen {value.label}", *row)
    for known in measures_of("known"):
        table.add_row(known.key, _format(run, known), "", known.meaning)
    for change in run.forgetting:
        table.add_row(*change.row())
    print_table(table)
    if run.report is not None:
        print_text(f"report     {run.report}")
    print_text(f"card       {run.path / 'README.md'}")
    if run.thresholds is not None:
        words = threshold_words(run.thresholds)
        print_text(f"threshold  {run.path / 'threshold.json'}: {words}")
    for number, command in enumerate(_next_commands(run)):
        print_text(f"{'' if number else 'next':<10} {command}")


def _format(run: TrainedRun, measure: Measure) -> str:
    """A figure of the run; a number that is null in JSON although nothing prevented it is ∞."""
    value = run.measures[measure.key]
    if value is not None:
        return f"{value:.4g}"
    is_measured = not {measure.key, "known classes"} & run.missing.keys()
    return "∞" if is_measured and measure.unit == "number" else "–"


def _next_commands(run: Run) -> list[str]:
    """What to do with a run; of vectors there are no photos."""
    path = shlex.quote(str(run.path))
    if run.config.shape is None or len(run.config.shape) != 3:
        return [f"arcset evaluate {path}"]
    return [
        f"arcset verify {path} A.jpg B.jpg",
        f"arcset enroll people.db photos/ --model {path}",
        f"arcset export {path} --out {shlex.quote(f'{run.path.name}.onnx')}",
    ]
