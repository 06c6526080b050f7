"""`arcset verify`: do two images show the same identity?"""

from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.output import print_result, say
from arcset.recognition import Recognizer, preset_names
from arcset.recognition.recognizer import with_faces


def verify(
    model: Annotated[Path, typer.Argument(help="Folder of a trained run, or an .onnx file.")],
    first: Annotated[Path, typer.Argument(metavar="A", help="An image.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another image.")],
    far: Annotated[
        float | None,
        typer.Option(
            help="Accept this share of pairs of different identities. Default: 0.001, or the "
            "lowest rate that the model's calibration supports."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Accept pairs with at least this cosine; replaces --far."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"How an ONNX file from elsewhere takes pixels: {', '.join(preset_names())}."
        ),
    ] = None,
    faces: o.PhotoFaces = None,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Tell whether two images show the same identity.

    With --faces, it compares the largest face near the middle of each photo.

    Exit code 0: the same. 1: different, no face, or undecided because the model has no
    calibrated threshold. 2: wrong use.

    Example: arcset verify runs/orl a.png b.png --far 0.001
    """
    if preset is None:
        recognizer = Recognizer.load(model, device=device)
    else:
        recognizer = Recognizer.from_onnx(model, preset=preset, device=device)
    answer = with_faces(recognizer, faces).verify(first, second, far=far, threshold=threshold)
    content = {"first": str(first), "second": str(second), **answer.json()}
    print_result(json, content, str(answer))
    if answer.note:
        say(f"note: {answer.note}")
    if not answer:
        raise typer.Exit(1)
