"""`arcset identify`: who is in an image, or unknown?"""

import json as jsons
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from arcset.checks import check_choice, check_count
from arcset.cli import options as o
from arcset.cli.output import (
    print_json,
    print_text,
    progress_bar,
    say,
    tell_notes,
    tell_skipped,
)
from arcset.files import finite
from arcset.recognition.gallery.identify import Identified, Probe, identify_files
from arcset.text import columns, one_line, plural

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
    """Say who is in an image, or that it is unknown.

    The threshold rises as the gallery grows, so that the share of unknown people
    who are accepted as an enrolled one stays the same.

    Exit code 0: recognized; of several images, at least one. 1: unknown, no face,
    or undecided because there is no calibrated threshold. 2: wrong use.

    Example: arcset identify people.db visitor.jpg --fpir 0.001
    """
    check_choice("--format", form, FORMATS)
    check_count("--candidates", candidates)
    with progress_bar("embedding") as progress:
        result = identify_files(
            gallery,
            sources,
            model=model,
            faces=faces,
            fpir=fpir,
            threshold=threshold,
            candidates=candidates,
            device=device,
            progress=progress,
        )
    tell_skipped(result.skipped)
    if result.note:
        say(f"note: {result.note}")
    tell_notes([f"{each.path}: {each.match.note}" for each in result.probes if each.match.note])
    if json:
        print_json(result.json())
    elif form == "jsonl":
        for probe in result.probes:
            print_text(jsons.dumps(finite(probe.json()), ensure_ascii=False))
    else:
        print_text(result.csv() if form == "csv" else _table(result))
    if not result:
        raise typer.Exit(1)


def _table(result: Identified) -> str:
    threshold = "" if result.point is None else f"\n{result.point}"
    sure = next((one.match for one in result.probes if one.match.probability is not None), None)
    if sure is not None:
        among = plural(sure.subjects, "subject")
        threshold = f"\nprobabilities among {among}, at prior {sure.prior:g}{threshold}"
    if len(result.probes) == 1:
        return f"{_single(result.probes[0])}\n{threshold}".rstrip()
    heading = ["image", *(["face at"] if result.has_faces else []), "subject"]
    rows = []
    for probe in result.probes:
        match = probe.match
        nearest = f" ({match.candidates[0].subject})" if match.candidates else ""
        row = [probe.path, _position(probe), match.subject or f"{match.state}{nearest}"]
        cosine = f"{match.cosine:.4f}" if match.candidates else "–"
        rows.append([*(row if result.has_faces else row[::2]), cosine, _share(match.probability)])
    right = (len(heading), len(heading) + 1)
    table = columns([*heading, "cosine", "probability"], rows, right=right)
    states = Counter(probe.match.state for probe in result.probes)
    counts = [
        f"{states[state]:,} {state}"
        for state in _STATES
        if states[state] or state in ("known", "unknown")
    ]
    is_near = any(not probe.match and probe.match.candidates for probe in result.probes)
    hint = " (nearest subject in brackets)" if is_near else ""
    return f"{table}\n\n{', '.join(counts)}{hint}{threshold}"


def _single(probe: Probe) -> str:
    """One image in more words."""
    match = probe.match
    where = f", face at {_position(probe)}" if probe.box else ""
    title = f"{one_line(probe.path)}{where}: {one_line(match.subject or match.state)}"
    if not match.candidates:
        return f"{title} ({probe.note})" if probe.note else title
    rows = [
        [each.subject, f"{each.cosine:.4f}", _share(each.probability)] for each in match.candidates
    ]
    return f"{title}\n\n{columns(['nearest', 'cosine', 'probability'], rows, right=(1, 2))}"


def _position(probe: Probe) -> str:
    return "–" if probe.box is None else "{:.0f},{:.0f}".format(*probe.box[:2])


def _share(probability: float | None) -> str:
    return "–" if probability is None else f"{probability:.3f}"
