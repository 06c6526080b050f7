"""`arcset explain`: one image walked through a trained run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from arcset.cli import options as o
from arcset.cli.output import print_json, print_table, print_text, say
from arcset.errors import OptionError
from arcset.reports.explanation import explain as walk
from arcset.reports.explanation_picture import explanation_picture
from arcset.reports.explanation_text import conclusion, introduction, probability
from arcset.reports.steps import Explanation
from arcset.reports.subject import PARTS, Subject, image_subject, sample_subject
from arcset.reports.theme import save
from arcset.reports.view import RunView

__all__ = ["explain"]

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
    """Walk one image through a run: embedding, centers, angles, margin, logits, probabilities.

    Example: arcset explain runs/arcface 17 --picture seventeen.png
    """
    if unseen and part not in (None, "unseen"):
        raise OptionError(f"--unseen and --part {part} contradict each other; leave one out")
    if picture is not None and picture.suffix.lower() != ".png":
        raise OptionError(f"--picture {picture}: name a file that ends in .png")
    view = RunView(run)
    subject = _subject(view, image, "unseen" if unseen else part, target)
    found = walk(view, subject)
    if picture is not None:
        save(explanation_picture(view, found), picture)
    if json:
        print_json(found.json())
    else:
        for line in introduction(found):
            print_text(line)
        print_table(class_table(found) if found.steps else neighbour_table(found))
        if len(found.ranking) > MOST_ROWS:
            print_text(f"{len(found.ranking) - MOST_ROWS} more classes are in --json")
        for line in conclusion(found):
            print_text(line)
    if picture is not None:
        say(f"the picture is in {picture}")


def _subject(view: RunView, image: str, part: str | None, target: str | None) -> Subject:
    if image.isascii() and image.isdecimal():
        if target is not None:
            raise OptionError("--target is for image files; a sample's own class is known")
        return sample_subject(view, int(image), part or "test")
    if part is not None:
        raise OptionError(f"--part {part} is for sample numbers, and {image} is none")
    return image_subject(view, Path(image), target)


def class_table(found: Explanation) -> Table:
    """One row per class, the most probable first."""
    with_bias = found.steps[0].bias is not None
    cosine = "scale" in found.settings
    logit = ("s·cos θ" if cosine else "x·W") + (" + b" if with_bias else "")
    columns = ["class", "x·W", "‖W‖", "cos θ", "θ", *(["b"] if with_bias else [])]
    columns += [f"logit {logit}", "probability"]
    if found.margin:
        columns += ["logit with margin", "probability with margin"]
    table = Table()
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left")
    for number in _shown(found):
        step = found.steps[number]
        mark = " ← target" if number == found.subject.target else ""
        cells = [f"{step.dot:.4f}", f"{step.center_norm:.4f}", f"{step.cosine:.4f}"]
        cells.append(f"{step.angle:.2f}°")
        cells += [f"{step.bias:.4f}"] if step.bias is not None else []
        cells += [f"{step.logit:.4f}", probability(step.probability)]
        if step.margined_logit is not None and step.margined_probability is not None:
            cells += [f"{step.margined_logit:.4f}", probability(step.margined_probability)]
        table.add_row(step.name + mark, *cells)
    return table


def neighbour_table(found: Explanation) -> Table:
    """One row per class, the most similar first."""
    table = Table("class", title="no centers: compared with test samples", title_justify="left")
    for name in ("mean cosine", "nearest sample", "its cosine", "its angle"):
        table.add_column(name, justify="right")
    for number in found.ranking[:MOST_ROWS]:
        near = found.neighbours[number]
        mark = " ← its class" if near.name == found.subject.truth else ""
        table.add_row(
            near.name + mark,
            f"{near.mean_cosine:.4f}",
            f"test sample {near.nearest}",
            f"{near.nearest_cosine:.4f}",
            f"{near.nearest_angle:.2f}°",
        )
    return table


def _shown(found: Explanation) -> list[int]:
    """The most probable classes, and the target in any case."""
    numbers = found.ranking[:MOST_ROWS]
    target = found.subject.target
    return numbers if target is None or target in numbers else [*numbers[:-1], target]
