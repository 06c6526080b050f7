"""`arcset gallery`: what is in a gallery, and changing it."""

from collections.abc import Sequence
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.gallery_calibrate import calibrate
from arcset.cli.gallery_info import info
from arcset.cli.gallery_move import export, import_file, migrate
from arcset.cli.gallery_show import columns
from arcset.cli.model_option import GalleryFile, existing
from arcset.cli.output import print_json, print_text
from arcset.errors import OptionError
from arcset.recognition.gallery import Sample
from arcset.text import plural

__all__ = ["gallery"]

gallery = typer.Typer(help="Look into a gallery, and change it.", no_args_is_help=True)


@gallery.command("list")
def list_subjects(
    file: GalleryFile,
    name: Annotated[
        str | None, typer.Argument(help="List the samples of this subject instead.")
    ] = None,
    json: o.Json = False,
) -> None:
    """List the subjects of a gallery, or the samples of one of them.

    Example: arcset gallery list people.db
    """
    with existing(file, read_only=True) as opened:
        if name is not None:
            _show_samples(opened.samples(name), json)
            return
        found = opened.subjects()
    if json:
        print_json([one.json() for one in found])
        return
    rows = [[one.name, f"{one.samples:,}", f"{one.added:%Y-%m-%d}"] for one in found]
    print_text(columns(["subject", "samples", "added"], rows, right=(1,)))
    print_text(f"\n{plural(len(found), 'subject')}")


def _show_samples(found: Sequence[Sample], as_json: bool) -> None:
    if as_json:
        print_json([one.json() for one in found])
        return
    rows = [
        [
            one.source or "–",
            str(one.id),
            f"{one.added:%Y-%m-%d}",
            "kept" if one.has_image else "not kept",
        ]
        for one in found
    ]
    print_text(columns(["source", "id", "added", "image"], rows, right=(1,)))


@gallery.command("remove")
def remove(
    file: GalleryFile,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Subjects to remove.")
    ] = None,
    sample: Annotated[
        list[int] | None,
        typer.Option(help="A single sample by its id, see `arcset gallery list`; may be repeated."),
    ] = None,
    json: o.Json = False,
) -> None:
    """Remove subjects, or single samples: names, embeddings and images are overwritten.

    Copies, exports and backups of the file are yours to delete. In Milvus nobody
    is found any more, but bytes stay on its disks until it has compacted them.

    Example: arcset gallery remove people.db anna
    """
    if bool(names) == bool(sample):
        raise OptionError("name subjects to remove, or samples with --sample, one of both")
    with existing(file) as opened:
        for name in names or []:
            if name not in opened:
                raise OptionError(f"nobody called {name!r} is enrolled in {file}")
        for number in sample or []:
            opened.image(number)  # or nobody is removed where one of the samples is not there
        removed = {name: opened.remove(name) for name in dict.fromkeys(names or [])}
        for number in dict.fromkeys(sample or []):
            opened.remove_sample(number)
        left = len(opened)
    if json:
        print_json({"removed": removed, "samples": sample or [], "subjects": left})
        return
    for name, count in removed.items():
        print_text(f"removed {name} with {plural(count, 'sample')}")
    for number in sample or []:
        print_text(f"removed sample {number}")
    print_text(f"{file}: {plural(left, 'subject')}")


@gallery.command("rename")
def rename(
    file: GalleryFile,
    old: Annotated[str, typer.Argument(help="What the subject is called.")],
    new: Annotated[str, typer.Argument(help="What it is to be called; a name that nobody has.")],
) -> None:
    """Give a subject another name.

    Example: arcset gallery rename people.db anna "Anna Karenina"
    """
    with existing(file) as opened:
        opened.rename(old, new)
    print_text(f"{old} is now called {new}")


@gallery.command("merge")
def merge(
    file: GalleryFile,
    source: Annotated[str, typer.Argument(help="The subject that goes.")],
    into: Annotated[str, typer.Argument(help="The subject that its samples go to.")],
) -> None:
    """Make one subject of two: all samples of the first go to the second.

    Example: arcset gallery merge people.db ann anna
    """
    with existing(file) as opened:
        opened.merge(source, into)
        count = len(opened.samples(into))
    print_text(f"{source} is now part of {into}, who has {plural(count, 'sample')}")


@gallery.command("compact")
def compact(file: GalleryFile) -> None:
    """Give back the room of removed samples, and overwrite what is left of their bytes.

    A gallery does so by itself when it needs to. Run it after a full disk or
    another process kept `remove` from overwriting bytes. For so long, it needs
    room for a second copy of the file.

    Example: arcset gallery compact people.db
    """
    with existing(file) as opened:
        before = opened.byte_count
        opened.compact()
        after = opened.byte_count
    size = "" if before is None or after is None else f": {before:,} bytes before, {after:,} now"
    print_text(f"compacted {file}{size}")


gallery.command("info")(info)
gallery.command("calibrate")(calibrate)
gallery.command("export")(export)
gallery.command("import")(import_file)
gallery.command("migrate")(migrate)
