"""The command `arcset`: verbs, exit codes, and errors as one line."""

import errno
import logging
import sys
import warnings
from io import TextIOWrapper
from typing import Annotated, Any

import typer

import arcset
from arcset.cli.cluster import cluster
from arcset.cli.compare import compare
from arcset.cli.data import data
from arcset.cli.demo import demo
from arcset.cli.embed import embed
from arcset.cli.enroll import enroll
from arcset.cli.evaluate import evaluate
from arcset.cli.explain import explain
from arcset.cli.export import export
from arcset.cli.film import film
from arcset.cli.gallery import gallery
from arcset.cli.help import Verb
from arcset.cli.identify import identify
from arcset.cli.keys import keys
from arcset.cli.output import say
from arcset.cli.plan import plan
from arcset.cli.serve import serve
from arcset.cli.sweep import sweep
from arcset.cli.train import train
from arcset.cli.verify import verify
from arcset.errors import ArcsetError

__all__ = ["app", "main"]

# typer carries its own click, or uses the installed one: this is the base of either's errors.
_ClickException: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="arcset",
    help="Train an embedding that recognizes what it has never seen; know how well.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(train)
app.command()(compare)
app.command()(sweep)
app.command()(evaluate)
app.command()(embed)
app.command()(explain)
app.command()(film)
app.command()(verify)
app.command()(enroll)
app.command()(identify)
app.command()(cluster)
app.command()(export)
app.command()(plan)
app.command()(serve)
app.add_typer(keys, name="keys")
app.add_typer(gallery, name="gallery")
app.add_typer(data, name="data")
for verbs in (app, keys, gallery, data):
    for command in verbs.registered_commands:
        command.cls = Verb


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"arcset {arcset.__version__}")
        raise typer.Exit


@app.callback()
def common(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks, and log more.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the verb."""
    logging.basicConfig(
        level=logging.INFO if debug else logging.WARNING, format="%(message)s", stream=sys.stderr
    )


def _sentence(error: Exception) -> str:
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"there is no room left on the disk for {error.filename}: free some space there"
    return f"{error.filename}: {error.strerror}"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a negative answer, 2 wrong use or bad input.

    A user's mistake is one line on stderr; `--debug` shows the traceback.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without θ still gets its table
    warnings.showwarning = lambda message, *_, **__: say(f"note: {message}")
    try:
        status = app(args=arguments, standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except (ArcsetError, OSError) as error:
        if "--debug" in arguments:
            raise
        say(f"arcset: {_sentence(error)}")
        sys.exit(2)
    except _ClickException as error:
        error.show()
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        say("arcset: stopped")
        sys.exit(130)
