"""`arcset keys`: who may ask a service."""

from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.gallery_show import columns
from arcset.cli.model_option import GalleryFile, Place
from arcset.cli.output import print_json, print_text, say
from arcset.errors import DataError
from arcset.recognition.gallery.milvus.address import Address
from arcset.service.keys import Keys, keys_file

__all__ = ["KeysOption", "keys", "keys_of"]

keys = typer.Typer(help="Create and revoke API keys.", no_args_is_help=True)

KeysOption = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        help="Where the keys are; GALLERY.keys.json if left out, of one in Milvus "
        "COLLECTION.keys.json in this folder.",
    ),
]


def keys_of(gallery: Place, file: Path | None) -> Keys:
    """The keys of a gallery; raises `DataError` where there is no gallery.

    Those of one in Milvus are in the folder where the command is run.
    """
    if isinstance(gallery, Address):
        return Keys(keys_file(Path(gallery.name)) if file is None else file)
    if not gallery.exists():
        raise DataError(f"there is no gallery {gallery}")
    return Keys(keys_file(gallery) if file is None else file)


@keys.command("add")
def add(
    gallery: GalleryFile,
    role: Annotated[str, typer.Option(help="read, or write, which may do everything.")] = "read",
    name: Annotated[str, typer.Option(help="Who or what gets it, to tell keys apart.")] = "",
    file: KeysOption = None,
    json: o.Json = False,
) -> None:
    """Make a key, and print it once: only its digest is kept.

    Example: arcset keys add people.db --role write --name door
    """
    made, secret = keys_of(gallery, file).add(role, name)
    if json:
        print_json({**made.json(), "key": secret})
        return
    say(f"key {made.id}, role {made.role}; it is shown only now:")
    print_text(secret)


@keys.command("list")
def list_keys(gallery: GalleryFile, file: KeysOption = None, json: o.Json = False) -> None:
    """List the keys: ids, roles and names.

    Example: arcset keys list people.db
    """
    found = keys_of(gallery, file).all()
    if json:
        print_json([one.json() for one in found])
        return
    if not found:
        print_text("there are no keys")
        return
    rows = [[one.id, one.role, one.created[:10], one.name or "–"] for one in found]
    print_text(columns(["id", "role", "created", "name"], rows))


@keys.command("remove")
def remove(
    gallery: GalleryFile,
    key: Annotated[str, typer.Argument(metavar="ID|NAME", help="See `arcset keys list`.")],
    file: KeysOption = None,
) -> None:
    """Take a key away; a running service refuses it from then on.

    Example: arcset keys remove people.db 1f0c93ab
    """
    removed = keys_of(gallery, file).remove(key)
    print_text(f"removed key {removed.id}")
