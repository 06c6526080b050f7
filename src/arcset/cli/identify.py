"""`arcset identify`: who is it, or nobody known?"""

import csv
import io
import json as jsons
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arcset.cli import options as o
from arcset.cli.gallery_show import columns, plain, progress_bar
from arcset.cli.model_option import (
    FacesOption,
    GalleryFile,
    ModelOption,
    Place,
    existing,
    open_gallery,
    settings_of,
)
from arcset.cli.show import print_json, print_text, say, tell_skipped
from arcset.data.embedding_files import holds_embeddings, read_embeddings
from arcset.errors import DataError, OptionError
from arcset.numerics import finite
from arcset.recognition.answers import Match
from arcset.recognition.embedder import Embedded
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.vectors import unit_rows
from arcset.recognition.working_point import WorkingPoint

__all__ = ["identify"]

FORMATS = ("table", "jsonl", "csv")


def identify(
    gallery: GalleryFile,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="IMAGE|FOLDER…",
            help="Images, and folders of them; or embeddings: .parquet, .npz.",
        ),
    ],
    fpir: Annotated[
        float | None,
        typer.Option(
            help="How many of those whom the gallery does not know may be taken for somebody: 0.01 "
            "is one in a hundred, the default. It decides the threshold."
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="The cosine from which on somebody is known, instead.")
    ] = None,
    candidates: Annotated[
        int, typer.Option(help="How many of the nearest subjects are listed.")
    ] = 5,
    model: ModelOption = None,
    faces: FacesOption = None,
    form: Annotated[
        str, typer.Option("--format", help=f"{', '.join(FORMATS)}: a line for each image.")
    ] = "table",
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Say who is in an image, or that nobody known is.

    The threshold rises as the gallery grows, so that the share of unknowns who
    are taken for somebody stays as wanted. Exit code 1: unknown; of several
    images, if all of them are.

    Example: arcset identify people.db visitor.jpg --fpir 0.001
    """
    if form not in FORMATS:
        raise OptionError(f"--format {form!r} is unknown, expected {', '.join(FORMATS)}")
    if candidates < 1:
        raise OptionError(f"--candidates {candidates}: at least the nearest subject is listed")
    for source in sources:
        if not source.exists():
            raise DataError(f"{source} does not exist; name images, or a folder of them")
    with _opened(gallery, sources, model, faces, device) as opened:
        point = _point(opened, fpir, threshold)  # before anybody waits for embeddings
        found = _probes(opened, sources)
        matches = []
        if len(found):
            matches = opened.identify_many(
                embeddings=found.embeddings, fpir=fpir, threshold=threshold, candidates=candidates
            )
    tell_skipped([(plain(path), why) for path, why in found.skipped.items()])
    if not matches:
        raise DataError("there is nobody to look for: see which files were skipped, and why")
    if point.note:
        say(f"note: {point.note}")
    rows = _rows(found, matches)
    if json:
        skipped = {str(path): why for path, why in found.skipped.items()}
        print_json({"point": point.json(), "probes": rows, "skipped": skipped})
    elif form == "jsonl":
        for row in rows:
            print_text(jsons.dumps(finite(row), ensure_ascii=False))
    elif form == "csv":
        print_text(_csv(rows))
    else:
        print_text(_table(rows, matches, point))
    if not any(matches):
        raise typer.Exit(1)


def _opened(
    path: Place, sources: list[Path], model: Path | None, faces: str | None, device: str
) -> Gallery:
    """The gallery with its model; without, where there are embeddings and a calibration."""
    files = [source for source in sources if holds_embeddings(source)]
    if files and len(files) < len(sources):
        raise OptionError(f"{files[0]} holds embeddings: name these alone, or images alone")
    if files and model is None:
        settings = settings_of(path)
        if settings.calibrated or settings.model_path is None:
            return existing(path, read_only=True)
    return open_gallery(path, model, faces, device=device, read_only=True)


def _probes(gallery: Gallery, sources: list[Path]) -> Embedded:
    """The embeddings of all images, of all faces of photos, or from files."""
    if holds_embeddings(sources[0]):
        parts = [read_embeddings(source) for source in sources]
        paths = [
            Path(part.paths[row] if part.paths else f"{source}:{row}")
            for source, part in zip(sources, parts, strict=True)
            for row in range(len(part))
        ]
        rows = np.concatenate([unit_rows(part.embeddings, gallery.dim) for part in parts])
        return Embedded(tuple(paths), rows, {})
    recognizer: Any = gallery.recognizer
    embed = getattr(recognizer, "embed_all", recognizer.embed_files)  # the former of photos
    with progress_bar("embedding") as progress:
        found: Embedded = embed(sources, progress=progress)
    return found


def _point(gallery: Gallery, fpir: float | None, threshold: float | None) -> WorkingPoint:
    """Where "known" begins; raises `OptionError` where that is said twice, or nobody knows."""
    if threshold is not None:
        if fpir is not None:
            raise OptionError("--fpir and --threshold both say where 'known' begins: leave one out")
        return WorkingPoint.by_hand(threshold)
    if gallery.thresholds is None:
        what = f"the model {gallery.model_name!r}" if gallery.model_name else str(gallery.path)
        raise OptionError(
            f"{what} has no calibration, so that nobody knows which cosine is high enough: run "
            f"`arcset gallery calibrate {gallery.path} FOLDER` with images of others, or `arcset "
            "evaluate` on the run, or name a --threshold"
        )
    return gallery.working_point(fpir)


def _rows(found: Embedded, matches: list[Match]) -> list[dict[str, Any]]:
    """Plain values by image, or by face."""
    faces = getattr(found, "faces", None)
    rows = []
    for place, (path, match) in enumerate(zip(found.paths, matches, strict=True)):
        where = {} if faces is None else {"face": faces[place].json()}
        rows.append({"path": str(path), **where, **match.json()})
    return rows


def _csv(rows: list[dict[str, Any]]) -> str:
    """A line for each image; the subject is empty where it is unknown."""
    names = ("path", "subject", "cosine", "probability", "threshold", "fpir", "nearest", "box")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names if any("face" in row for row in rows) else names[:-1])
    for row in rows:
        nearest = row["candidates"][0]["subject"] if row["candidates"] else None
        box = [" ".join(f"{side:g}" for side in row["face"]["box"])] if "face" in row else []
        values = [row[name] for name in names[:-2]]
        rounded = [f"{one:.6g}" if isinstance(one, float) else one for one in values]
        writer.writerow([*rounded, nearest, *box])
    return out.getvalue().removesuffix("\n")


def _table(rows: list[dict[str, Any]], matches: list[Match], point: WorkingPoint) -> str:
    if len(rows) == 1:
        return f"{_single(rows[0], matches[0])}\n\n{point}"
    photos = "face" in rows[0]
    listed = [
        [
            row["path"],
            *([_place(row)] if photos else []),
            _who(match),
            f"{match.cosine:.4f}" if match.candidates else "–",
            _chance(match.probability),
        ]
        for row, match in zip(rows, matches, strict=True)
    ]
    heading = ["image", *(["face at"] if photos else []), "subject", "cosine", "probability"]
    known = sum(map(bool, matches))
    table = columns(heading, listed, right=(len(heading) - 2, len(heading) - 1))
    unknown = len(matches) - known
    hint = " (nearest subject in brackets)" if unknown and matches[0].candidates else ""
    return f"{table}\n\n{known:,} known, {unknown:,} unknown{hint}\n{point}"


def _single(row: dict[str, Any], match: Match) -> str:
    """One image in more words."""
    where = f", face at {_place(row)}" if "face" in row else ""
    title = f"{plain(row['path'])}{where}: {match.subject or 'unknown'}"
    if not match.candidates:
        return title
    listed = [
        [one.subject, f"{one.cosine:.4f}", _chance(one.probability)] for one in match.candidates
    ]
    return f"{title}\n\n{columns(['nearest', 'cosine', 'probability'], listed, right=(1, 2))}"


def _who(match: Match) -> str:
    if match.subject is not None:
        return match.subject
    return f"unknown ({match.candidates[0].subject})" if match.candidates else "unknown"


def _place(row: dict[str, Any]) -> str:
    left, top, *_ = (round(side) for side in row["face"]["box"])
    return f"{left},{top}"


def _chance(probability: float | None) -> str:
    return "–" if probability is None else f"{probability:.3f}"
