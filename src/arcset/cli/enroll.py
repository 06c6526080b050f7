"""`arcset enroll`: whom a gallery is to know."""

from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.gallery_enrolling import Target, enroll_files
from arcset.cli.gallery_show import plain, progress_bar
from arcset.cli.gallery_sources import list_wanted
from arcset.cli.model_option import FacesOption, GalleryFile, ModelOption
from arcset.cli.output import print_json, print_text, say, tell_notes, tell_skipped
from arcset.errors import DataError
from arcset.text import plural

__all__ = ["enroll"]


def enroll(
    gallery: GalleryFile,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA|IMAGE…",
            help="A folder with a sub-folder per subject, a table, records, a pack or arrays of "
            "images; or images of the subject --name.",
        ),
    ],
    model: ModelOption = None,
    name: Annotated[
        str | None,
        typer.Option(help="Whom all these images show, instead of the folders' names."),
    ] = None,
    faces: FacesOption = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            help="How a subject of several samples is scored: max, mean, or top-3 (the mean of its "
            "best 3). Kept in the gallery; max if left out."
        ),
    ] = None,
    keep_images: Annotated[
        bool | None,
        typer.Option(
            "--keep-images/--no-keep-images",
            help="Keep the images in the gallery, so that it can move to another model.",
        ),
    ] = None,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Add subjects, or further images of them, to a gallery, made if there is none.

    The deepest folder that holds images is the subject. Images that cannot be
    read are skipped and named. Those that the gallery holds already, byte for
    byte, are not stored twice.

    Example: arcset enroll people.db photos/ --model runs/faces
    """
    wanted = list_wanted(sources, name)
    for note in wanted.notes:
        say(f"note: {note}")
    settings = {"scoring": scoring, "keep_images": keep_images}
    with (
        Target(gallery, model, faces, device, settings) as target,
        progress_bar("enrolling") as progress,
    ):
        done = enroll_files(wanted, target, progress)
    if not done.samples and not done.already:
        tell_skipped([(plain(path), why) for path, why in done.skipped.items()])
        raise DataError(f"none of {plural(len(done.skipped), 'file')} can be enrolled")
    if json:
        print_json({"gallery": str(gallery), **done.json()})
        return
    print_text(
        f"{done}\n{gallery}: {plural(done.total_subjects, 'subject')}, "
        f"{plural(done.total_samples, 'sample')}"
    )
    tell_skipped([(plain(path), why) for path, why in done.skipped.items()])
    tell_notes([plain(note) for note in done.notes.values()])
    for path, names in done.shared.items():
        say(f"note: {plain(path)} was given for {' and '.join(names)}: one of them is wrong")
