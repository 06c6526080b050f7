"""`arcset calibrate`: a threshold for a run, or for an ONNX file from anywhere."""

from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.output import print_result, progress_bar, say, tell_notes, tell_skipped
from arcset.recognition import preset_names


def calibrate(
    model: Annotated[
        Path,
        typer.Argument(metavar="RUN|FILE.onnx", help="Folder of a trained run, or an .onnx file."),
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder with a sub-folder per identity, a table, a named dataset or the like; "
            "or embeddings that the model made (.parquet, .npz). Best of those it will meet.",
        ),
    ],
    faces: o.PhotoFaces = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"How an ONNX file from elsewhere takes pixels: {', '.join(preset_names())}."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.onnx",
            help="For an ONNX file, which is never changed: the new one, with thresholds in it.",
        ),
    ] = None,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Find a model's thresholds on identities that it has never seen.

    A run gets a new threshold.json. An ONNX file is written anew, with the thresholds in it. Few
    identities give a rough threshold; low rates take some hundred with two images each. Identities
    that a run was trained on are left out.

    Example: arcset calibrate runs/faces others/

    Example: arcset calibrate net.onnx others/ --preset arcface --faces auto --out faces.onnx
    """
    from arcset.recognition.calibration import calibrate_model  # not for --help

    with progress_bar("embedding") as progress:
        made = calibrate_model(
            model, data, faces=faces, preset=preset, out=out, device=device, progress=progress
        )
    tell_skipped(made.identities.skipped)
    tell_notes(made.identities.notes)
    print_result(json, made.json(), str(made))
    if not json:
        if made.note:
            say(f"note: {made.note}; more identities pin down lower rates")
        more = "" if faces is None else f" --faces {faces}"
        say(f"wrote {made.file}")
        say(f"next: arcset verify {made.path} A B{more}")
        say(f"      arcset enroll people.db PHOTOS --model {made.path}{more}")
