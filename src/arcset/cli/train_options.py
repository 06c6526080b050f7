"""Options of the verbs that train."""

from typing import Annotated

import typer

from arcset.cli.options import Device, Force, Json, Report
from arcset.data.augment import augmentation_names
from arcset.networks import network_names
from arcset.runs.recipes import recipe_names

__all__ = [
    "Augment",
    "Batch",
    "Classes",
    "Device",
    "Dim",
    "Epochs",
    "Force",
    "HoldOut",
    "Json",
    "LearningRate",
    "MarginOption",
    "NetworkOption",
    "Optimizer",
    "RecipeOption",
    "Report",
    "Scale",
    "Schedule",
    "SplitFile",
]

Classes = Annotated[
    str | None,
    typer.Option(
        help="The known classes, as 0-4 or 0,2,5; the others stay unseen. All if left out."
    ),
]
SplitFile = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="FILE.json",
        help="Known, validation and unseen classes from `arcset data split`, instead of --classes.",
    ),
]
NetworkOption = Annotated[
    str,
    typer.Option("--network", help=f"One of: {', '.join(network_names())}; or timm:NAME."),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help=f"Use a tested set of settings for everything not given: {', '.join(recipe_names())}.",
    ),
]
HoldOut = Annotated[
    str | None,
    typer.Option(
        "--hold-out",
        metavar="V,T",
        help="Shares of the identities kept from training: validation, test; or none.",
    ),
]
Augment = Annotated[
    str | None,
    typer.Option(
        "--augment",
        help="Random changes of the images, as affine:rotate=15,flip. "
        f"Of: {', '.join(augmentation_names())}.",
    ),
]
Dim = Annotated[int, typer.Option(help="Dimension of the embedding, at least 2.")]
Epochs = Annotated[int, typer.Option(help="Passes over the training images.")]
Batch = Annotated[int, typer.Option(help="Images per step.")]
Scale = Annotated[
    float | None,
    typer.Option(help="s of the cosine losses; chosen from classes and dimension if left out."),
]
MarginOption = Annotated[
    float | None,
    typer.Option(
        "--margin", help="The loss's margin; chosen from classes and dimension if left out."
    ),
]
Optimizer = Annotated[str, typer.Option(help="sgd or adamw.")]
LearningRate = Annotated[float, typer.Option("--learning-rate", "--lr", help="Peak learning rate.")]
Schedule = Annotated[str, typer.Option(help="one-cycle, cosine or constant.")]
