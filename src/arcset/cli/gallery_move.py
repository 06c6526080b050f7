"""`arcset gallery export`, `import` and `migrate`: to files, from files, to another model."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.gallery_show import progress_bar
from arcset.cli.model_option import (
    Chosen,
    FacesOption,
    GalleryFile,
    Place,
    existing,
    find_settings,
    load_model,
    remember,
)
from arcset.cli.output import print_json, print_text
from arcset.data.embeddings import holds_shards, read_embeddings, read_manifest
from arcset.errors import ArcsetError, DataError, OptionError
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.milvus.beginning import discard_empty
from arcset.recognition.gallery.parquet_files import GalleryFile as Exported
from arcset.text import plural

__all__ = ["export", "import_file", "migrate"]


def export(
    file: GalleryFile,
    out: Annotated[Path, typer.Option(metavar="FILE.parquet", help="The file to write.")],
    images: Annotated[
        bool, typer.Option("--images/--no-images", help="Whether kept images are in it.")
    ] = True,
    json: o.Json = False,
) -> None:
    """Write all names and embeddings into a Parquet file that other tools can read.

    Kept images are in it too, unless you say --no-images: a gallery in Milvus
    takes none. Who is removed from the gallery later is not removed from the
    file.

    Example: arcset gallery export people.db --out people.parquet
    """
    with existing(file, read_only=True) as opened:
        samples, subjects = opened.export(out, images=images), len(opened)
    if json:
        print_json({"file": str(out), "subjects": subjects, "samples": samples})
        return
    print_text(f"{plural(samples, 'embedding')} of {plural(subjects, 'subject')} are in {out}")


def import_file(
    file: GalleryFile,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A .parquet from `arcset gallery export`; or a folder of `arcset embed`; or "
            "embeddings of any tool, .parquet or .npz, for a gallery without a model.",
        ),
    ],
    json: o.Json = False,
) -> None:
    """Take in names and embeddings from a file, all of them or none; makes a gallery if needed.

    Example: arcset gallery import copy.db people.parquet
    """
    new = find_settings(file) is None
    try:
        count, subjects = _take_in(file, source, new)
    except BaseException:
        if new:
            _take_back(file)
        raise
    if json:
        print_json({"gallery": str(file), "samples": count, "subjects": subjects})
        return
    print_text(
        f"took in {plural(count, 'embedding')}; {file} has {plural(subjects, 'subject')} now"
    )


def _take_back(file: Place) -> None:
    """Leave nothing of a gallery that was made for a file which cannot be taken in."""
    if isinstance(file, Address):
        with suppress(ArcsetError):
            discard_empty(file)
        return
    for end in ("", "-wal", "-shm"):
        file.with_name(file.name + end).unlink(missing_ok=True)


def _take_in(file: Place, source: Path, new: bool) -> tuple[int, int]:
    """How many came, and how many subjects there are then."""
    whole = _gallery_file(source)
    if whole is not None:
        dim, scoring = (whole.dim, whole.scoring) if new else (None, None)
        with Gallery.open(file, dim=dim, scoring=scoring) as opened:
            return len(opened.import_file(source)), len(opened)
    found = read_embeddings(source)
    with Gallery.open(file, dim=found.embeddings.shape[1] if new else None) as opened:
        made_by = read_manifest(source).digest if holds_shards(source) else None
        if opened.model_digest and made_by is not None and opened.model_digest != made_by:
            raise OptionError(
                f"{source} was embedded by another model than {opened.model_name}, to which {file} "
                "belongs: embed the images with that one"
            )
        if opened.model_digest and made_by is None:
            raise OptionError(
                f"{source} does not say which model made its embeddings, and {file} belongs to "
                f"{opened.model_name}: enroll images instead, or make a gallery without a model"
            )
        names, rows = found.names.tolist(), found.embeddings
        return len(opened.enroll_many(names, embeddings=rows, sources=found.paths)), len(opened)


def _gallery_file(source: Path) -> Exported | None:
    """The export of a gallery; None for embeddings of other tools."""
    if source.suffix == ".parquet" and not source.is_dir():
        try:
            return Exported(source)
        except DataError as error:
            if "was not written by" not in str(error):
                raise
    return None


def migrate(
    file: GalleryFile,
    model: Annotated[Path, typer.Option(metavar="RUN|FILE.onnx", help="The model to move to.")],
    faces: FacesOption = None,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Move a gallery to another model: embed all its images anew.

    It takes a gallery that kept its images (`arcset enroll --keep-images`).
    Everything moves, or nothing does. Afterwards the calibration is that of the
    new model.

    Example: arcset gallery migrate people.db --model runs/better
    """
    with existing(file) as opened:
        chosen = Chosen.read(opened.model_path)
        if faces is None and chosen is not None:
            faces = chosen.faces
        recognizer = load_model(model, faces, device=device)
        with progress_bar("embedding") as progress:
            opened.migrate(recognizer, progress)
        remember(opened, model, faces)
        samples = opened.sample_count
    if json:
        print_json({"gallery": str(file), "model": recognizer.name, "samples": samples})
        return
    print_text(f"{file} is now for {recognizer.name}: {plural(samples, 'sample')} embedded anew")
