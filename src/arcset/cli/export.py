"""`arcset export`: a trained run as one ONNX file."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from arcset.cli import options as o
from arcset.cli.output import print_result, working
from arcset.data.image import parse_size
from arcset.errors import OptionError
from arcset.recognition import preset_names

_foreign = partial(typer.Option, rich_help_panel="networks from elsewhere")


def export(
    model: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a trained run; or an .onnx file.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.onnx", help="The file to write.")],
    images: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Images to compare run and file on, if the run's data is gone.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        _foreign(help=f"How the network takes pixels: {', '.join(preset_names())}."),
    ] = None,
    mean: Annotated[
        str | None, _foreign(help="Mean of pixels of 0 to 255, one or three: 127.5")
    ] = None,
    std: Annotated[str | None, _foreign(help="Their standard deviation, one or three: 128")] = None,
    size: Annotated[
        str | None, _foreign(metavar="H,W", help="Size of images, if the file leaves it open.")
    ] = None,
    channels: Annotated[str | None, _foreign(help="RGB or BGR.")] = None,
    fit: Annotated[str | None, _foreign(help="pad, crop or stretch.")] = None,
    layout: Annotated[
        str | None, _foreign(help="NCHW or NHWC, if the file leaves it open.")
    ] = None,
    output: Annotated[
        str | None, _foreign(help="Which output to use, if there are several.")
    ] = None,
    thresholds: Annotated[
        Path | None,
        _foreign(
            metavar="threshold.json", help="Calibration of the network, from `arcset evaluate`."
        ),
    ] = None,
    json: o.Json = False,
) -> None:
    """Write a trained run as one ONNX file that gives the same answers.

    Run and file are compared on real images first: if the answers differ, no file is written. For
    a network from elsewhere (FILE.onnx), it adds how the network takes images, so that every verb
    with --model can use it.

    Example: arcset export runs/orl --out orl.onnx
    """
    options: dict[str, Any] = {
        "preset": preset,
        "mean": _numbers("mean", mean),
        "std": _numbers("std", std),
        "size": None if size is None else parse_size(size),
        "channels": channels,
        "fit": fit,
        "layout": layout,
        "output": output,
        "thresholds": thresholds,
    }
    given = {name: value for name, value in options.items() if value is not None}
    result: Any  # torch and ONNX take a second to import: not for --help
    if model.suffix.lower() == ".onnx" and not model.is_dir():
        if images is not None:
            raise OptionError(f"--images is for runs, and {model} is an ONNX file: leave it out")
        from arcset.recognition.onnx_model import adopt

        result = adopt(model, out, **given)
    else:
        if given:
            raise OptionError(
                f"--{next(iter(given))} is for networks from elsewhere, and {model} says itself "
                "how it takes images: leave it out"
            )
        from arcset.recognition.export import export as export_run

        with working("exporting"):
            result = export_run(model, out, images=images)
    print_result(json, result.json(), str(result))


def _numbers(name: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"--{name} {text!r}: write one number or three, as 127.5") from None
