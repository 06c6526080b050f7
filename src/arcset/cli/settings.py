"""Settings of a run on the command line: options derived from `RunConfig`, and --show-settings."""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from rich.table import Table

from arcset.cli.output import print_json, print_table
from arcset.data.augment import augmentation_names
from arcset.errors import OptionError
from arcset.losses import loss_names
from arcset.networks import network_names
from arcset.runs import RunConfig
from arcset.runs.config import unknown_setting
from arcset.runs.settings import Settings, parse_setting, recipe_names, suitable_names

F = TypeVar("F", bound=Callable[..., Any])

#: Settings that have an option of their own; --set reaches all others.
OPTIONS = (
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

RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME",
        help=f"Use a tested set of settings for everything not given: {', '.join(recipe_names())}.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting, or option of the loss."),
]

_FLAGS = {"learning_rate": ("--learning-rate", "--lr")}
_METAVARS = {
    "augment": "NAME,…",
    "classes": "LIST",
    "hold_out": "V,T",
    "mapping": "FILE.json",
    "size": "SIDE|HxW",
    "split": "FILE.json",
}
_HIGHEST = 10**5  # limits above are there for damaged files, and tell people nothing


def takes_settings(*names: str, after: str) -> Callable[[F], F]:
    """Give a verb an option for each of these settings of a run, behind its parameter `after`.

    The verb ends in `**settings` and gets those that stand on the command line, as `RunConfig` and
    `list_layers` take them.
    """

    def decorate(verb: F) -> F:
        @functools.wraps(verb)
        def call(**values: Any) -> Any:
            texts = {name: values.pop(name) for name in names}
            given = {name: value for name, value in texts.items() if value is not None}
            for name, value in given.items():
                values[name] = parse_setting(name, value) if isinstance(value, str) else value
            return verb(**values)

        parameters = []
        for parameter in inspect.signature(verb, eval_str=True).parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD:
                parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            if parameter.name == after:
                parameters += [_parameter(name) for name in names]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def _parameter(name: str) -> inspect.Parameter:
    """An option of the command line with name, type, description and limits of a setting."""
    field = RunConfig.model_fields[name]
    kinds = [kind for kind in _kinds(field.annotation) if kind is not types.NoneType]
    kind = kinds[0] if kinds[0] in (int, float) else str
    choices = "|".join(get_args(kinds[0])) if get_origin(kinds[0]) is Literal else None
    option = typer.Option(
        *_FLAGS.get(name, (f"--{name.replace('_', '-')}",)),
        metavar=choices or _METAVARS.get(name),
        help=f"{(field.description or '').removesuffix('.')}{_limits(field)}.{_known_names(name)}",
        show_default=_default_text(name, field),
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The types that a setting may have."""
    return get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)


def _limits(field: FieldInfo) -> str:
    words = []
    for key, word in (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below")):
        limit = next((getattr(bound, key) for bound in field.metadata if hasattr(bound, key)), None)
        if limit is not None and limit < _HIGHEST:
            words.append(f"{word} {limit:,}")
    return f" ({', '.join(words)})" if words else ""


def _known_names(name: str) -> str:
    """What a setting may name, where a registry knows it."""
    if name == "network":
        return f" One of: {', '.join(network_names())}; or timm:NAME."
    known = {"loss": loss_names, "augment": augmentation_names}.get(name)
    return f" One of: {', '.join(known())}." if known else ""


def _default_text(name: str, field: FieldInfo) -> str | bool:
    """What decides a setting that is not given."""
    default = _value_text(name, field.default)
    if name in suitable_names():
        return f"what suits the data; {default} for named datasets"
    return False if default == "none" else default


def _value_text(name: str, value: Any) -> str:
    """A value for people; for None, what decides instead."""
    if value is None:
        extra = RunConfig.model_fields[name].json_schema_extra
        return str(extra["unset"]) if isinstance(extra, dict) else "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value_text(name, item)}" for key, item in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def print_settings(settings: Settings, *, as_json: bool) -> None:
    """Print every setting with its value and the layer that it comes from."""
    if as_json:
        rows = settings.rows()
        print_json({name: {"value": value, "from": layer} for name, value, layer in rows})
        return
    table = Table("setting", "value", "from")
    for name, value, layer in settings.rows():
        table.add_row(name, _value_text(name, value), layer)
    print_table(table)


def check_names(call: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse a name of --set that is no setting but another argument of a function."""
    for name in given.keys() & inspect.signature(call).parameters.keys() - RunConfig.model_fields:
        raise OptionError(f"--set {name}: {unknown_setting(name)}")
