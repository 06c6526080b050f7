"""`arcset serve`: a gallery behind HTTP, with a page."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from arcset.cli import options as o
from arcset.cli.keys import KeysOption, keys_of
from arcset.cli.model_option import FacesOption, GalleryFile, ModelOption, open_gallery
from arcset.cli.output import print_text
from arcset.errors import DataError, OptionError

__all__ = ["serve"]


def serve(
    gallery: GalleryFile,
    host: Annotated[
        str, typer.Option(help="The address to listen at; beyond this machine only with keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8321,
    model: ModelOption = None,
    faces: FacesOption = None,
    keys: KeysOption = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option(help="A run or a comparison to show on the page; may be repeated."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="A page from elsewhere that may ask; may be repeated."),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Let nobody change the gallery.")
    ] = False,
    max_body: Annotated[float, typer.Option(help="Megabytes of a request.")] = 16,
    max_pixels: Annotated[int, typer.Option(help="Pixels of an image.")] = 20_000_000,
    max_images: Annotated[int, typer.Option(help="Images of a request.")] = 64,
    max_requests: Annotated[
        int, typer.Option(help="Requests at a time; more are told to come again.")
    ] = 128,
    body_seconds: Annotated[
        float, typer.Option(help="How long a request may take to arrive.")
    ] = 30,
    log: Annotated[
        bool, typer.Option("--log/--no-log", help="A line on stderr for each request.")
    ] = True,
    device: o.Device = "auto",
) -> None:
    """Serve a gallery: a REST API, and a page at the same address.

    It takes images and answers who is on them; nothing leaves this machine.
    Stop it with Ctrl-C, or SIGTERM: what it has begun is finished first.

    Example: arcset serve people.db
    """
    try:
        from arcset.service.app import make_app
        from arcset.service.processors import share_processors
        from arcset.service.server import check_exposure, listen, run
        from arcset.service.settings import ServiceSettings
    except ImportError as error:
        raise OptionError(
            f"{error.name} is missing, which serving needs: pip install 'arcset[serve]'"
        ) from None
    if keys is not None and not keys.exists():
        raise DataError(f"there is no file of keys {keys}; make one with `arcset keys add`")
    settings = ServiceSettings(
        max_body=round(max_body * (1 << 20)),
        max_pixels=max_pixels,
        max_images=max_images,
        max_requests=max_requests,
        body_seconds=body_seconds,
        read_only=read_only,
        cors=tuple(cors or ()),
        log=log,
    )
    known = keys_of(gallery, keys)
    check_exposure(host, known)
    views = _views(runs)
    bound = listen(host, port)  # before anybody waits for a model
    settings = replace(settings, workers=share_processors(device))
    opened = open_gallery(gallery, model, faces, device=device, read_only=read_only)
    app = make_app(opened, known, settings, views=views)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{bound.getsockname()[1]}"
    run(app, bound, lambda: _tell(f"serving {gallery} at {url}"))


def _tell(text: str) -> None:
    """On stdout, at once; stderr is for the log."""
    print_text(text)
    sys.stdout.flush()


def _views(runs: list[Path] | None) -> Any:
    if not runs:
        return None
    from arcset.service.views import Views

    return Views.of(runs)
