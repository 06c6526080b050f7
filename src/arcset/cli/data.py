"""`arcset data`: which datasets there are, fetching them, and doubtful labels in them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from arcset.cli import options as o
from arcset.cli.show import print_json, print_table, say, working
from arcset.data import (
    dataset_entry,
    dataset_names,
    download_dataset,
    load_dataset,
    select,
    to_tensors,
)
from arcset.losses import suspect_samples
from arcset.models import embed, load_model
from arcset.runs import Run

__all__ = ["data"]

data = typer.Typer(
    help="List the named datasets, download them, find doubtful labels.", no_args_is_help=True
)


@data.command("list")
def list_(json: o.Json = False) -> None:
    """List the named datasets: what they hold and where they come from.

    Example: arcset data list
    """
    entries = [dataset_entry(name) for name in dataset_names()]
    if json:
        fields = ("name", "title", "classes", "train", "test", "licence")
        print_json(
            [
                {**{field: getattr(entry, field) for field in fields}, "place": entry.locate()}
                for entry in entries
            ]
        )
        return
    table = Table("name", "what", "classes", "train", "test", "where", "licence")
    for entry in entries:
        counts = (f"{count:,}" for count in (entry.classes, entry.train, entry.test))
        table.add_row(entry.name, entry.title, *counts, entry.locate(), entry.licence)
    print_table(table)


@data.command()
def download(
    name: Annotated[str, typer.Argument(help="A name from `arcset data list`.")],
) -> None:
    """Fetch a dataset into the cache folder, checked against its checksums.

    Example: arcset data download mnist
    """
    say(f"{name}: {download_dataset(name)}")


@data.command()
def suspects(
    run: Annotated[Path, typer.Argument(help="Folder of a run trained with sub-centers.")],
    degrees: Annotated[
        float, typer.Option(help="Farther than this from the dominant center is doubtful.")
    ] = 75.0,
    rows: Annotated[int, typer.Option(help="How many to print, the farthest first.")] = 20,
    json: o.Json = False,
) -> None:
    """List training images whose label is doubtful, by a run trained with sub-centers.

    Train one with: arcset train mnist-sample --set subcenters=3 --out runs/three

    Example: arcset data suspects runs/three --degrees 75
    """
    opened = Run.open(run)
    network, loss = load_model(opened)
    images, labels = to_tensors(
        select(load_dataset(opened.config.data), opened.config.classes).train
    )
    with working("embedding the training images"):
        found = suspect_samples(loss, embed(network, images), labels, degrees=degrees)
    names = opened.config.class_names or ()
    if json:
        print_json({**found.json(), "classes": [names[label] for label in found.labels]})
        return
    share = len(found) / max(found.total, 1)
    say(
        f"{len(found):,} of {found.total:,} training images ({share:.1%}) lie more than "
        f"{degrees:g}° from their class's dominant center"
    )
    if not len(found):
        return
    table = Table("image", "class", "angle", "nearest sub-center", "dominant")
    for i in range(min(rows, len(found))):
        table.add_row(
            str(found.positions[i]),
            names[found.labels[i]],
            f"{found.degrees[i]:.1f}°",
            str(found.nearest[i]),
            str(found.dominant[i]),
        )
    print_table(table)
