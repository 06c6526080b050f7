"""`arcset film`: how embeddings moved during training."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from arcset.cli.output import say

__all__ = ["film"]


def film(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of trained runs.")],
    out: Annotated[Path, typer.Option(help="The film: a .gif, or an .mp4 where ffmpeg is.")],
    parts: Annotated[str, typer.Option(help="test, train, or train,test for both.")] = "test",
    seconds_per_epoch: Annotated[
        float | None,
        typer.Option(help="Half a second, and at most 8 for all epochs, if left out."),
    ] = None,
    fps: Annotated[int, typer.Option(help="Frames per second.")] = 10,
    width: Annotated[int, typer.Option(help="Pixels; the height follows.")] = 800,
) -> None:
    """Film the embeddings of one or several runs over the epochs, side by side.

    The runs need the same data, classes and dimension. Two and three dimensions are shown as they
    are, more through their principal components.

    Example: arcset film runs/softmax runs/arcface --out film.gif
    """
    # Imported late: the other verbs need not wait for matplotlib.
    from arcset.reports.film import write_film
    from arcset.reports.view import RunView

    views = [RunView(run) for run in runs]
    columns = (
        TextColumn("drawing"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("frames, left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("drawing", total=None)
        write_film(
            views,
            out,
            parts=[part.strip() for part in parts.split(",")],
            fps=fps,
            seconds_per_epoch=seconds_per_epoch,
            width=width,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    say(f"the film is {out}, {out.stat().st_size / 1e6:.1f} MB")
