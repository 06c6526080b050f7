"""From the command line to a configuration: run before, recipe, file, options, then --set."""

from pathlib import Path
from typing import Any

import typer

from arcset.cli.output import say
from arcset.data import DATASETS, Dataset
from arcset.errors import OptionError
from arcset.losses import loss_options
from arcset.registry import did_you_mean
from arcset.runs import Run, RunConfig
from arcset.runs.config import read_settings
from arcset.training.compare import LossSpec, parse_value
from arcset.training.recipes import own_settings, recipe_settings
from arcset.training.start import inherited

__all__ = [
    "absolute",
    "chosen_config",
    "given_options",
    "is_own",
    "named_data",
    "parse_setting",
    "resumed_settings",
    "was_given",
]

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
_PARSED = ("hold_out", "size", "augment")  # those that are more than a word or a number


def is_own(data: str) -> bool:
    """Whether the user's own data is meant and no named dataset."""
    return bool(data) and data not in DATASETS and Path(data).exists()


def absolute(data: str) -> str:
    """Own data by its whole path, so that the run finds it from anywhere; names as they are."""
    return str(Path(data).resolve()) if is_own(data) else data


def named_data(given: dict[str, Any], file: Path | None) -> str:
    """The data that the command line names, or else the file; empty where neither does."""
    if given.get("data") or file is None:
        return str(given.get("data") or "")
    return str(read_settings(file).get("data", ""))


def was_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def given_options(context: typer.Context) -> dict[str, Any]:
    """The settings that stand on the command line as options."""
    found = {key: context.params[key] for key in FIELDS if key in context.params}
    given = {key: value for key, value in found.items() if was_given(context, key)}
    return {k: parse_setting(k, v) if k in _PARSED else v for k, v in given.items()}


def parse_setting(key: str, text: str) -> Any:
    """One setting of a run from text; an empty one, or none where there is a choice, is none.

    >>> parse_setting("augment", "affine:rotate=10,flip"), parse_setting("size", "64")
    (['affine:rotate=10', 'flip'], [64, 64])
    >>> parse_setting("hold_out", "0.1,0.2"), parse_setting("epochs", "3")
    ({'validation': 0.1, 'test': 0.2}, 3)
    """
    if key not in _PARSED:
        return parse_value(text) if text else None
    if key == "augment":
        text = "" if text == "none" else text
        return [part.strip() for part in text.split(",") if part.strip()]
    if not text or text == "none":
        return None
    if key == "size":
        numbers = text.lower().replace("×", "x").split("x")
        if len(numbers) > 2 or not all(number.isdigit() for number in numbers):
            raise OptionError(f"size is written 64, or 64x48 for height and width, not {text!r}")
        return [int(numbers[0]), int(numbers[-1])]
    shares = [parse_value(part) for part in text.split(",")]
    if len(shares) != 2 or not all(isinstance(share, int | float) for share in shares):
        raise OptionError(
            f"hold_out is written 0.1,0.1 for shares of validation and test, or none, not {text!r}"
        )
    return {"validation": shares[0], "test": shares[1]}


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
    """The run's configuration.

    given: options of the command line. settings: --set, which takes settings of the run and options
    of the loss. dataset: own data, whose shape and size say what suits it where no recipe does, and
    no file says otherwise; a trained run's file says everything. start: the run to begin from,
    whose settings stand where nothing else says otherwise. begun: instead of it, the run that has
    begun from there and goes on, whose settings then stand. quiet: say nothing of options that the
    loss does not have.
    """
    forced, options = _from_set(settings or [])
    given = {**given, **forced}
    if start is not None:
        given["start"] = str(start.path.resolve())
    saved = _from_file(file, given) if file is not None else {}
    data = given.get("data") or saved.get("data", "")
    values: dict[str, Any] = {} if start is None else _from_start(start, data)
    if begun is not None:
        values = begun.config.model_dump(exclude_none=True, exclude={"shape", "class_names"})
    if recipe is not None:
        values = {**values, **recipe_settings(recipe, data)}
    if dataset is not None and not {"start", "class_names"} & {*values, *saved}:
        own = own_settings(dataset)
        values = {**own, **values} if recipe is None else values
        if "hold_out" in own:
            values.setdefault("hold_out", own["hold_out"])
    wanted = given.get("loss", saved.get("loss", values.get("loss", "arcface")))
    if _name(wanted) != values.get("loss"):
        # Another loss does not inherit what was tuned for the recipe's.
        for key in ("scale", "margin", "options", *(["margin_warm_up"] if start else [])):
            values.pop(key, None)
    for one in ("classes", "split"):
        if one in given or one in saved:
            values.pop("hold_out", None)
    values = {**values, **saved, **given}
    spec = LossSpec.parse(values.pop("loss", "arcface"))
    named = {key: value for key, value in spec.options.items() if key not in forced}
    spec = LossSpec(spec.loss, {**values.pop("options", {}), **named, **options}, spec.label)
    values = {key: value for key, value in values.items() if value is not None}
    _check_known(spec, options)
    config, ignored = spec.applied(RunConfig(**values))
    for option in [] if quiet else ignored:
        say(f"note: {spec.loss} has no {option}: --{option} is ignored")
    return config


