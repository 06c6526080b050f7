"""Looking at arcset from outside: its names, its commands, and the shape of what it answers.

What stands beside this module imports `arcset`, `arcset.evaluation`, `main` of `arcset.cli` and, as
docs/pictures.md does, `arcset.reports`. All other modules of arcset are imported in the functions
of the first part, and by tests/support, which makes runs, galleries and servers: where a module
moves, those two change with it, and no test does.
"""

import ast
import contextlib
import dataclasses
import functools
import inspect
import io
import json
import re
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "arcset_command",
    "attributes",
    "command_tree",
    "json_shape",
    "members",
    "object_shape",
    "registered",
    "run_settings",
    "signature",
    "type_text",
]


# What has no public name


def command_tree() -> Any:
    """The group of all verbs, as typer makes it."""
    import typer

    from arcset.cli.app import app

    return typer.main.get_command(app)


def run_settings() -> Any:
    """The settings of a run: a pydantic model."""
    from arcset.runs import RunConfig

    return RunConfig


def registered() -> dict[str, Any]:
    """What users may name beside losses: names, and options with their defaults."""
    from arcset.data.augment import AUGMENTATIONS, augmentation_names
    from arcset.margins import MARGINS
    from arcset.networks import network_names
    from arcset.runs.settings import read_recipe, recipe_names

    return {
        "augmentations": {name: AUGMENTATIONS[name].options() for name in augmentation_names()},
        "margins": MARGINS.names(),
        "networks": network_names(),
        "recipes": {name: read_recipe(name).settings for name in recipe_names()},
    }


def arcset_command(*words: object) -> tuple[int, str]:
    """Exit code and output of `arcset WORDS…`, run in this process."""
    from arcset.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    assert code < 2, f"arcset {' '.join(map(str, words))}: {err.getvalue()}"
    return code, out.getvalue()


# Names and types


def signature(function: Callable[..., Any]) -> list[str]:
    """What a function takes and returns, a line each, without `self` or `cls`.

    >>> def scaled(rows: "np.ndarray", by: float = 2.0, *, copy: bool = True) -> Path | None: ...
    >>> signature(scaled)
    ['rows: ndarray', 'by: float = 2.0', '*', 'copy: bool = True', '-> Path | None']
    """
    found = _evaluated(function)
    lines, star = [], False
    for place, (name, parameter) in enumerate(found.parameters.items()):
        if place == 0 and name in ("self", "cls"):
            continue
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind)
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            lines.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        line = f"{prefix or ''}{name}: {type_text(parameter.annotation)}"
        default = parameter.default
        lines.append(line if default is parameter.empty else f"{line} = {_text(default)}")
    return [*lines, f"-> {type_text(found.return_annotation)}"]


#: Without an underscore, but for modules of arcset alone: neither README nor docs show them.
_WITHIN = {
    *("can_hold_images", "check", "from_json", "heading", "knots", "line", "model", "model_path"),
    *("name_of", "rates", "repeated", "replicates", "shared"),
    *("shown", "spread", "together", "trained_centers", "update"),
}
_SPECIAL = {"__bool__", "__contains__", "__enter__", "__getitem__", "__iter__", "__len__"}


def members(kind: type) -> dict[str, Any]:
    """Methods, properties and fields that arcset itself gives a class, whichever base has them."""
    hidden = _WITHIN.union(_unshown(kind))
    found: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("arcset"):
            continue
        for name, annotation in inspect.get_annotations(owner).items():
            if not _is_hidden(name, hidden) and "ClassVar" not in str(annotation):
                found[name] = type_text(annotation)
        for name, value in vars(owner).items():
            if _is_hidden(name, hidden):
                continue
            if isinstance(value, property | functools.cached_property):
                getter = value.fget if isinstance(value, property) else value.func
                found[name] = signature(getter)[-1].removeprefix("-> ")
            elif isinstance(value, classmethod | staticmethod):
                found[f"{name}() of the class"] = signature(value.__func__)
            elif inspect.isfunction(value):
                found[f"{name}()"] = signature(value)
    return found


def attributes(value: Any) -> dict[str, str]:
    """What an object of arcset has beside methods: names, and classes of what is there."""
    names = (name for name in dir(value) if not _is_hidden(name, _WITHIN))
    found = {name: getattr(value, name) for name in names}
    return {name: _kind(one) for name, one in found.items() if not callable(one)}


def type_text(annotation: Any) -> str:
    """A type as people write it, without the modules that its names come from.

    >>> type_text(npt.NDArray[np.float32] | None), type_text("collections.abc.Sequence[int]")
    ('NDArray[float32] | None', 'Sequence[int]')
    >>> type_text(npt.ArrayLike | Path), type_text(typing.Callable[[int], typing.Any])
    ('ArrayLike | Path', 'Callable[[int], Any]')
    """
    if isinstance(annotation, str):
        return ast.unparse(_Unqualified().visit(ast.parse(annotation, mode="eval")))
    if isinstance(annotation, typing.ForwardRef):
        return type_text(annotation.__forward_arg__)
    if annotation is None or annotation is types.NoneType:
        return "None"
    if isinstance(annotation, list | tuple):
        return f"[{', '.join(map(type_text, annotation))}]"
    if annotation is ...:
        return "..."
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return type_text(inner[0])
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin in (typing.Union, types.UnionType):
        return _union(inner)
    if origin is np.ndarray:
        return f"NDArray[{type_text(typing.get_args(inner[1])[0])}]"
    name = getattr(origin or annotation, "__name__", str(annotation).rpartition(".")[2])
    return f"{name}[{', '.join(map(type_text, inner))}]" if inner else str(name)


