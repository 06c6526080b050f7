"""`arcset cluster`: group the images that show the same identity."""

import json as jsons
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.output import print_result, progress_bar, say, tell_skipped, working
from arcset.files import finite, write_text
from arcset.recognition.clustering import METHODS
from arcset.recognition.grouping import Grouped, embed_items, group_items


def cluster(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder with images below, a table, records, a pack or arrays of images; or "
            "embeddings: .parquet, .npz.",
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN|FILE.onnx",
            help="What embeds the images: a run's folder, or an .onnx file.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results. Default: DATA-groups.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Join groups with at least this mean cosine; replaces --far."),
    ] = None,
    far: Annotated[
        float | None,
        typer.Option(help="Use the model's threshold at this false accept rate."),
    ] = None,
    method: Annotated[
        str, typer.Option(help=f"{', '.join(METHODS)}: how groups are joined.")
    ] = "average",
    faces: o.PhotoFaces = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels/--no-labels",
            help="Whether sub-folders (or a table's labels) are identities, which the groups are "
            "compared with.",
        ),
    ] = True,
    sheet: Annotated[
        bool, typer.Option("--sheet/--no-sheet", help="Write groups.html, to look at.")
    ] = True,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Group the images that show the same identity, without knowing any of them.

    Writes groups.csv (path, group), groups.json, and groups.html to look at.
    Group 1 is the largest. The threshold comes from the model's calibration
    and from the images themselves. Where sub-folders name identities, it
    says how well the groups agree with them. With --faces, all the faces in
    photos are grouped.

    Example: arcset cluster photos/ --model runs/faces --out groups
    """
    with progress_bar("embedding") as progress:
        items = embed_items(
            source,
            model,
            faces,
            labelled=labels,
            threshold=threshold,
            far=far,
            device=device,
            progress=progress,
        )
    with working(f"comparing {len(items):,} embeddings"):
        grouped = group_items(items, method)
    name = source.resolve().stem if source.is_file() else source.resolve().name
    folder, content = out or Path(f"{name}-groups"), grouped.json()
    write_text(folder / "groups.csv", grouped.csv())
    text = jsons.dumps(finite(content), ensure_ascii=False, indent=1)
    write_text(folder / "groups.json", f"{text}\n")
    files = "groups.csv and groups.json"
    if sheet and items.embedded.paths:
        with working("drawing the contact sheet"):
            _write_sheet(folder / "groups.html", source, grouped)
        files = "groups.csv, groups.json and groups.html"
    tell_skipped(items.skipped)
    if items.point.note:
        say(f"note: {items.point.note}")
    print_result(json, content, str(grouped))
    if not json:
        say(f"wrote {files} in {folder}")


def _write_sheet(out: Path, source: Path, grouped: Grouped) -> None:
    from arcset.reports.cluster_report import Member, write_cluster_report  # slow to import

    items = grouped.items
    first, point, *scores = str(grouped).split("\n")
    write_cluster_report(
        out,
        [
            [
                Member(items.names[row], items.labels[row], partial(items.picture, row))
                for row in rows
            ]
            for rows in grouped.clustering.by_typicality(items.embedded.embeddings)
        ],
        title=f"Who is who in {source.resolve().name}",
        lead=[first, point, *(["; ".join(scores)] if scores else [])],
        command=shlex.join(["arcset", *sys.argv[1:]]),
    )
