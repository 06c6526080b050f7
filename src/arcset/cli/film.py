"""`arcset film`: how embeddings moved during training."""

from pathlib import Path
from typing import Annotated

import typer

from arcset.cli.output import progress_bar, say


def film(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of trained runs.")],
    out: Annotated[Path, typer.Option(help="The film: a .gif, or an .mp4 where ffmpeg is.")],
    parts: Annotated[str, typer.Option(help="test, train, or train,test for both.")] = "test",
    seconds_per_epoch: Annotated[
        float | None,
        typer.Option(help="Default: half a second, and at most 8 for all epochs."),
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

    with progress_bar("drawing frames") as progress:
        write_film(
            [RunView(run) for run in runs],
            out,
            parts=[part.strip() for part in parts.split(",")],
            fps=fps,
            seconds_per_epoch=seconds_per_epoch,
            width=width,
            progress=progress,
        )
    say(f"the film is {out}, {out.stat().st_size / 1e6:.1f} MB")
