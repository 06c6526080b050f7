"""`arcset identify`: who is it, or nobody known?"""

import csv
import io
import json as jsons
from pathlib import Path
from typing import Annotated, Any

import typer

from arcset.cli import options as o
from arcset.cli.gallery_show import columns, plain, progress_bar
from arcset.cli.model_option import FacesOption, ModelOption, open_gallery
from arcset.cli.show import print_json, print_text, say, tell_skipped
from arcset.errors import DataError, OptionError
from arcset.numerics import finite
from arcset.recognition.answers import Match
from arcset.recognition.embedder import Embedded
from arcset.recognition.working_point import WorkingPoint

__all__ = ["identify"]

FORMATS = ("table", "jsonl", "csv")


def identify(
    gallery: Annotated[Path, typer.Argument(help="The gallery's file.")],
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE|FOLDER…", help="Images, and folders with images below."),
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
    for source in sources:
        if not source.exists():
            raise DataError(f"{source} does not exist; name images, or a folder of them")
    with open_gallery(gallery, model, faces, device=device, read_only=True) as opened:
        # The threshold first: without a calibration nobody needs to wait for embeddings.
        point = opened.working_point(fpir) if threshold is None else WorkingPoint.by_hand(threshold)
        recognizer: Any = opened.recognizer
        embed = getattr(recognizer, "embed_all", recognizer.embed_files)  # all faces of a photo
        with progress_bar("embedding") as progress:
            found: Embedded = embed(sources, progress=progress)
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
        writer.writerow([*(row[name] for name in names[:-2]), nearest, *box])
    return out.getvalue().removesuffix("\n")


def _table(rows: list[dict[str, Any]], matches: list[Match], point: WorkingPoint) -> str:
    if len(rows) == 1:
        row, match = rows[0], matches[0]
        lines = [f"{_image(row)}: {plain(match.subject or 'unknown')}"]
        if match.candidates:
            listed = [
                [one.subject, f"{one.cosine:.4f}", _chance(one.probability)]
                for one in match.candidates
            ]
            lines += ["", columns(["nearest", "cosine", "probability"], listed, right=(1, 2))]
    else:
        listed = [
            [
                _image(row),
                match.subject or "unknown",
                f"{match.cosine:.4f}" if match.candidates else "–",
                _chance(match.probability),
                "" if match or not match.candidates else match.candidates[0].subject,
            ]
            for row, match in zip(rows, matches, strict=True)
        ]
        heading = ["image", "subject", "cosine", "probability", "nearest"]
        lines = [columns(heading, listed, right=(2, 3))]
        known = sum(map(bool, matches))
        lines += ["", f"{known:,} known, {len(matches) - known:,} unknown"]
    return "\n".join([*lines, *([""] if len(rows) == 1 else []), str(point)])


def _image(row: dict[str, Any]) -> str:
    if "face" not in row:
        return plain(row["path"])
    left, top, width, height = (round(side) for side in row["face"]["box"])
    return plain(f"{row['path']} {width}×{height} at {left},{top}")


def _chance(probability: float | None) -> str:
    return "–" if probability is None else f"{probability:.3f}"