_ARRAY_LIKE = typing.get_args(npt.ArrayLike)


def _union(inner: tuple[Any, ...]) -> str:
    """What numpy takes for an array is many types, and others in the next version."""
    if len(_ARRAY_LIKE) > 1 and set(_ARRAY_LIKE) <= set(inner):
        place = inner.index(_ARRAY_LIKE[0])
        inner = tuple(one for one in inner if one not in _ARRAY_LIKE)
        inner = (*inner[:place], "ArrayLike", *inner[place:])
    return " | ".join(map(type_text, inner))


class _Unqualified(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name(node.attr)


def _evaluated(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError:  # of what is imported for type checkers only
        return inspect.signature(function)


def _is_hidden(name: str, hidden: Iterable[str]) -> bool:
    return name in hidden or (name.startswith("_") and name not in _SPECIAL)


def _unshown(kind: type) -> set[str]:
    """Fields that are what measures are made of, and not measures."""
    if not dataclasses.is_dataclass(kind):
        return set()
    return {field.name for field in dataclasses.fields(kind) if not field.repr}


def _text(value: Any) -> str:
    return str(value) if isinstance(value, Path) else repr(value)


# Shapes of values


def json_shape(value: Any, data: Iterable[str] = (), path: str = "") -> Any:
    """Keys and types of JSON; of a list, those of its items, with a ? behind keys that some lack.

    data: paths of objects whose keys are data (names of subjects, files, losses): *, as numbers
    are everywhere.

        >>> json_shape({"rows": [{"a": 1, "b": None}, {"a": "x"}], "far": {"0.1": 1, "0.01": 2}})
        {'rows': [{'a': 'number | string', 'b?': 'null'}], 'far': {'*': 'number'}}
        >>> json_shape({"removed": {"anna": 2}}, ["removed"])
        {'removed': {'*': 'number'}}
    """
    if isinstance(value, dict):
        if path in data and value:
            return {"*": _joined([json_shape(one, data, f"{path}.*") for one in value.values()])}
        found: dict[str, list[Any]] = {}
        for key, one in value.items():
            name = _without_numbers(key)
            found.setdefault(name, []).append(json_shape(one, data, f"{path}.{name}".lstrip(".")))
        return {name: _joined(shapes) for name, shapes in found.items()}
    if isinstance(value, list):
        shapes = [json_shape(one, data, f"{path}[]") for one in value]
        return [_joined(shapes)] if shapes else []
    return {bool: "boolean", int: "number", float: "number", str: "string"}.get(type(value), "null")


def _without_numbers(key: str) -> str:
    """
    >>> _without_numbers("tar_at_far[0.001]"), _without_numbers("1e-06"), _without_numbers("f1")
    ('tar_at_far[*]', '*', 'f1')
    """
    key = re.sub(r"\[[^]]*\]", "[*]", key)
    try:
        float(key)
    except ValueError:
        return key
    return "*"


def _joined(shapes: list[Any]) -> Any:
    """One shape for values of several."""
    objects = [shape for shape in shapes if isinstance(shape, dict)]
    lists = [shape for shape in shapes if isinstance(shape, list)]
    words = {word for shape in shapes if isinstance(shape, str) for word in shape.split(" | ")}
    found: list[Any] = [" | ".join(sorted(words))] if words else []
    if objects:
        found.append(_joined_objects(objects))
    if lists:
        inner = [one for shape in lists for one in shape]
        found.append([_joined(inner)] if inner else [])
    if len(found) == 1:
        return found[0]
    return {"either": found} if found else {}


def _joined_objects(shapes: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name.removesuffix("?") for shape in shapes for name in shape)
    joined = {}
    for name in names:
        there = [shape[key] for shape in shapes for key in (name, f"{name}?") if key in shape]
        always = all(name in shape for shape in shapes)
        joined[name if always else f"{name}?"] = _joined(there)
    return joined


def object_shape(value: Any) -> Any:
    """Classes within a Python value: of objects of arcset also their fields.

    >>> object_shape((1, [2.0, None, 3.0], np.zeros((2, 3), np.float32)))
    ['tuple', 'float32 (·, ·)', 'int', ['list', 'NoneType', 'float']]
    """
    if isinstance(value, np.ndarray):
        return f"{value.dtype} ({', '.join('·' * value.ndim)})"
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        inner = {json.dumps(object_shape(one)): object_shape(one) for one in value}
        return [type(value).__name__, *(inner[key] for key in sorted(inner))]
    if type(value).__module__.startswith("arcset"):
        names = (
            [field.name for field in dataclasses.fields(value)]
            if dataclasses.is_dataclass(value)  # with slots or without
            else vars(value)
        )
        shown = {name: getattr(value, name) for name in names if not name.startswith("_")}
        return {type(value).__name__: {name: object_shape(one) for name, one in shown.items()}}
    return _kind(value)


def _kind(value: Any) -> str:
    """Its class; of a path not the one of this system."""
    return "Path" if isinstance(value, Path) else type(value).__name__
