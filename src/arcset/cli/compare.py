"""`arcset compare`: several losses side by side."""

import shlex
import sys
from datetime import datetime
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from arcset import training
from arcset.api import start_notes
from arcset.cli import train_options as o
from arcset.cli.output import (
    comparison_table,
    print_json,
    print_table,
    print_text,
    say,
    show_progress,
    working,
)
from arcset.cli.settings import chosen_config, given_options
from arcset.evaluation.assessment import FEW
from arcset.evaluation.measures import figure_meanings
from arcset.files import write_text
from arcset.launch import is_main_process
from arcset.reports import RunView, Story
from arcset.runs import Run
from arcset.runs.data import dataset_of, selection_for
from arcset.runs.settings import is_user_data
from arcset.training import LossSpec
from arcset.training.start import earlier_of

__all__ = ["compare"]


def compare(
    context: typer.Context,
    data: Annotated[
        str, typer.Argument(help="A named dataset (see `arcset data list`), or one's own.")
    ],
    losses: Annotated[
        str,
        typer.Option(
            help="Comma-separated; a loss may carry options, and settings that suit it: "
            "softmax:bias=false:learning_rate=0.2,arcface."
        ),
    ] = "softmax,normface,arcface",
    seeds: Annotated[int, typer.Option(help="Runs per loss.")] = 3,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs; runs/compare-DATE-TIME if left out.")
    ] = None,
    recipe: o.RecipeOption = None,
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
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Begin every run with this one's weights and settings, as arcset train does.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other setting of the runs."),
    ] = None,
    device: o.Device = "auto",
    force: o.Force = False,
    report: o.Report = True,
    json: o.Json = False,
) -> None:
    """Train several losses with the same data, network and seeds, and compare them.

    Compare at a matched --scale: a small scale alone draws classes together, margin or not. With
    --recipe, scale and margin are not the recipe's but chosen for each loss, unless given.

    Example: arcset compare mnist-sample --classes 0-4 --losses normface,arcface --scale 16 --dim 2
    """
    specs = [LossSpec.parse(text) for text in losses.split(",")]
    given = given_options(context)
    options: dict[str, Any] = {"recipe": recipe, "settings": settings, "quiet": True}
    if start is not None:
        options["start"] = Run.open(start)
    dataset = None
    if is_user_data(data):
        dataset = dataset_of(chosen_config(given, **options))
    # The losses are named apart: what a recipe tuned for its own does not carry over to others.
    config = chosen_config({**given, "loss": "normface"}, **options, dataset=dataset)
    config = config.replace(scale=scale, margin=margin)
    if (earlier := earlier_of(config)) is not None:
        dataset = dataset or dataset_of(config)
        for note in start_notes(earlier, selection_for(config, dataset=dataset, earlier=earlier)):
            say(note)
    for spec in specs:
        for option in spec.applied(config)[1]:
            say(f"note: {spec.label} has no {option}: --{option} is ignored")
    place = out or Path("runs") / f"compare-{datetime.now():%Y%m%d-%H%M%S}"
    with show_progress() as bars:
        outcome = training.compare(
            specs, config, seeds, place, device=device, force=force, watcher=bars, dataset=dataset
        )
    if not is_main_process():
        return
    write_text(place / "comparison.json", dumps(outcome.json(), indent=2) + "\n")
    if report:
        with working("drawing the report"):
            Story(
                title=f"{Path(data).name}: {', '.join(spec.label for spec in specs)}",
                runs=[RunView(place / f"{spec.folder}-0", spec.label) for spec in specs],
                comparison=outcome.json(),
                measures=figure_meanings(),
                **outcome.told(),
                command=shlex.join(["arcset", *sys.argv[1:]]),
            ).write(place)
    if json:
        print_json(outcome.json())
        return
    plural = "seed" if seeds == 1 else "seeds: mean ± half the range"
    known = f", classes {classes}" if classes else ""
    title = (
        f"{Path(data).name}{known}, {config.network}, {config.dim} dimensions, "
        f"{config.epochs} epochs, {seeds} {plural}"
    )
    print_table(comparison_table(outcome.summary, title))
    if outcome.verdicts:
        identities = next(iter(outcome.unseen.values()))[0].identities
        print_text(
            f"\nOn {identities} classes never seen; 95 % intervals over "
            + ("classes and seeds" if seeds > 1 else "classes, about these runs and no others")
            + (" (few classes: they are rough)" if identities < FEW else "")
        )
    for verdict in outcome.verdicts:
        print_text(f"  {verdict.title}: {verdict.sentence()}")
    say(f"the runs{' and report.html' if report else ''} are in {place}")
