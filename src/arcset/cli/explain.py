"""`arcset explain`: one image walked through a trained run."""

from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.output import print_result, say
from arcset.errors import OptionError
from arcset.reports.explain import (
    PARTS,
    ExplainedImage,
    Explanation,
    conclusion,
    explanation_picture,
    format_probability,
    image_of_file,
    image_of_sample,
    introduction,
)
from arcset.reports.explain import explain as explain_image
from arcset.reports.style import save
from arcset.reports.view import RunView
from arcset.text import columns

MOST_ROWS = 12


def explain(
    run: Annotated[Path, typer.Argument(help="Folder of a trained run.")],
    image: Annotated[
        str,
        typer.Argument(
            metavar="IMAGE|INDEX",
            help="An image file, or the number of a sample (./7 for a file that is called 7).",
        ),
    ],
    part: Annotated[
        str | None, typer.Option(help=f"Where INDEX counts: {', '.join(PARTS)}; test if left out.")
    ] = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="The same as --part unseen: classes not trained on.")
    ] = False,
    target: Annotated[
        str | None, typer.Option(metavar="CLASS", help="The class that an image file shows.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Also draw it, into this file.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Walk one image through a run, from its embedding to the probabilities.

    Example: arcset explain runs/arcface 17 --picture seventeen.png
    """
    if unseen and part not in (None, "unseen"):
        raise OptionError(f"--unseen and --part {part} contradict each other; leave one out")
    if picture is not None and picture.suffix.lower() != ".png":
        raise OptionError(f"--picture {picture}: name a file that ends in .png")
    view = RunView(run)
    explained = _find_image(view, image, "unseen" if unseen else part, target)
    explanation = explain_image(view, explained)
    if picture is not None:
        save(explanation_picture(view, explanation), picture)
    table = _class_table if explanation.steps else _neighbour_table
    lines = [*introduction(explanation), table(explanation)]
    if len(explanation.ranking) > MOST_ROWS:
        lines.append(f"{len(explanation.ranking) - MOST_ROWS} more classes are in --json")
    print_result(json, explanation.json(), "\n".join([*lines, *conclusion(explanation)]))
    if picture is not None:
        say(f"the picture is in {picture}")


def _find_image(view: RunView, image: str, part: str | None, target: str | None) -> ExplainedImage:
    if image.isascii() and image.isdecimal():
        if target is not None:
            raise OptionError("--target is for image files; a sample's own class is known")
        return image_of_sample(view, int(image), part or "test")
    if part is not None:
        raise OptionError(f"--part {part} is for sample numbers, and {image} is a file")
    return image_of_file(view, Path(image), target)


def _class_table(explanation: Explanation) -> str:
    """One row per class, the most probable first."""
    with_bias = explanation.steps[0].bias is not None
    logit = ("s·cos θ" if "scale" in explanation.settings else "x·W") + (" + b" * with_bias)
    headings = ["class", "x·W", "‖W‖", "cos θ", "θ", *(["b"] if with_bias else [])]
    headings += [f"logit {logit}", "probability"]
    if explanation.margin:
        headings += ["logit with margin", "probability with margin"]
    rows = []
    for number in explanation.most_probable(MOST_ROWS):
        step = explanation.steps[number]
        mark = " ← target" if number == explanation.image.target else ""
        cells = [step.name + mark, f"{step.dot:.4f}", f"{step.center_norm:.4f}"]
        cells += [f"{step.cosine:.4f}", f"{step.angle:.2f}°"]
        cells += [f"{step.bias:.4f}"] if step.bias is not None else []
        cells += [f"{step.logit:.4f}", format_probability(step.probability)]
        if step.margined_logit is not None and step.margined_probability is not None:
            cells += [f"{step.margined_logit:.4f}", format_probability(step.margined_probability)]
        rows.append(cells)
    return columns(headings, rows, right=range(1, len(headings)))


def _neighbour_table(explanation: Explanation) -> str:
    """One row per class, the most similar first."""
    rows = []
    for number in explanation.ranking[:MOST_ROWS]:
        near = explanation.neighbours[number]
        mark = " ← its class" if near.name == explanation.image.truth else ""
        cosine, angle = f"{near.nearest_cosine:.4f}", f"{near.nearest_angle:.2f}°"
        sample = f"test sample {near.nearest}"
        rows.append([near.name + mark, f"{near.mean_cosine:.4f}", sample, cosine, angle])
    headings = ["class", "mean cosine", "nearest sample", "its cosine", "its angle"]
    table = columns(headings, rows, right=range(1, 5))
    return f"no centers: compared with test samples\n{table}"
