"""The command `arcset`: its verbs, exit codes, and errors as one line."""

import difflib
import errno
import importlib
import inspect
import logging
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import arcset
from arcset.cli.output import say
from arcset.errors import ArcsetError, OptionError

#: Verb NAME is the function, or the group of verbs, NAME in `arcset.cli.NAME`. It is imported when
#: it is called or its help is asked for; the list of all shows these texts, the first paragraph
#: of each verb's help.
VERBS = {
    "demo": "Compare eight losses on the shipped digits: five known, five never seen.",
    "train": "Train one embedding and measure it on known and on unseen classes.",
    "compare": "Train several losses with the same data, network and seeds, and compare them.",
    "evaluate": "Judge an embedding on identities that took no part in training.",
    "calibrate": "Find a model's thresholds on identities that it has never seen.",
    "embed": "Embed images with a trained run, into a file, or a folder for millions.",
    "explain": "Walk one image through a run, from its embedding to the probabilities.",
    "film": "Film the embeddings of one or several runs over the epochs, side by side.",
    "verify": "Tell whether two images show the same identity.",
    "enroll": "Add subjects to a gallery, or further images of them; a new gallery is created.",
    "identify": "Say who is in an image, or that it is unknown.",
    "cluster": "Group the images that show the same identity, without knowing any of them.",
    "export": "Write a trained run as one ONNX file that gives the same answers.",
    "plan": "Say what a training step will take: memory, traffic, time; and what fits.",
    "serve": "Serve a gallery: a REST API, and a page at the same address.",
    "keys": "Create and revoke API keys.",
    "gallery": "Look into a gallery, and change it.",
    "data": "List, download, check, split and pack datasets, and find doubtful labels.",
}


class Verb(TyperCommand):
    """A command whose help joins the lines of each paragraph, and names types only where they say
    something: a flag takes no value, and an argument's name says what it is."""

    def __init__(self, name: str | None, **options: Any) -> None:
        super().__init__(name, **options)
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_types(super().get_params(ctx))


def _hide_types(parameters: Iterable[Any]) -> list[Any]:
    parameters = list(parameters)
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""
    return parameters


class _Commands(Mapping[str, Any]):
    """The command of each verb by its name, imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if name not in VERBS:
            raise KeyError(name)
        member = getattr(importlib.import_module(f"arcset.cli.{name}"), name)
        verbs = typer.Typer(add_completion=False)
        if not isinstance(member, typer.Typer):
            verbs.command(name, cls=Verb)(member)
            return typer.main.get_command(verbs)
        for command in member.registered_commands:
            command.cls = Verb
        verbs.add_typer(member, name=name)
        return typer.main.get_group(verbs).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class _Group(TyperGroup):
    """All verbs: listed by their texts in `VERBS`, and only the one that is called is imported."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Commands()

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What the list of verbs needs to know of one; None if there is no such verb."""
        return TyperCommand(cmd_name, help=VERBS[cmd_name]) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, *rest = args
        if name not in VERBS:
            near = difflib.get_close_matches(name, VERBS, n=1, cutoff=0.65)
            ctx.fail(
                f"No such command {name!r}." + "".join(f" Did you mean {verb!r}?" for verb in near)
            )
        return name, self.commands[name], rest


app = typer.Typer(
    cls=_Group,
    name="arcset",
    help="Train an embedding that recognizes what it has never seen; know how well.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"arcset {arcset.__version__}")
        raise typer.Exit


@app.callback()
def common(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks, and log more.")] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import a Python module first, such as one that registers a network or a loss; "
            "may be repeated.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options that stand before the verb."""
    logging.basicConfig(
        level=logging.INFO if debug else logging.WARNING, format="%(message)s", stream=sys.stderr
    )
    for module in modules or ():
        import_module(module)


def import_module(name: str) -> None:
    """Import a user's module, also from the current folder.

    Raises `OptionError` that says why it cannot be imported.
    """
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        importlib.import_module(name)
    except Exception as error:
        raise OptionError(f"--import {name} fails: {type(error).__name__}: {error}") from error


def _message(error: Exception) -> str:
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"there is no room left on the disk for {error.filename}: free some space there"
    return f"{error.filename}: {error.strerror}"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a negative answer, 2 wrong use or bad input, 130
    stopped by Ctrl-C.

    A user's mistake is one line on stderr; `--debug` shows the traceback.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without θ still gets its table
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"note: {message}")
        try:
            app(args=arguments)  # which exits itself, and explains options that do not exist
        except (ArcsetError, OSError) as error:
            if "--debug" in arguments:
                raise
            say(f"arcset: {_message(error)}")
            sys.exit(2)
