"""`arcset gallery`: what is in a gallery, and changing it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arcset.cli import options as o
from arcset.cli.output import (
    print_result,
    print_text,
    progress_bar,
    say,
    tell_notes,
    tell_skipped,
)
from arcset.errors import OptionError
from arcset.evaluation.calibration.thresholds import expected_words
from arcset.recognition.decisions import WorkingPoint
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.calibrate import CalibratedGallery, calibrate_gallery
from arcset.recognition.gallery.enroll import import_embeddings
from arcset.recognition.recognizer import load_model
from arcset.text import columns, one_line, plural

_STORED = {True: "stored", False: "not stored"}
_NAMED_PAIRS = 5  # of subjects that may be one person
_RATES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)

gallery = typer.Typer(help="Look into a gallery, and change it.", no_args_is_help=True)


@gallery.command("list")
def list_subjects(
    file: o.GalleryArgument,
    name: Annotated[
        str | None, typer.Argument(help="List the samples of this subject instead.")
    ] = None,
    json: o.Json = False,
) -> None:
    """List the subjects of a gallery, or the samples of one of them.

    Example: arcset gallery list people.db
    """
    with Gallery.open(file, read_only=True) as opened:
        if name is not None:
            samples = opened.samples(name)
            lines = [
                [each.source or "–", str(each.id), f"{each.added.date()}", _STORED[each.has_image]]
                for each in samples
            ]
            table = columns(["source", "id", "added", "image"], lines, right=(1,))
            print_result(json, [each.json() for each in samples], table)
            return
        subjects = opened.subjects()
    rows = [[each.name, f"{each.samples:,}", f"{each.added.date()}"] for each in subjects]
    table = columns(["subject", "samples", "added"], rows, right=(1,))
    text = f"{table}\n\n{plural(len(subjects), 'subject')}"
    print_result(json, [each.json() for each in subjects], text)


@gallery.command("remove")
def remove(
    file: o.GalleryArgument,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Subjects to remove.")
    ] = None,
    sample: Annotated[
        list[int] | None,
        typer.Option(help="A single sample by its id, see `arcset gallery list`; may be repeated."),
    ] = None,
    json: o.Json = False,
) -> None:
    """Remove subjects, or single samples: names, embeddings and images are erased.

    Copies, exports and backups of the file are yours to delete. A gallery above 100 MB
    has to be compacted afterwards. Milvus finds them no more, but keeps the bytes on its
    disks until it compacts them.

    Example: arcset gallery remove people.db anna
    """
    if bool(names) == bool(sample):
        raise OptionError("name either subjects to remove, or samples with --sample")
    with Gallery.open(file, create=False) as opened:
        for name in names or []:
            if name not in opened:
                raise OptionError(f"{file} has no subject {name!r}")
        for number in sample or []:
            opened.image(number)  # raises before anything is removed, should one be missing
        removed = {name: opened.remove(name) for name in dict.fromkeys(names or [])}
        for number in dict.fromkeys(sample or []):
            opened.remove_sample(number)
        left = len(opened)
    lines = [f"removed {name} with {plural(count, 'sample')}" for name, count in removed.items()]
    lines += [f"removed sample {number}" for number in sample or []]
    lines.append(f"{file}: {plural(left, 'subject')}")
    content = {"removed": removed, "samples": sample or [], "subjects": left}
    print_result(json, content, "\n".join(lines))


@gallery.command("rename")
def rename(
    file: o.GalleryArgument,
    old: Annotated[str, typer.Argument(help="The present name.")],
    new: Annotated[str, typer.Argument(help="The new name, which must not be taken.")],
) -> None:
    """Give a subject another name.

    Example: arcset gallery rename people.db anna "Anna Karenina"
    """
    with Gallery.open(file, create=False) as opened:
        opened.rename(old, new)
    print_text(f"{old} is now called {new}")


@gallery.command("merge")
def merge(
    file: o.GalleryArgument,
    source: Annotated[str, typer.Argument(help="The subject that disappears.")],
    into: Annotated[str, typer.Argument(help="The subject that gets its samples.")],
) -> None:
    """Merge two subjects: all samples of the first go to the second.

    Example: arcset gallery merge people.db ann anna
    """
    with Gallery.open(file, create=False) as opened:
        opened.merge(source, into)
        count = len(opened.samples(into))
    print_text(f"{source} is now part of {into}, who has {plural(count, 'sample')}")


@gallery.command("compact")
def compact(file: o.GalleryArgument) -> None:
    """Write a gallery anew, so that nothing is left in it of what was removed.

    Below 100 MB `remove` does so by itself. Run it for larger galleries, and where a
    full disk or another process was in the way. Meanwhile it needs room for a second
    copy of the file.

    Example: arcset gallery compact people.db
    """
    with Gallery.open(file, create=False) as opened:
        before = opened.byte_count
        opened.compact()
        after = opened.byte_count
    size = "" if before is None or after is None else f": {before:,} bytes before, {after:,} now"
    print_text(f"compacted {file}{size}")


@gallery.command("info")
def info(file: o.GalleryArgument, json: o.Json = False) -> None:
    """Show what a gallery holds, its model, its calibration and its threshold.

    Example: arcset gallery info people.db
    """
    with Gallery.open(file, device="cpu", read_only=True) as opened:
        content = opened.describe()
    print_result(json, content, _info_text(content))


def _info_text(content: dict[str, Any]) -> str:
    origin = content["calibration"]
    calibration = "none"
    if origin is not None:
        whose = "the gallery's own" if origin["own"] else "the model's"
        calibration = (
            f"{whose}, from {plural(origin['identities'], 'identity', 'identities')}, "
            f"{plural(origin['samples'], 'sample')}"
        )
    size = content["bytes"]
    faces = ", of the faces in photos" if content["faces"] not in (None, "none") else ""
    model = content["model"] or "none: it takes embeddings"
    rows = {
        "subjects": f"{content['subjects']:,}",
        "samples": f"{content['samples']:,}, scored by {content['scoring']}",
        "images": _STORED[content["keeps_images"]],
        "size": f"{size / 2**20:,.1f} MB" if size is not None else "unknown: Milvus does not say",
        "model": f"{model}, {content['dim']}-D{faces}",
        "at": content["model_path"] or "not remembered: name it with --model",
        "calibration": calibration,
        "threshold": str(WorkingPoint.from_json(content["point"])) if content["point"] else "none",
    }
    lines = [f"{name:<12} {text}" for name, text in rows.items()]
    if content["note"]:
        lines.append(f"note: {content['note']}")
    return "\n".join(map(one_line, lines))


@gallery.command("export")
def export(
    file: o.GalleryArgument,
    out: Annotated[Path, typer.Option(metavar="FILE.parquet", help="The file to write.")],
    images: Annotated[
        bool, typer.Option("--images/--no-images", help="Whether to include stored images.")
    ] = True,
    json: o.Json = False,
) -> None:
    """Write all names and embeddings into a Parquet file that other tools can read.

    Stored images are included unless you say --no-images; a gallery in Milvus
    stores none. Subjects that are removed from the gallery later stay in the
    file.

    Example: arcset gallery export people.db --out people.parquet
    """
    with Gallery.open(file, read_only=True) as opened:
        samples, subjects = opened.export(out, images=images), len(opened)
    content = {"file": str(out), "subjects": subjects, "samples": samples}
    text = f"{plural(samples, 'embedding')} of {plural(subjects, 'subject')} are in {out}"
    print_result(json, content, text)


@gallery.command("import")
def import_(
    file: o.GalleryArgument,
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
    """Import names and embeddings from a file, all or none; a new gallery is created.

    Example: arcset gallery import copy.db people.parquet
    """
    count, subjects = import_embeddings(file, source)
    content = {"gallery": str(file), "samples": count, "subjects": subjects}
    text = f"imported {plural(count, 'embedding')}; {file} has {plural(subjects, 'subject')} now"
    print_result(json, content, text)


@gallery.command("migrate")
def migrate(
    file: o.GalleryArgument,
    model: Annotated[Path, typer.Option(metavar="RUN|FILE.onnx", help="The model to move to.")],
    faces: o.FacesOption = None,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Move a gallery to another model: embed all its images again.

    The gallery must have stored its images (`arcset enroll --keep-images`). All
    samples move, or none does. Afterwards it has the calibration of the new
    model.

    Example: arcset gallery migrate people.db --model runs/better
    """
    with Gallery.open(file, create=False) as opened:
        recognizer = load_model(model, faces or opened.faces, device=device)
        with progress_bar("embedding") as progress:
            opened.migrate(recognizer, progress)
        samples = opened.sample_count
    content = {"gallery": str(file), "model": recognizer.name, "samples": samples}
    text = f"{file} now belongs to {recognizer.name}: {plural(samples, 'sample')} embedded again"
    print_result(json, content, text)


