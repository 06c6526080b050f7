"""Options and arguments that several verbs share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcset.errors import DataError, OptionError

if TYPE_CHECKING:
    from arcset.recognition.gallery.base import GalleryPath


def _gallery_path(text: str) -> "GalleryPath":
    """A file, or an address in Milvus, which shows no password when it is printed."""
    if not text.startswith("milvus:"):
        return Path(text)
    from arcset.recognition.gallery.milvus_address import Address

    try:
        return Address.parse(text)
    except OptionError as error:  # which typer would take for its own, and not print
        raise DataError(str(error)) from None


GalleryArgument = Annotated[
    Any,  # a GalleryPath: typer knows no types that are one of two
    typer.Argument(
        metavar="GALLERY",
        parser=_gallery_path,
        help="The gallery's file; or milvus://host:port/collection.",
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="RUN|FILE.onnx",
        help="Folder of a trained run, or an .onnx file. A gallery remembers it.",
    ),
]
FacesOption = Annotated[
    str | None,
    typer.Option(
        "--faces",
        metavar="auto|none|FILE",
        help="Find and align the faces in photos first: auto, or YuNet's file; none: images are "
        "aligned faces already. Remembered too.",
    ),
]
PhotoFaces = Annotated[
    str | None,
    typer.Option(
        "--faces",
        metavar="auto|none|FILE",
        help="Find and align the faces in photos first: auto, or YuNet's file; none: images are "
        "aligned faces already.",
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Force = Annotated[bool, typer.Option("--force", help="Replace runs that are already there.")]
Report = Annotated[
    bool, typer.Option("--report/--no-report", help="Write report.html beside the results.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
