"""`arcset identify`: who is in an image, or nobody known?"""

import csv
import io
import json as jsons
import math
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arcset.cli import options as o
from arcset.cli.output import (
    columns,
    one_line,
    print_json,
    print_text,
    progress_bar,
    say,
    tell_skipped,
)
from arcset.data.embeddings import holds_embeddings, read_embeddings
from arcset.errors import DataError, OptionError
from arcset.files import finite
from arcset.recognition.answers import Match
from arcset.recognition.embedder import Embedded
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.open import (
    GalleryPath,
    open_existing,
    open_gallery,
    read_settings,
)
from arcset.recognition.gallery.vectors import unit_rows
from arcset.recognition.verification import NO_FACE, uncalibrated_note
from arcset.recognition.working_point import WorkingPoint

__all__ = ["identify"]

FORMATS = ("table", "jsonl", "csv")
_STATES = ("known", "unknown", "undecided", "no face")


def identify(
    gallery: o.GalleryArgument,
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
            help="Accept this share of unknown people as an enrolled one; sets the threshold. "
            "Default: 0.01, or the lowest rate that the calibration supports."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Accept subjects with at least this cosine; replaces --fpir."),
    ] = None,
    candidates: Annotated[int, typer.Option(help="How many of the nearest subjects to list.")] = 5,
    model: o.ModelOption = None,
    faces: o.FacesOption = None,
    form: Annotated[
        str, typer.Option("--format", help=f"{', '.join(FORMATS)}: one line per image.")
    ] = "table",
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Say who is in an image, or that nobody known is.

    The threshold rises as the gallery grows, so that the share of unknown people
    who are accepted as an enrolled one stays the same.

    Exit code 0: recognized; of several images, at least one. 1: unknown, no face,
    or undecided because there is no calibrated threshold. 2: wrong use.

    Example: arcset identify people.db visitor.jpg --fpir 0.001
    """
    if form not in FORMATS:
        raise OptionError(f"--format {form!r} is unknown, expected {', '.join(FORMATS)}")
    if candidates < 1:
        raise OptionError(f"--candidates must be at least 1, not {candidates}")
    for source in sources:
        if not source.exists():
            raise DataError(f"{source} does not exist; name images, or a folder of them")
    with _open(gallery, sources, model, faces, device) as opened:
        point = _choose_point(opened, fpir, threshold)  # before the images are embedded
        probes = _embed_probes(opened, sources)
        matches = []
        if len(probes):
            matches = opened.identify_many(
                embeddings=probes.embeddings, fpir=fpir, threshold=threshold, candidates=candidates
            )
        note = uncalibrated_note(opened.model_name, gallery) if point is None else point.note
    tell_skipped(probes.skipped)
    faceless = dict(getattr(probes, "faceless", {}))
    if not matches and not faceless:
        raise DataError("no image could be read: see which files were skipped, and why")
    rows = _rows(probes, matches) + [_no_face(path, why, point) for path, why in faceless.items()]
    if note:
        say(f"note: {note}")
    if json:
        skipped = {str(path): why for path, why in probes.skipped.items()}
        threshold_used = None if point is None else point.json()
        print_json({"point": threshold_used, "probes": rows, "skipped": skipped})
    elif form == "jsonl":
        for row in rows:
            print_text(jsons.dumps(finite(row), ensure_ascii=False))
    elif form == "csv":
        print_text(_csv(rows))
    else:
        print_text(_table(rows, point))
    if not any(matches):
        raise typer.Exit(1)


def _open(
    path: GalleryPath, sources: list[Path], model: Path | None, faces: str | None, device: str
) -> Gallery:
    """The gallery with its model; without, where there are embeddings and a calibration."""
    files = [source for source in sources if holds_embeddings(source)]
    if files and len(files) < len(sources):
        raise OptionError(f"{files[0]} holds embeddings: name embeddings or images, not both")
    if files and model is None:
        settings = read_settings(path)
        if settings.calibrated or settings.model_path is None:
            return open_existing(path, read_only=True)
    return open_gallery(path, model, faces, device=device, read_only=True)


def _embed_probes(gallery: Gallery, sources: list[Path]) -> Embedded:
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
        embedded: Embedded = embed(sources, progress=progress)
    return embedded


def _choose_point(
    gallery: Gallery, fpir: float | None, threshold: float | None
) -> WorkingPoint | None:
    """The threshold to use; None without a calibration."""
    if threshold is not None:
        if fpir is not None:
            raise OptionError("--fpir and --threshold both set the threshold: leave one out")
        return WorkingPoint.by_hand(threshold)
    if gallery.thresholds is None:
        if fpir is not None:
            raise OptionError(
                f"--fpir {fpir:g}: {uncalibrated_note(gallery.model_name, gallery.path)}"
            )
        return None
    return gallery.working_point(fpir)


def _rows(probes: Embedded, matches: list[Match]) -> list[dict[str, Any]]:
    """Plain values by image, or by face."""
    faces = getattr(probes, "faces", None)
    rows = []
    for number, (path, match) in enumerate(zip(probes.paths, matches, strict=True)):
        where = {} if faces is None else {"face": faces[number].json()}
        rows.append({"path": str(path), **where, **match.json()})
    return rows


def _no_face(path: Path, why: str, point: WorkingPoint | None) -> dict[str, Any]:
    """The answer for a photo in which no face was found."""
    match = Match(
        subject=None,
        cosine=math.nan,
        probability=None,
        threshold=None if point is None else point.threshold,
        candidates=(),
        fpir=None if point is None else point.fpir,
        reason=NO_FACE,
        rough=point is not None and point.rough,
    )
    return {"path": str(path), "face": None, **match.json(), "note": why}


def _csv(rows: list[dict[str, Any]]) -> str:
    """A line for each image or face; the subject is empty where it is unknown or undecided."""
    names = ["path", "subject", "cosine", "probability", "threshold", "fpir", "reason"]
    photos = any("face" in row for row in rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, "nearest", *(["box"] if photos else [])])
    for row in rows:
        nearest = row["candidates"][0]["subject"] if row["candidates"] else None
        box = " ".join(f"{side:g}" for side in row["face"]["box"]) if row.get("face") else ""
        values = [row[name] for name in names]
        rounded = [f"{one:.6g}" if isinstance(one, float) else one for one in values]
        writer.writerow([*rounded, nearest, *([box] if photos else [])])
    return out.getvalue().removesuffix("\n")


def _table(rows: list[dict[str, Any]], point: WorkingPoint | None) -> str:
    threshold = "" if point is None else f"\n{point}"
    if len(rows) == 1:
        return f"{_single(rows[0])}\n{threshold}".rstrip()
    photos = any("face" in row for row in rows)
    cells = [
        [
            row["path"],
            *([_position(row)] if photos else []),
            _who(row),
            "–" if row["cosine"] is None else f"{row['cosine']:.4f}",
            _probability(row["probability"]),
        ]
        for row in rows
    ]
    heading = ["image", *(["face at"] if photos else []), "subject", "cosine", "probability"]
    table = columns(heading, cells, right=(len(heading) - 2, len(heading) - 1))
    states = Counter(_state(row) for row in rows)
    named = [state for state in _STATES if states[state] or state in ("known", "unknown")]
    counts = ", ".join(f"{states[state]:,} {state}" for state in named)
    nearest = any(row["subject"] is None and row["candidates"] for row in rows)
    hint = " (nearest subject in brackets)" if nearest else ""
    return f"{table}\n\n{counts}{hint}{threshold}"


def _single(row: dict[str, Any]) -> str:
    """One image in more words."""
    where = f", face at {_position(row)}" if row.get("face") else ""
    title = f"{one_line(row['path'])}{where}: {one_line(row['subject'] or _state(row))}"
    if not row["candidates"]:
        return f"{title} ({row['note']})" if row.get("note") else title
    cells = [
        [one["subject"], f"{one['cosine']:.4f}", _probability(one["probability"])]
        for one in row["candidates"]
    ]
    return f"{title}\n\n{columns(['nearest', 'cosine', 'probability'], cells, right=(1, 2))}"


def _state(row: dict[str, Any]) -> str:
    """One of `_STATES`."""
    if row["subject"] is not None:
        return "known"
    if row["reason"] == NO_FACE:
        return "no face"
    return "unknown" if row["decided"] else "undecided"


def _who(row: dict[str, Any]) -> str:
    if row["subject"] is not None:
        return str(row["subject"])
    nearest = f" ({row['candidates'][0]['subject']})" if row["candidates"] else ""
    return f"{_state(row)}{nearest}"


def _position(row: dict[str, Any]) -> str:
    if not row.get("face"):
        return "–"
    left, top, *_ = (round(side) for side in row["face"]["box"])
    return f"{left},{top}"


def _probability(probability: float | None) -> str:
    return "–" if probability is None else f"{probability:.3f}"
