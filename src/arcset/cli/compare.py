"""`arcset compare`: losses side by side, or a grid of settings and which is best."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from arcset import api
from arcset.cli import options as o
from arcset.cli.output import print_json, print_table, print_text, say, show_progress
from arcset.cli.settings import OPTIONS, RecipeOption, check_names, takes_settings
from arcset.errors import OptionError
from arcset.launch import is_main_process
from arcset.runs.settings import parse_changes
from arcset.text import plural
from arcset.training.compare import Comparison

_WHOLE = ("classes", "split", "hold_out", "mapping")  # a comma stands within one value of these


@takes_settings(*(name for name in OPTIONS if name not in ("loss", "seed")), after="recipe")
def compare(
    context: typer.Context,
    data: Annotated[
        str, typer.Argument(help="A named dataset (see `arcset data list`), or your own.")
    ],
    losses: Annotated[
        str,
        typer.Option(
            help="Comma-separated; a loss may carry options, and settings that suit it: "
            "softmax:bias=false:learning_rate=0.2,arcface."
        ),
    ] = "softmax,normface,arcface",
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Runs per loss, or per combination of a grid.", show_default="3; 1 in a grid"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the runs; runs/compare-DATE-TIME if left out. The same command goes "
            "on with what is there."
        ),
    ] = None,
    recipe: RecipeOption = None,
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
        typer.Option(
            "--set",
            metavar="KEY=VALUE,…",
            help="Any other setting, or option of the loss. With several values it spans a grid, "
            "instead of --losses: every combination is trained. + joins what belongs to one value "
            "of augment.",
        ),
    ] = None,
    device: o.Device = "auto",
    force: o.Force = False,
    report: o.Report = True,
    json: o.Json = False,
    **given: Any,
) -> None:
    """Train several losses with the same data, network and seeds, and compare them.

    Compare at a matched --scale: a small scale alone draws classes together, margin or not. With
    --recipe, scale and margin are not the recipe's but chosen for each loss, unless given.

    With --set KEY=A,B every combination of values is trained. The best is chosen on the validation
    identities, and it alone is then measured on the unseen ones; hold some out with --hold-out or
    --split. Stopped or killed, the same command goes on.

    Example: arcset compare mnist-sample --classes 0-4 --losses normface,arcface --scale 16 --dim 2

    Example: arcset compare mnist-sample --hold-out 0.3,0.3 --set margin=0.2,0.5 --set scale=16,32
    """
    grid = read_grid(settings or [])
    source = context.get_parameter_source("losses")
    if grid is not None and source is not None and source.name == "COMMANDLINE":
        raise OptionError("--losses beside a grid: write the losses as --set loss=arcface,cosface")
    given |= parse_changes(settings or []) if grid is None else {}
    check_names(api.compare, given)
    data = given.pop("data", data)
    with show_progress() as watcher:
        outcome = api.compare(
            data,
            losses=losses.split(","),
            grid=grid,
            seeds=seeds,
            out=out,
            recipe=recipe,
            start=start,
            device=device,
            force=force,
            report=report,
            watcher=watcher,
            command=shlex.join(["arcset", *sys.argv[1:]]),
            **given,
        )
    if not is_main_process():
        return
    if json:
        print_json(outcome.json())
        return
    config = outcome.variants[0].config
    words = {
        "classes": f"classes {config.classes}" if config.classes else "",
        "network": config.network,
        "dim": f"{config.dim} dimensions",
        "epochs": plural(config.epochs, "epoch"),
    }
    same = [text for key, text in words.items() if text and key not in (grid or ())]
    print_comparison(outcome, ", ".join([Path(data).name, *same]))
    say(f"the runs{', report.html' if report else ''} and comparison.json are in {outcome.out}")


def read_grid(settings: list[str]) -> dict[str, list[Any]] | None:
    """The values of each setting, where at least one has several.

    >>> read_grid(["margin=0.2,0.3", "augment=none,affine:rotate=10+flip", "hold_out=0.1,0.2"])
    {'margin': [0.2, 0.3], 'augment': [[], ['affine:rotate=10', 'flip']],
     'hold_out': [{'validation': 0.1, 'test': 0.2}]}
    >>> read_grid(["margin=0.2", "classes=0,1"])
    """
    grid: dict[str, list[Any]] = {}
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise OptionError(f"--set {setting}: write KEY=VALUE, or KEY=VALUE,… for a grid")
        texts = [text] if key in _WHOLE else [part.strip() for part in text.split(",")]
        if len(texts) > 1 and "" in texts:
            raise OptionError(f"--set {setting}: a value is empty")
        if key == "augment":
            texts = [part.replace("+", ",") for part in texts]
        if key in grid:
            raise OptionError(f"--set {key} stands twice: write its values as {key}=A,B")
        grid[key] = [parse_changes([f"{key}={part}"])[key] for part in texts]
    return grid if any(len(values) > 1 for values in grid.values()) else None


def print_comparison(outcome: Comparison, title: str) -> None:
    """The table, and what it comes to."""
    spread = "1 seed" if outcome.seeds == 1 else f"{outcome.seeds} seeds: mean ± half the range"
    print_text(f"{title}, {spread}")
    table = Table()
    heading, *rows = outcome.rows()
    for text in heading:
        table.add_column(Text(text), justify="left" if text == heading[0] else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    print_table(table)
    sentences = [sentence for sentence in (outcome.note, *outcome.sentences()) if sentence]
    print_text("\n".join(["", *sentences]))
    if outcome.grid is not None:
        best = outcome.best
        print_text(f"\nThe best is {best['name']}. To train it again:\n  {best['command']}")
