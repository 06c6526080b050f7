"""`arcset data`: which datasets there are, and fetching them."""

from typing import Annotated

import typer
from rich.table import Table

from arcset.cli import options as o
from arcset.cli.show import print_json, print_table, say
from arcset.data import dataset_entry, dataset_names, download_dataset

__all__ = ["data"]

data = typer.Typer(help="List the named datasets, and download them.", no_args_is_help=True)


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
