"""From the command line to a configuration; which layer counts says `arcset.runs.settings`."""

from pathlib import Path
from typing import Any

import typer

from arcset.cli.output import say
from arcset.data import Dataset
from arcset.runs import Run, RunConfig
from arcset.runs.settings import (
    list_layers,
    parse_changes,
    parse_setting,
    resolve_settings,
)

__all__ = ["chosen_config", "given_options", "resumed_settings", "was_given"]

#: Options of verbs that are settings of the run under the same name.
FIELDS = (
    "data",
    "loss",
    "classes",
    "split",
    "hold_out",
    "mapping",
    "size",
    "network",
    "dim",
    "epochs",
    "batch",
    "seed",
    "scale",
    "margin",
    "augment",
    "optimizer",
    "learning_rate",
    "schedule",
)


def was_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def given_options(context: typer.Context) -> dict[str, Any]:
    """The settings that stand on the command line as options."""
    given = {key: context.params[key] for key in FIELDS if was_given(context, key)}
    parsed = ("hold_out", "size", "augment")  # those that are more than a word or a number
    return {k: parse_setting(k, v) if k in parsed else v for k, v in given.items()}


def chosen_config(
    given: dict[str, Any],
    *,
    recipe: str | None = None,
    file: Path | None = None,
    settings: list[str] | None = None,
    dataset: Dataset | None = None,
    start: Run | None = None,
    begun: Run | None = None,
    quiet: bool = False,
) -> RunConfig:
    """The run's configuration, from the layers that `list_layers` lists and what suits `dataset`.

    given: options of the command line. settings: --set. begun: the run that has started from
    another and goes on. quiet: print no note on options that the loss does not have.
    """
    layers = list_layers(
        given, recipe=recipe, file=file, changes=settings or (), start=start, continued=begun
    )
    resolved = resolve_settings(layers)
    if dataset is not None:
        resolved = resolved.suited_to(dataset)
    for note in [] if quiet else resolved.notes:
        say(f"note: {note}")
    return resolved.config


def resumed_settings(context: typer.Context) -> dict[str, Any]:
    """What --epochs and --set ask for beside --resume; which of it may change, the run knows."""
    given = given_options(context)
    changes = parse_changes(context.params.get("settings") or [])
    RunConfig(data="none").replace(**changes)
    return {**({"epochs": given["epochs"]} if "epochs" in given else {}), **changes}
