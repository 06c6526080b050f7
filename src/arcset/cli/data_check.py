"""`arcset data check`: whether own data is in order before it is trained on."""

import io
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from arcset.cli import options as o
from arcset.cli.output import print_json, print_text, say
from arcset.data import open_source
from arcset.data.check import check_data
from arcset.data.contact_sheet import contact_sheet
from arcset.errors import OptionError
from arcset.files import write_bytes

__all__ = ["check"]


def check(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder with a folder per identity, a CSV or Parquet table, a .rec file, a "
            "pack, or arrays of images (.npz).",
        ),
    ],
    sheet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png",
            help="Write a contact sheet: some identities, and all that is suspicious.",
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="Examples to print of each finding.")] = 10,
    json: o.Json = False,
) -> None:
    """Find what is broken, blank, doubled or labelled wrongly in your own data.

    The same picture under two identities is found by its pixels, whatever the
    format. Findings are in plain words, worst first, with what to do.

    Exit code: 0 if the data is in order; 1 if something should be put right
    before training, as unreadable or blank images and wrong labels; 2 if
    nothing can be read.

    Example: arcset data check people --sheet people.png
    """
    if sheet is not None and sheet.suffix.lower() != ".png":
        raise OptionError(f"--sheet {sheet}: name a file that ends in .png")
    listing = open_source(place).list_samples()
    columns = (
        TextColumn("looking"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("images, left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("looking", total=len(listing))
        found = check_data(listing, watch=lambda done, _: bar.update(task, completed=done))
    if json:
        print_json(found.json())
    else:
        print_text(found.table(rows))
    if sheet is not None:
        stream = io.BytesIO()
        contact_sheet(listing, found).save(stream, "PNG", optimize=True)
        write_bytes(sheet, stream.getvalue())
        say(f"the contact sheet is {sheet}")
    if found.serious:
        raise typer.Exit(1)
