"""`arcset serve`: serve a gallery over HTTP, with a page."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.keys import KeysOption, keys_of
from arcset.cli.output import print_text
from arcset.errors import DataError, OptionError
from arcset.recognition.gallery import Gallery


def serve(
    gallery: o.GalleryArgument,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than this machine only with keys.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8321,
    model: o.ModelOption = None,
    faces: o.FacesOption = None,
    keys: KeysOption = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option(help="A run or comparison to show on the page; may be repeated."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Another origin whose pages may send requests; may be repeated."
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse all changes of the gallery.")
    ] = False,
    max_body: Annotated[float, typer.Option(help="Megabytes per request, at most.")] = 16,
    max_pixels: Annotated[int, typer.Option(help="Pixels per image, at most.")] = 20_000_000,
    max_images: Annotated[int, typer.Option(help="Images per request, at most.")] = 64,
    max_requests: Annotated[
        int, typer.Option(help="Requests at the same time; more are told to retry later.")
    ] = 128,
    body_seconds: Annotated[
        float, typer.Option(help="Seconds in which a request must arrive.")
    ] = 30,
    log: Annotated[bool, typer.Option("--log/--no-log", help="Log each request on stderr.")] = True,
    device: o.Device = "auto",
) -> None:
    """Serve a gallery: a REST API, and a page at the same address.

    It answers who is in an image; no data leaves this machine. Stop it with
    Ctrl-C or SIGTERM: requests that have begun are finished first.

    Example: arcset serve people.db
    """
    try:
        from arcset.service.app import make_app
        from arcset.service.batching import share_processors
        from arcset.service.server import check_exposure, listen, run
        from arcset.service.settings import ServiceSettings
    except ImportError as error:
        raise OptionError(
            f"{error.name} is missing, which serving needs: pip install 'arcset[serve]'"
        ) from None
    if keys is not None and not keys.exists():
        raise DataError(f"{keys} does not exist; create keys with `arcset keys add`")
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
    views = None
    if runs:
        from arcset.service.views import Views

        views = Views(runs)
    bound = listen(host, port)  # before the model is loaded
    remembered = None
    if model is None:
        with Gallery.open(gallery, read_only=True, create=False) as found:
            remembered = found.model_path
    needs_torch = Path(model or remembered or "").suffix.lower() != ".onnx"
    settings = replace(settings, workers=share_processors(device, needs_torch=needs_torch))
    opened = Gallery.open(
        gallery, model, faces=faces, device=device, read_only=read_only, create=False
    )
    app = make_app(opened, known, settings, views=views)
    address = f"[{host}]" if ":" in host else host
    url = f"http://{address}:{bound.getsockname()[1]}"

    def announce() -> None:
        """On stdout, at once; stderr is for the log."""
        print_text(f"serving {gallery} at {url}")
        sys.stdout.flush()

    run(app, bound, announce)
