"""`arcset keys`: create and revoke the API keys of a service."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arcset.cli import options as o
from arcset.cli.output import print_json, print_result, print_text, say
from arcset.errors import DataError
from arcset.service.keys import Keys, keys_file
from arcset.text import columns

if TYPE_CHECKING:
    from arcset.recognition.gallery.base import GalleryPath

keys = typer.Typer(help="Create and revoke API keys.", no_args_is_help=True)

KeysOption = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        help="The file of the keys. Default: GALLERY.keys.json; for a gallery in Milvus "
        "COLLECTION.keys.json in this folder.",
    ),
]


def keys_of(gallery: "GalleryPath", file: Path | None) -> Keys:
    """The keys of a gallery; raises `DataError` where there is no gallery.

    Those of one in Milvus are in the folder where the command is run.
    """
    if not isinstance(gallery, Path):
        gallery = Path(gallery.name)
    elif not gallery.exists():
        raise DataError(f"there is no gallery {gallery}")
    return Keys(keys_file(gallery) if file is None else file)


@keys.command("add")
def add(
    gallery: o.GalleryArgument,
    role: Annotated[str, typer.Option(help="read; or write, which may do everything.")] = "read",
    name: Annotated[str, typer.Option(help="Who or what uses the key.")] = "",
    file: KeysOption = None,
    json: o.Json = False,
) -> None:
    """Create a key and print it once: only its digest is stored.

    Example: arcset keys add people.db --role write --name door
    """
    key, secret = keys_of(gallery, file).add(role, name)
    if json:
        print_json({**key.json(), "key": secret})
        return
    say(f"key {key.id}, role {key.role}; it is not shown again:")
    print_text(secret)


@keys.command("list")
def list_keys(gallery: o.GalleryArgument, file: KeysOption = None, json: o.Json = False) -> None:
    """List the keys: ids, roles and names.

    Example: arcset keys list people.db
    """
    known = keys_of(gallery, file).all()
    rows = [[key.id, key.role, key.created[:10], key.name or "–"] for key in known]
    table = columns(["id", "role", "created", "name"], rows)
    print_result(json, [key.json() for key in known], table if known else "there are no keys")


@keys.command("remove")
def remove(
    gallery: o.GalleryArgument,
    key: Annotated[str, typer.Argument(metavar="ID|NAME", help="See `arcset keys list`.")],
    file: KeysOption = None,
) -> None:
    """Revoke a key; a running service refuses it from then on.

    Example: arcset keys remove people.db 1f0c93ab
    """
    removed = keys_of(gallery, file).remove(key)
    print_text(f"revoked key {removed.id}")
