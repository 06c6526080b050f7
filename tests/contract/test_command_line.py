"""Verbs, their arguments and options, with types, defaults and order, are as they were recorded.

Their prose is free.
"""

import inspect
import json
import types
import typing

import pytest

from contract.outside import arcset_command, command_tree, run_settings, type_text
from contract.recording import recorded


def commands(group, above=""):
    """Every verb by its words, the group itself as an empty one."""
    yield above, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, f"{above} {name}".lstrip())


def parameters(command):
    """A line for each, in the order of the help text."""
    if command.callback is None:  # a group of verbs
        return []
    asked = inspect.signature(command.callback, eval_str=True).parameters
    return [line(one, asked[one.name].annotation) for one in command.params if one.name in asked]


def line(parameter, annotation):
    """As `--port: int, 0 to 65535 = 8321`, `FOLDER: Path, required`, `--set: str, repeated`."""
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
    else:
        name = ", ".join(parameter.opts) + "".join(f" / {no}" for no in parameter.secondary_opts)
    words = [bare(annotation)]
    low, high = (getattr(parameter, end, None) for end in ("min", "max"))
    if (low, high) != (None, None):
        words.append(f"{'…' if low is None else low} to {'…' if high is None else high}")
    words += ["required"] * parameter.required
    words += ["repeated"] * (parameter.multiple or parameter.nargs == -1)
    default = parameter.default
    given = "" if default in (None, (), []) else f" = {shown(default)}"
    return f"{name}: {', '.join(words)}{given}"


def bare(annotation):
    """The type of one value, whether it may be left out or repeated."""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        (annotation,) = (one for one in typing.get_args(annotation) if one is not types.NoneType)
    if typing.get_origin(annotation) is list:
        (annotation,) = typing.get_args(annotation)
    return "str" if annotation is typing.Any else type_text(annotation)  # read by the verb itself


def shown(value):
    return repr(value) if isinstance(value, str | bool | int | float) else repr(str(value))


def test_verbs_keep_their_options_and_their_order():
    found = {f"arcset {verb}".rstrip(): parameters(one) for verb, one in commands(command_tree())}
    recorded("command_line-options", found)


def test_settings_of_a_run_keep_their_types_and_defaults():
    """What `--set` and `--config` take; lowest and highest values as pydantic tells them."""
    found = {}
    for name, field in run_settings().model_fields.items():
        default = (
            "required"
            if field.is_required()
            else repr(field.get_default(call_default_factory=True))
        )
        limits = "".join(f", {limit}" for limit in field.metadata)
        found[name] = f"{type_text(field.annotation)}{limits} = {default}"
    recorded("command_line-settings", found)


def test_named_datasets_keep_their_names():
    code, out = arcset_command("data", "list", "--json")
    assert code == 0
    numbers = ("name", "classes", "train", "test")
    recorded(
        "command_line-datasets", [{key: entry[key] for key in numbers} for entry in json.loads(out)]
    )


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_asked_for_by_a_letter_or_a_word(option):
    code, out = arcset_command("verify", option)
    assert code == 0
    assert "--threshold" in out