@gallery.command("calibrate")
def calibrate(
    file: o.GalleryArgument,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="A folder with a sub-folder per identity, or their embeddings (.parquet, .npz); "
            "best of identities that are not enrolled. Default: the enrolled subjects."
        ),
    ] = None,
    model: o.ModelOption = None,
    faces: o.FacesOption = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the gallery's calibration and use the model's.")
    ] = False,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Calibrate a gallery: thresholds and probabilities of its own.

    For models without a calibration, and where people look different from those
    the model was calibrated on. Few identities give a rough threshold; low rates
    take some hundred with two images each.

    Example: arcset gallery calibrate people.db others/
    """
    if remove:
        if data is not None:
            raise OptionError(f"--remove takes no data to calibrate from: leave out {data}")
        with Gallery.open(file, create=False) as opened:
            opened.set_thresholds(None)
        print_text(f"{file} has no calibration of its own any more")
        return
    with progress_bar("embedding") as progress:
        calibrated = calibrate_gallery(
            file, data, model=model, faces=faces, device=device, progress=progress
        )
    tell_skipped(calibrated.identities.skipped)
    tell_notes(calibrated.identities.notes)
    for twins in calibrated.alike[:_NAMED_PAIRS]:
        say(f"note: are these one person? {twins}; if so, use `arcset gallery merge`")
    print_result(json, calibrated.json(), f"{_calibration_table(calibrated)}\n\n{calibrated.point}")
    if calibrated.point.note and not json:
        say(f"note: {calibrated.point.note}")


def _calibration_table(calibrated: CalibratedGallery) -> str:
    """What the calibration does for the gallery at its present size."""
    origin, rows = calibrated.thresholds.made_from, []
    for fpir in _RATES:
        point = calibrated.point_for(fpir)
        chosen = calibrated.thresholds.for_fpir(fpir, point.gallery or 1)
        rows.append([f"{fpir:g}", f"{point.threshold:.4f}", expected_words(chosen)])
    title = (
        f"from {plural(origin['identities'], 'identity', 'identities')}, "
        f"{plural(origin['samples'], 'sample')}; {calibrated.path} has "
        f"{plural(calibrated.size['subjects'], 'subject')}"
    )
    return f"{title}\n\n{columns(['FPIR', 'threshold', 'of 1,000 unknown (95 %)'], rows)}"
