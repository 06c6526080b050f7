"""`arcset data pack`: own images decoded once, into a folder that is used without loading it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from arcset.checks import check_choice
from arcset.cli import options as o
from arcset.cli.output import print_json, say
from arcset.data.decode import Watch
from arcset.data.image import FITS, Fit
from arcset.data.sources.pack import MANIFEST, Pack
from arcset.data.sources.pack import pack as make_pack
from arcset.errors import OptionError

__all__ = ["pack"]

_SHOWN = 5  # skipped files that are named; --json names all


def pack(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder with a sub-folder per identity, a CSV or Parquet table, or a .rec file.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="PACK", help="The folder to make.")],
    size: Annotated[
        str | None,
        typer.Option(
            metavar="N|HxW",
            help="Height and width; if left out, the images' own up to 128, or 112.",
        ),
    ] = None,
    channels: Annotated[
        int | None, typer.Option(help="1 for grey, 3 for colour; as the images are if left out.")
    ] = None,
    fit: Annotated[
        str,
        typer.Option(help=f"Where proportions differ, one of: {', '.join(FITS)}."),
    ] = "pad",
    force: Annotated[bool, typer.Option("--force", help="Replace a pack that is there.")] = False,
    json: o.Json = False,
) -> None:
    """Decode own images once, into a pack that training reads from disk.

    Train with it: arcset train faces.pack --out runs/faces

    Example: arcset data pack photos --out faces.pack --size 112
    """
    chosen = cast(Fit, check_choice("fit", fit, FITS))
    with _bar("reading images") as watch:
        made = make_pack(
            place, out, fit=chosen, size=_size(size), channels=channels, force=force, watch=watch
        )
    if json:
        print_json(made.json())
    else:
        _say(made)


def _size(text: str | None) -> int | tuple[int, int] | None:
    """112, or 112x96: height, then width."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6})(?:[x×](\d{1,6}))?", text.strip().lower())
    if found is None:
        raise OptionError(f"--size {text}: write one number, as 112, or two, as 112x96")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))


@contextmanager
def _bar(text: str) -> Iterator[Watch]:
    """A progress bar on stderr, moved by calling what is yielded."""
    with Progress(
        TextColumn(text),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _say(made: Pack) -> None:
    manifest = made.manifest
    read = manifest.reading
    colours = "grey" if read.channels == 1 else "RGB"
    say(
        f"{made.path}: {manifest.images:,} images of {len(manifest.class_names):,} identities, "
        f"{read.height}×{read.width} {colours}, {decimal(made.size)}; "
        f"{manifest.images - manifest.training:,} of the images are for testing"
    )
    for part, names in manifest.apart.items():
        say(f"kept apart for {part}: {len(names):,} identities")
    for note in manifest.notes:
        say(f"note: {note}")
    if manifest.skipped:
        say(f"skipped {len(manifest.skipped):,}:")
        for path, why in manifest.skipped[:_SHOWN]:
            say(f"  {path}: {why}")
        if (more := len(manifest.skipped) - _SHOWN) > 0:
            say(f"  … and {more:,} more; all are in {made.path / MANIFEST}")
