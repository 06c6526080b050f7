"""`arcset data`: which datasets there are, fetching and splitting them, and doubtful labels."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from arcset.cli import options as o
from arcset.cli.data_check import check
from arcset.cli.data_pack import pack
from arcset.cli.output import print_json, print_table, say, working
from arcset.data import (
    ImageSet,
    Split,
    dataset_entry,
    dataset_names,
    download_dataset,
    load_dataset,
    make_split,
    select,
    to_tensors,
)
from arcset.data.split import FRACTIONS
from arcset.errors import OptionError
from arcset.losses import suspect_samples
from arcset.runs import Run
from arcset.runs.data import selection_of
from arcset.runs.model import embed, load_model

__all__ = ["data"]

data = typer.Typer(
    help="List the named datasets, download and split them, find doubtful labels.",
    no_args_is_help=True,
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
    table = Table("name", "what")
    for heading in ("classes", "train", "test"):
        table.add_column(heading, justify="right")
    table.add_column("licence")
    table.add_column("where", overflow="fold")  # a path that is cut off helps nobody
    for entry in entries:
        counts = (f"{count:,}" for count in (entry.classes, entry.train, entry.test))
        licence = entry.licence.partition(" (")[0]  # without the authors, whom --json names
        table.add_row(entry.name, entry.title, *counts, licence, Text(entry.locate()))
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
def split(
    name: Annotated[
        str, typer.Argument(metavar="DATA", help="A named dataset, or the path of one's own.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where to write the split.")],
    fractions: Annotated[
        str, typer.Option(help="Shares of train, validation (may be 0) and test.")
    ] = ",".join(str(share) for share in FRACTIONS),
    seed: Annotated[int, typer.Option(help="Decides who goes where.")] = 0,
    by: Annotated[
        str,
        typer.Option(
            help="identity, or group: classes with equal names before the first / stay together."
        ),
    ] = "identity",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: o.Json = False,
) -> None:
    """Divide the classes of a dataset into known ones, ones to tune on, and ones never seen.

    Train with it: arcset train omniglot --split split.json --out runs/characters

    Example: arcset data split omniglot --out split.json --by group
    """
    if out.exists() and not force:
        raise OptionError(f"{out} is there already; replace it with --force, or name another file")
    dataset = load_dataset(name)
    made = make_split(dataset.class_names, _shares(fractions), seed=seed, data=dataset.name, by=by)
    chosen = select(dataset, None, made)
    made.save(out)
    parts = {"train": chosen.train, "validation": chosen.validation, "test": chosen.unseen}
    counts = {part: _counts(made, part, images) for part, images in parts.items()}
    tested = 0 if chosen.test is None else len(chosen.test)
    if json:
        how = {"data": made.data, "seed": made.seed, "fractions": made.fractions, "by": made.by}
        print_json({"out": str(out), **how, **counts, "known_test_images": tested})
        return
    table = Table("part")
    for heading in counts["train"]:
        table.add_column(heading, justify="right")
    for part, numbers in counts.items():
        table.add_row(part, *(f"{number:,}" for number in numbers.values()))
    print_table(table)
    say(f"wrote {out}; of the train classes, {tested:,} more images are for testing")


def _counts(made: Split, part: str, images: ImageSet | None) -> dict[str, int]:
    """How many classes, groups (where the split is by group) and images a part has."""
    names = getattr(made, part)
    groups = {"groups": len({name.partition("/")[0] for name in names})}
    return {
        "classes": len(names),
        **(groups if made.by == "group" else {}),
        "images": 0 if images is None else len(images),
    }


def _shares(text: str) -> list[float]:
    try:
        return [float(share) for share in text.split(",")]
    except ValueError:
        raise OptionError(f"--fractions {text}: write three numbers, as 0.7,0.1,0.2") from None


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
    images, labels = to_tensors(selection_of(opened).train)
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


data.command()(pack)
data.command()(check)