def _check_known(spec: LossSpec, options: dict[str, Any]) -> None:
    """Refuse a --set that is neither a setting of a run nor an option of its loss."""
    known = loss_options(spec.loss, **spec.options)
    for name in options:
        if name not in known:
            hint = did_you_mean(name, [*RunConfig.model_fields, *known])
            raise OptionError(
                f"--set {name}: no setting is called {name!r}, and {spec.loss} has no such option; "
                + (hint or f"{spec.loss} takes {', '.join(known) or 'none'}")
            )


def _from_start(start: Run, data: str) -> dict[str, Any]:
    """What a run takes over from the one that it begins from."""
    values = inherited(start, data)
    if not is_own(data):  # named datasets have a size of their own
        values.pop("size", None)
        values.pop("channels", None)
    return values


def resumed_settings(context: typer.Context) -> dict[str, Any]:
    """What --epochs and --set ask for beside --resume; which of it may change, the run knows."""
    forced, options = _from_set(context.params.get("settings") or [])
    for name in options:
        hint = did_you_mean(name, RunConfig.model_fields)
        raise OptionError(
            f"--set {name}: no setting is called {name!r}; {hint or 'docs/training.md lists them'}"
        )
    given = given_options(context)
    return {**({"epochs": given["epochs"]} if "epochs" in given else {}), **forced}


def _name(loss: object) -> str:
    """Of a loss that may carry options."""
    if not isinstance(loss, str):
        raise OptionError(f"loss={loss!r}: write a loss by its name, as arcface")
    return loss.partition(":")[0].strip()


def _from_set(settings: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What --set asks for: settings of the run, and options of the loss."""
    forced: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise OptionError(f"--set {setting}: write KEY=VALUE")
        if key == "recipe":
            raise OptionError(f"--set {setting}: name a recipe with --recipe {value}")
        if key == "start":
            raise OptionError(f"--set {setting}: name the run to begin from with --from {value}")
        if key in RunConfig.model_fields and key != "options":
            forced[key] = value if key == "loss" else parse_setting(key, value)
        else:
            options[key] = parse_value(value)
    return forced, options


def _from_file(file: Path, given: dict[str, Any]) -> dict[str, Any]:
    """A file's settings, without those that options contradict."""
    saved = read_settings(file)
    for name in saved:
        if name not in RunConfig.model_fields:
            hint = did_you_mean(name, RunConfig.model_fields)
            raise OptionError(
                f"{file}: there is no setting called {name!r}; "
                + (hint or "docs/training.md lists them")
            )
    copy = file.with_name("split.json")
    kept = "split" in saved or "hold_out" in saved
    if kept and file.name == "config.toml" and copy.is_file():
        saved["split"] = str(copy)  # the run's own: the original may have moved or changed
        saved.pop("hold_out", None)
    if "mapping" in saved and file.name == "config.toml":
        saved["mapping"] = str(file.with_name("mapping.json"))
    for one in ("classes", "split", "hold_out"):
        if one in given:
            for other in {"classes", "split", "hold_out"} - {one}:
                saved.pop(other, None)
    # Another loss does not inherit the options of the one in the file.
    if "loss" in given and _name(given["loss"]) != _name(saved.get("loss", "arcface")):
        for key in ("scale", "margin", "options"):
            saved.pop(key, None)
    return saved
