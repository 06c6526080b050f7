"""`arcset data`: list, download, check, split and pack datasets, and find doubtful labels."""

import io
from pathlib import Path
from typing import Annotated, cast

import typer

from arcset.checks import check_choice
from arcset.cli import options as o
from arcset.cli.output import (
    print_json,
    print_result,
    print_text,
    progress_bar,
    say,
    tell_notes,
    tell_skipped,
    working,
)
from arcset.data import (
    ImageSet,
    Split,
    dataset_entry,
    dataset_names,
    download_dataset,
    load_dataset,
    make_split,
    open_source,
    select,
)
from arcset.data import pack as make_pack
from arcset.data.check import check_data
from arcset.data.image import FITS, Fit, parse_size
from arcset.data.sources.pack import MANIFEST
from arcset.data.split import FRACTIONS, PARTS
from arcset.errors import OptionError
from arcset.files import write_bytes
from arcset.text import columns

data = typer.Typer(
    help="List, download, check, split and pack datasets, and find doubtful labels.",
    no_args_is_help=True,
)


@data.command("list")
def list_(json: o.Json = False) -> None:
    """List the named datasets: what they hold and where they are.

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
    headings = ["name", "what", "classes", "train", "test", "licence", "where"]
    rows = [
        [
            entry.name,
            entry.title,
            *(f"{count:,}" for count in (entry.classes, entry.train, entry.test)),
            entry.licence.partition(" (")[0],  # the authors are in --json
            entry.locate(),
        ]
        for entry in entries
    ]
    print_text(columns(headings, rows, right=(2, 3, 4)))


@data.command()
def download(
    name: Annotated[str, typer.Argument(help="A name from `arcset data list`.")],
) -> None:
    """Download a dataset into the cache folder and verify its checksums.

    Example: arcset data download mnist
    """
    say(f"{name}: {download_dataset(name)}")


@data.command()
def split(
    name: Annotated[
        str, typer.Argument(metavar="DATA", help="A named dataset, or the path of your own.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where to write the split.")],
    fractions: Annotated[
        str, typer.Option(help="Shares of train, validation (may be 0) and test.")
    ] = ",".join(str(share) for share in FRACTIONS),
    seed: Annotated[int, typer.Option(help="Seed of the random division.")] = 0,
    by: Annotated[
        str,
        typer.Option(
            help="identity; or group: classes with the same name before the first / stay together."
        ),
    ] = "identity",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: o.Json = False,
) -> None:
    """Split the classes of a dataset into training, validation and test classes.

    Train with it: arcset train omniglot --split split.json --out runs/characters

    Example: arcset data split omniglot --out split.json --by group
    """
    if out.exists() and not force:
        raise OptionError(f"{out} exists; replace it with --force, or name another file")
    dataset = load_dataset(name)
    shares = _parse_fractions(fractions)
    parts = make_split(dataset.class_names, shares, seed=seed, data=dataset.name, by=by)
    selection = select(dataset, None, parts)
    parts.save(out)
    images = (selection.train, selection.validation, selection.unseen)
    counts = {part: _count(parts, part, rows) for part, rows in zip(PARTS, images, strict=True)}
    test_images = 0 if selection.test is None else len(selection.test)
    how = {"data": parts.data, "seed": parts.seed, "fractions": parts.fractions, "by": parts.by}
    content = {"out": str(out), **how, **counts, "known_test_images": test_images}
    headings = ["part", *counts["train"]]
    rows = [[part, *(f"{number:,}" for number in line.values())] for part, line in counts.items()]
    print_result(json, content, columns(headings, rows, right=(1, 2, 3)))
    if not json:
        say(f"wrote {out}; {test_images:,} more images of the train classes are for testing")


def _count(parts: Split, part: str, images: ImageSet | None) -> dict[str, int]:
    """How many classes, groups (where the split is by group) and images a part has."""
    names = getattr(parts, part)
    groups = {"groups": len({name.partition("/")[0] for name in names})}
    return {
        "classes": len(names),
        **(groups if parts.by == "group" else {}),
        "images": 0 if images is None else len(images),
    }


def _parse_fractions(text: str) -> list[float]:
    try:
        return [float(share) for share in text.split(",")]
    except ValueError:
        raise OptionError(f"--fractions {text}: write three numbers, as 0.7,0.1,0.2") from None


@data.command()
def suspects(
    run: Annotated[Path, typer.Argument(help="Folder of a run trained with sub-centers.")],
    degrees: Annotated[
        float, typer.Option(help="List images farther than this from the dominant center.")
    ] = 75.0,
    rows: Annotated[int, typer.Option(help="How many to print, the farthest first.")] = 20,
    json: o.Json = False,
) -> None:
    """List training images with a doubtful label, found by a run with sub-centers.

    Train one with: arcset train mnist-sample --set subcenters=3 --out runs/three

    Example: arcset data suspects runs/three --degrees 75
    """
    # torch, which the other verbs need not wait for
    from arcset.data import to_tensors
    from arcset.losses import suspect_samples
    from arcset.runs import Run
    from arcset.runs.data import selection_of
    from arcset.runs.model import embed, load_model

    opened = Run.open(run)
    network, loss = load_model(opened)
    images, labels = to_tensors(selection_of(opened).train)
    with working("embedding the training images"):
        doubtful = suspect_samples(loss, embed(network, images), labels, degrees=degrees)
    names = opened.config.class_names or ()
    if json:
        print_json({**doubtful.json(), "classes": [names[label] for label in doubtful.labels]})
        return
    print_text(doubtful.table(rows, names))


@data.command()
def check(
    path: Annotated[
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
            help="Write a contact sheet: some identities, and everything suspicious.",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=0, help="How many examples of each problem to print.")
    ] = 10,
    json: o.Json = False,
) -> None:
    """Find broken, blank, duplicated and mislabelled images in your own data.

    The same picture under two identities is found by its pixels, whatever the
    format. Problems are listed worst first, with what to do about them.

    Exit code: 0 if the data is in order; 1 if something should be fixed before
    training, such as unreadable images or wrong labels; 2 if nothing can be
    read.

    Example: arcset data check people --sheet people.png
    """
    if sheet is not None and sheet.suffix.lower() != ".png":
        raise OptionError(f"--sheet {sheet}: name a file that ends in .png")
    listing = open_source(path).list_samples()
    with progress_bar("checking images") as progress:
        result = check_data(listing, watch=progress)
    print_result(json, result.json(), result.table(rows))
    if sheet is not None:
        from arcset.data.contact_sheet import contact_sheet

        stream = io.BytesIO()
        contact_sheet(listing, result).save(stream, "PNG", optimize=True)
        write_bytes(sheet, stream.getvalue())
        say(f"wrote the contact sheet {sheet}")
    if result.serious:
        raise typer.Exit(1)


@data.command()
def pack(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder with a sub-folder per identity, a CSV or Parquet table, or a .rec file.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="PACK", help="The folder to create.")],
    size: Annotated[
        str | None,
        typer.Option(
            metavar="N|HxW",
            help="Height and width. Default: the size of the images up to 128, else 112.",
        ),
    ] = None,
    channels: Annotated[
        int | None, typer.Option(help="1 for grey, 3 for colour. Default: from the images.")
    ] = None,
    fit: Annotated[
        str,
        typer.Option(help=f"For images of other proportions, one of: {', '.join(FITS)}."),
    ] = "pad",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing pack.")] = False,
    json: o.Json = False,
) -> None:
    """Decode your images once, into a pack that training reads from disk.

    Train with it: arcset train faces.pack --out runs/faces

    Example: arcset data pack photos --out faces.pack --size 112
    """
    with progress_bar("reading images") as progress:
        packed = make_pack(
            path,
            out,
            fit=cast(Fit, check_choice("fit", fit, FITS)),
            size=None if size is None else parse_size(size),
            channels=channels,
            force=force,
            watch=progress,
        )
    print_result(json, packed.json(), str(packed))
    tell_notes(packed.manifest.notes)
    tell_skipped(packed.manifest.skipped, more=f"all are in {packed.path / MANIFEST}")
