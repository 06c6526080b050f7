"""`arcset sweep`: a grid of settings, and which of them is best."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from arcset import training
from arcset.cli import train_options as o
from arcset.cli.output import (
    print_json,
    print_table,
    print_text,
    say,
    show_progress,
    tell_skipped,
    working,
)
from arcset.cli.settings import given_options
from arcset.cli.sweep_grid import Span, span
from arcset.data import Dataset
from arcset.evaluation.measures import validated
from arcset.launch import is_main_process
from arcset.losses import loss_names
from arcset.reports import RunView, Story
from arcset.runs import RunConfig
from arcset.runs.data import dataset_of
from arcset.runs.settings import is_user_data
from arcset.training.progress import Watcher
from arcset.training.sweep import READ_BY, Sweep
from arcset.training.sweep_outcome import SHOWN, all_figures

__all__ = ["sweep"]


def sweep(
    context: typer.Context,
    data: Annotated[
        str, typer.Argument(help="A named dataset (see `arcset data list`), or one's own.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the runs. The same command goes on with what is there.")
    ],
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=V1,V2,…",
            help="A setting of the runs or option of the loss, with the values to try; may be "
            "repeated. One value holds for all. Within a value of augment, + joins several.",
        ),
    ],
    seeds: Annotated[int, typer.Option(help="Runs per point of the grid.")] = 1,
    recipe: o.RecipeOption = None,
    loss: Annotated[str, typer.Option(help=f"One of: {', '.join(loss_names())}.")] = "arcface",
    classes: o.Classes = None,
    split: o.SplitFile = None,
    hold_out: o.HoldOut = None,
    network: o.NetworkOption = "simple",
    dim: o.Dim = 128,
    epochs: o.Epochs = 20,
    batch: o.Batch = 256,
    scale: o.Scale = None,
    margin: o.MarginOption = None,
    augment: o.Augment = None,
    optimizer: o.Optimizer = "sgd",
    learning_rate: o.LearningRate = 0.1,
    schedule: o.Schedule = "one-cycle",
    device: o.Device = "auto",
    report: o.Report = True,
    json: o.Json = False,
) -> None:
    """Train every combination of some settings, one after another, and find the best.

    The best is chosen on the validation identities, so that the figures on the unseen classes
    beside it flatter nobody; hold some out with --hold-out or --split. Stopped or killed, the same
    command goes on: finished runs stay, an unfinished one continues from its checkpoint.

    Example: arcset sweep mnist-sample --hold-out 0.3,0.3 --set margin=0.2,0.5 --set scale=16,32
    --epochs 5 --out runs/sweep
    """
    given = given_options(context)
    with show_progress() as bars:
        reader = _Reader(bars)
        asked = span(given, settings, recipe=recipe, read=reader.read)
        for note in asked.notes:
            say(f"note: {note}")
        total = len(asked.points) * seeds
        counted = f"{_counted(asked)}, {seeds} {'seed' if seeds == 1 else 'seeds'} each"
        try:
            outcome = training.sweep(
                asked.points,
                seeds,
                out,
                grid=asked.grid,
                device=device,
                watcher=bars,
                datasets=reader.known,
                ready=lambda: say(f"{counted}: {total} runs"),
            )
        except KeyboardInterrupt:
            if (out / "sweep.json").exists():
                say(f"stopped; the same command goes on with the {total} runs in {out}")
            raise
    if not is_main_process():
        return
    for run in outcome.runs:
        if "failed" in run:
            say(f"note: {run['run']} is left out: {run['failed']}")
    if report:
        with working("drawing the report"):
            _story(outcome, out, data).write(out)
    if json:
        print_json(outcome.json())
        return
    _show(outcome, Path(data).name)
    say(f"the runs{', sweep.json and report.html' if report else ' and sweep.json'} are in {out}")


class _Reader:
    """Own data, read once for each way of reading it."""

    def __init__(self, bars: Watcher) -> None:
        self.bars = bars
        self.known: list[tuple[RunConfig, Dataset]] = []

    def read(self, config: RunConfig) -> Dataset | None:
        """The data of a configuration; None where it has a name and no defaults of its own."""
        if not is_user_data(config.data):
            return None
        for other, dataset in self.known:
            if all(getattr(config, name) == getattr(other, name) for name in READ_BY):
                return dataset
        dataset = dataset_of(config, watch=self.bars.reading)
        if not self.known:
            tell_skipped(dataset.skipped)
        self.known.append((config, dataset))
        return dataset


def _counted(asked: Span) -> str:
    """How many points there are, and why fewer than the grid has."""
    count = 1
    for values in asked.grid.values():
        count *= len(values)
    different = len(asked.points)
    if different == count:
        return f"{count} points"
    return f"{count} points, of which {different} differ"


def _story(outcome: Sweep, out: Path, data: str) -> Story:
    """All points in the table, the first ones in pictures."""
    shown = outcome.order[:SHOWN]
    best = outcome.best["name"]
    figures = all_figures()
    unused = "; not used for choosing" if outcome.validated else ""
    others = {
        name: f"{text}{unused}" if name.startswith("unseen") else text
        for name, text in figures.items()
        if not name.startswith("validation")
    }
    # What decides first, then the unseen: the rest is to the right of a narrow window.
    judged = {name: text for name, text in others.items() if name.startswith("unseen")}
    measures = {outcome.measure: figures[outcome.measure], **judged, **others}
    told: dict[str, Any] = {}
    if outcome.differences:
        told["differences"] = {
            f"{best} against {other}": [found] for other, found in outcome.differences.items()
        }
        told["verdicts"] = [(next(iter(outcome.differences.values())).name, outcome.sentence)]
    left = len(outcome.order) - len(shown)
    return Story(
        title=f"{Path(data).name}: {' × '.join(outcome.grid)}",
        runs=[RunView(out / f"{point.folder}-0", point.name) for point in shown],
        comparison={"runs": outcome.runs, "summary": outcome.summary, "of": "point"},
        measures=measures,
        unseen={p.name: outcome.unseen[p.name][0] for p in shown if p.name in outcome.unseen},
        verdict=f"The best is {best}. {outcome.note}"
        + (f" The pictures show the first {len(shown)}." if left else ""),
        command=shlex.join(["arcset", *sys.argv[1:]]),
        shown=[point.name for point in shown[:2]],
        **told,
    )


def _show(outcome: Sweep, data: str) -> None:
    decides = outcome.measure
    config = outcome.points[0].config
    same = {"network": config.network, "dim": f"{config.dim} dimensions"}
    same["epochs"] = f"{config.epochs} {'epoch' if config.epochs == 1 else 'epochs'}"
    title = ", ".join([data, *(text for key, text in same.items() if key not in outcome.grid)])
    seeds = "1 seed" if outcome.seeds == 1 else f"{outcome.seeds} seeds: mean ± half the range"
    table = Table(title=Text(f"{title}, {seeds}"), title_justify="left")
    for key in outcome.grid:
        table.add_column(Text(key))
    if outcome.validated:
        title = validated()[decides.removeprefix("validation_")].title
        table.add_column(f"validation {title}\n(decides)", justify="right")
    summary = outcome.summary
    judged = {f"unseen_{key}": one.title for key, one in validated().items()}
    shown = [name for name in judged if any(name in found for found in summary.values())]
    for name in shown:
        used = "decides" if name == decides else "not used" if outcome.validated else ""
        heading = f"unseen {judged[name]}" + (f"\n({used})" if used else "")
        table.add_column(heading, justify="right")
    for point in outcome.order:
        found = summary[point.name]
        told = point.told()
        figures = [decides, *shown] if outcome.validated else shown
        table.add_row(
            *(Text(told.get(key, "–")) for key in outcome.grid),
            *(_cell(found.get(name)) for name in figures),
        )
    print_table(table)
    print_text(outcome.note)
    if outcome.sentence:
        print_text(f"\n{outcome.sentence}")
    best = outcome.best
    print_text(f"\nThe best is {best['name']}. To train it again:\n  {best['command']}")


def _cell(measure: dict[str, float] | None) -> str:
    if measure is None:
        return "–"
    text = f"{measure['mean']:.4f}"
    half = (measure["high"] - measure["low"]) / 2
    return text if half == 0 else f"{text} ± {half:.4f}"
