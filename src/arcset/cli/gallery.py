"""`arcset gallery`: what is in a gallery, and changing it."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arcset.cli import options as o
from arcset.cli.output import (
    columns,
    one_line,
    print_result,
    print_text,
    progress_bar,
    say,
    tell_skipped,
    working,
)
from arcset.data.embeddings import holds_embeddings, holds_shards, read_embeddings, read_manifest
from arcset.errors import ArcsetError, DataError, InputError, OptionError
from arcset.evaluation.calibration import Thresholds, pair_cosines
from arcset.recognition.calibrating import Alike, most_alike
from arcset.recognition.calibrating import calibrate as calibrate_embeddings
from arcset.recognition.gallery import Gallery, Sample
from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.open import (
    GalleryPath,
    RememberedModel,
    find_settings,
    load_model,
    open_existing,
    open_gallery,
    read_settings,
    remember_model,
)
from arcset.recognition.gallery.parquet_files import GalleryFile
from arcset.recognition.inputs import list_images
from arcset.recognition.working_point import WorkingPoint, working_point
from arcset.text import plural

__all__ = ["gallery"]

_NAMED_PAIRS = 5  # of subjects that may be one person
_USELESS = 0.5  # of the unknown: a calibration that supports no lower rate is not kept
_RATES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
_COMPARED = 10_000  # samples of which all pairs are looked at

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
    with open_existing(file, read_only=True) as opened:
        if name is not None:
            samples = opened.samples(name)
            print_result(json, [sample.json() for sample in samples], _sample_table(samples))
            return
        subjects = opened.subjects()
    rows = [[one.name, f"{one.samples:,}", f"{one.added:%Y-%m-%d}"] for one in subjects]
    table = columns(["subject", "samples", "added"], rows, right=(1,))
    text = f"{table}\n\n{plural(len(subjects), 'subject')}"
    print_result(json, [subject.json() for subject in subjects], text)


def _sample_table(samples: Sequence[Sample]) -> str:
    rows = [
        [
            sample.source or "–",
            str(sample.id),
            f"{sample.added:%Y-%m-%d}",
            "kept" if sample.has_image else "not kept",
        ]
        for sample in samples
    ]
    return columns(["source", "id", "added", "image"], rows, right=(1,))


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
    """Remove subjects, or single samples: names, embeddings and images are overwritten.

    Copies, exports and backups of the file are yours to delete. In Milvus nobody
    is found any more, but bytes stay on its disks until it has compacted them.

    Example: arcset gallery remove people.db anna
    """
    if bool(names) == bool(sample):
        raise OptionError("name either subjects to remove, or samples with --sample")
    with open_existing(file) as opened:
        for name in names or []:
            if name not in opened:
                raise OptionError(f"nobody called {name!r} is enrolled in {file}")
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
    old: Annotated[str, typer.Argument(help="What the subject is called.")],
    new: Annotated[str, typer.Argument(help="What it is to be called; a name that nobody has.")],
) -> None:
    """Give a subject another name.

    Example: arcset gallery rename people.db anna "Anna Karenina"
    """
    with open_existing(file) as opened:
        opened.rename(old, new)
    print_text(f"{old} is now called {new}")


@gallery.command("merge")
def merge(
    file: o.GalleryArgument,
    source: Annotated[str, typer.Argument(help="The subject that goes.")],
    into: Annotated[str, typer.Argument(help="The subject that its samples go to.")],
) -> None:
    """Make one subject of two: all samples of the first go to the second.

    Example: arcset gallery merge people.db ann anna
    """
    with open_existing(file) as opened:
        opened.merge(source, into)
        count = len(opened.samples(into))
    print_text(f"{source} is now part of {into}, who has {plural(count, 'sample')}")


@gallery.command("compact")
def compact(file: o.GalleryArgument) -> None:
    """Give back the room of removed samples, and overwrite what is left of their bytes.

    A gallery does so by itself when it needs to. Run it after a full disk or
    another process kept `remove` from overwriting bytes. For so long, it needs
    room for a second copy of the file.

    Example: arcset gallery compact people.db
    """
    with open_existing(file) as opened:
        before = opened.byte_count
        opened.compact()
        after = opened.byte_count
    size = "" if before is None or after is None else f": {before:,} bytes before, {after:,} now"
    print_text(f"compacted {file}{size}")


@gallery.command("info")
def info(file: o.GalleryArgument, json: o.Json = False) -> None:
    """Show what a gallery holds, its model, and the threshold from which someone is known.

    Example: arcset gallery info people.db
    """
    settings = read_settings(file)
    remembered, is_own = RememberedModel.read(settings.model_path), bool(settings.calibrated)
    note = ""
    try:
        opened_gallery = open_gallery(file, device="cpu", read_only=True)
    except ArcsetError as error:  # its model is elsewhere: most is known without it
        opened_gallery, note = open_existing(file, read_only=True), str(error)
    with opened_gallery as opened:
        thresholds = opened.thresholds
        content: dict[str, Any] = {
            "file": str(file),
            "bytes": opened.byte_count,
            "subjects": len(opened),
            "samples": opened.sample_count,
            "scoring": opened.scoring,
            "keeps_images": opened.keep_images,
            "model": opened.model_name,
            "model_digest": opened.model_digest,
            "dim": opened.dim,
            "model_path": None if remembered is None else remembered.model,
            "faces": None if remembered is None else remembered.faces,
            "calibration": None if thresholds is None else {**thresholds.made_from, "own": is_own},
            "point": None,
            "note": note,
        }
        try:
            point = opened.working_point()
            content |= {"point": point.json(), "note": point.note}
            threshold = str(point)
        except ArcsetError as error:
            content["note"] = content["note"] or str(error)
            threshold = "none"
    print_result(json, content, _info_text(content, threshold))


def _info_text(content: dict[str, Any], threshold: str) -> str:
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
        "images": "kept" if content["keeps_images"] else "not kept",
        "size": f"{size / 2**20:,.1f} MB" if size is not None else "unknown: Milvus does not say",
        "model": f"{model}, {content['dim']}-D{faces}",
        "at": content["model_path"] or "not remembered: name it with --model",
        "calibration": calibration,
        "threshold": threshold,
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
        bool, typer.Option("--images/--no-images", help="Whether kept images are in it.")
    ] = True,
    json: o.Json = False,
) -> None:
    """Write all names and embeddings into a Parquet file that other tools can read.

    Kept images are in it too, unless you say --no-images: a gallery in Milvus
    takes none. Subjects that are removed from the gallery later stay in the
    file.

    Example: arcset gallery export people.db --out people.parquet
    """
    with open_existing(file, read_only=True) as opened:
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
    new = find_settings(file) is None
    try:
        count, subjects = _import(file, source, new)
    except BaseException:
        if new:
            _discard(file)
        raise
    content = {"gallery": str(file), "samples": count, "subjects": subjects}
    text = f"imported {plural(count, 'embedding')}; {file} has {plural(subjects, 'subject')} now"
    print_result(json, content, text)


def _discard(file: GalleryPath) -> None:
    """Leave nothing of a gallery that was created for a file which cannot be imported."""
    if isinstance(file, Address):
        from arcset.recognition.gallery.milvus.beginning import discard_empty

        with suppress(ArcsetError):
            discard_empty(file)
        return
    for end in ("", "-wal", "-shm"):
        file.with_name(file.name + end).unlink(missing_ok=True)


def _import(file: GalleryPath, source: Path, new: bool) -> tuple[int, int]:
    """How many embeddings were imported, and how many subjects there are then."""
    exported = _exported_gallery(source)
    if exported is not None:
        dim, scoring = (exported.dim, exported.scoring) if new else (None, None)
        with Gallery.open(file, dim=dim, scoring=scoring) as opened:
            return len(opened.import_file(source)), len(opened)
    embedded = read_embeddings(source)
    with Gallery.open(file, dim=embedded.embeddings.shape[1] if new else None) as opened:
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
        names, rows = embedded.names.tolist(), embedded.embeddings
        ids = opened.enroll_many(names, embeddings=rows, sources=embedded.paths)
        return len(ids), len(opened)


def _exported_gallery(source: Path) -> GalleryFile | None:
    """The export of a gallery; None for embeddings of other tools."""
    if source.suffix == ".parquet" and not source.is_dir():
        try:
            return GalleryFile(source)
        except DataError as error:
            if "was not written by" not in str(error):
                raise
    return None


@gallery.command("migrate")
def migrate(
    file: o.GalleryArgument,
    model: Annotated[Path, typer.Option(metavar="RUN|FILE.onnx", help="The model to move to.")],
    faces: o.FacesOption = None,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Move a gallery to another model: embed all its images again.

    The gallery must have kept its images (`arcset enroll --keep-images`). All
    samples move, or none does. Afterwards it has the calibration of the new
    model.

    Example: arcset gallery migrate people.db --model runs/better
    """
    with open_existing(file) as opened:
        remembered = RememberedModel.read(opened.model_path)
        if faces is None and remembered is not None:
            faces = remembered.faces
        recognizer = load_model(model, faces, device=device)
        with progress_bar("embedding") as progress:
            opened.migrate(recognizer, progress)
        remember_model(opened, model, faces)
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
    the model was calibrated on. It takes at least ten identities with two images
    each, and some hundred for low rates.

    Example: arcset gallery calibrate people.db others/
    """
    if remove:
        if data is not None:
            raise OptionError(f"--remove takes no data to calibrate from: leave out {data}")
        with open_existing(file) as opened:
            opened.set_thresholds(None)
        print_text(f"{file} has no calibration of its own any more")
        return
    needs_model = data is not None and not holds_embeddings(data)
    with (
        open_gallery(file, model, faces, device=device) if needs_model else open_existing(file)
    ) as opened:
        embeddings, names = _labelled_embeddings(opened, data)
        thresholds = _calibrate(opened, embeddings, names, data)
        size: dict[str, Any] = {
            "subjects": len(opened),
            "samples": opened.sample_count,
            "scoring": opened.scoring,
        }
        twins = _find_twins(embeddings, names) if data is None else ()
        for twin in twins[:_NAMED_PAIRS]:
            say(f"note: are these one person? {twin}; if so, use `arcset gallery merge`")
        point = _default_point(thresholds, size)
        opened.set_thresholds(thresholds)
    content: dict[str, Any] = {"gallery": str(file), "point": point.json(), "note": point.note}
    content |= {"alike": [twin.json() for twin in twins], **thresholds.summary()}
    print_result(json, content, f"{_calibration_table(file, thresholds, size)}\n\n{point}")
    if point.note and not json:
        say(f"note: {point.note}")


def _default_point(thresholds: Thresholds, size: dict[str, Any]) -> WorkingPoint:
    """The default threshold; raises `InputError` where that accepts nearly everybody."""
    point = working_point(thresholds, **size)
    if point.fpir is not None and point.fpir > _USELESS:
        raise InputError(f"{point.note.partition(':')[0]}; nothing was changed")
    return point


def _calibration_table(file: GalleryPath, thresholds: Thresholds, size: dict[str, Any]) -> str:
    """What the calibration does for the gallery at its present size."""
    origin = thresholds.made_from
    identities = plural(origin["identities"], "identity", "identities")
    title = f"from {identities}, {plural(origin['samples'], 'sample')}; {file} has "
    title += plural(size["subjects"], "subject")
    rows = []
    for fpir in _RATES:
        try:
            point = working_point(thresholds, fpir=fpir, **size)
            low, high = thresholds.for_fpir(fpir, point.gallery or 1).expect(1000)
            rows.append([f"{fpir:g}", f"{point.threshold:.4f}", f"{low:.2g} to {high:.2g}"])
        except InputError:
            rows.append([f"{fpir:g}", "–", "needs more identities"])
    heading = ["FPIR", "threshold", "of 1,000 unknown (95 %)"]
    return "\n".join([title, "", columns(heading, rows)])


def _labelled_embeddings(opened: Gallery, data: Path | None) -> tuple[Any, tuple[str, ...]]:
    """Embeddings and names: of the gallery itself, of a file, or of the images of some source."""
    if data is None:
        return opened.labelled()
    if holds_embeddings(data):
        stored = read_embeddings(data)
        return stored.embeddings, tuple(stored.names.tolist())
    images = list_images(data)
    recognizer: Any = opened.recognizer
    with progress_bar("embedding") as progress:
        embedded = recognizer.embed_files(images.images, progress=progress)
    tell_skipped({**images.skipped, **embedded.skipped})
    names = dict(zip(images.images, images.names, strict=True))
    return embedded.embeddings, tuple(names[path] for path in embedded.paths)


def _calibrate(
    opened: Gallery, embeddings: Any, names: tuple[str, ...], data: Path | None
) -> Thresholds:
    """For galleries with as many samples per subject as this one has, if the data have so many."""
    if embeddings.shape[1] != opened.dim:
        raise OptionError(
            f"{data} holds embeddings of {embeddings.shape[1]} dimensions, and {opened.path} of "
            f"{opened.dim}"
        )
    per_subject = 1 if opened.scoring == "mean" else -(-opened.sample_count // max(1, len(opened)))
    available = int(np.median(list(Counter(names).values()))) if names else 1
    origin = {"gallery": opened.path.name} if data is None else {"data": data.name}
    with working("calibrating"):
        samples = max(1, min(per_subject, available))
        return calibrate_embeddings(embeddings, names, samples=samples, made_from=origin)


def _find_twins(embeddings: Any, names: tuple[str, ...]) -> tuple[Alike, ...]:
    """Subjects that look like one as much as one subject's samples do, the likest first.

    Not looked for among very many samples, of which all pairs would have to be compared.
    """
    if len(names) > _COMPARED:
        return ()
    cosines, same, _ = pair_cosines(embeddings, np.unique(names, return_inverse=True)[1])
    return most_alike(embeddings, names, least=float(np.median(cosines[same])))
