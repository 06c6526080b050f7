"""`arcset enroll`: add subjects to a gallery."""

from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.output import print_result, progress_bar, say, tell_notes, tell_skipped
from arcset.recognition.gallery.enroll import enroll_images
from arcset.text import one_line, plural


def enroll(
    gallery: o.GalleryArgument,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA|IMAGE…",
            help="A folder with a sub-folder per subject, a table, records, a pack or arrays of "
            "images; or images of the subject --name.",
        ),
    ],
    model: o.ModelOption = None,
    name: Annotated[
        str | None,
        typer.Option(help="The subject that all these images show, whatever their folders."),
    ] = None,
    faces: o.FacesOption = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            help="How a subject of several samples is scored: max, mean, or top-3 (the mean of its "
            "best 3). Stored in the gallery. Default: max."
        ),
    ] = None,
    keep_images: Annotated[
        bool | None,
        typer.Option(
            "--keep-images/--no-keep-images",
            help="Store the images in the gallery, so that it can move to another model.",
        ),
    ] = None,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Add subjects to a gallery, or further images of them; a new gallery is created.

    The deepest folder that holds images is the subject. Images that cannot be
    read are skipped and named. Those that the gallery holds already, byte for
    byte, are not stored twice.

    Example: arcset enroll people.db photos/ --model runs/faces
    """
    with progress_bar("enrolling") as progress:
        result = enroll_images(
            gallery,
            sources,
            name=name,
            model=model,
            faces=faces,
            scoring=scoring,
            keep_images=keep_images,
            device=device,
            progress=progress,
        )
    text = (
        f"{result}\n{gallery}: {plural(result.total_subjects, 'subject')}, "
        f"{plural(result.total_samples, 'sample')}"
    )
    print_result(json, {"gallery": str(gallery), **result.json()}, text)
    tell_skipped(result.skipped)
    tell_notes(list(result.notes.values()))
    for path, names in result.shared.items():
        say(f"note: {one_line(path)} was given for {' and '.join(names)}: one of them is wrong")
