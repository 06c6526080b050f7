"""`--model`: what makes a gallery's embeddings, named once and remembered by the gallery."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcset.errors import DataError, OptionError
from arcset.files import parse_json
from arcset.recognition import Recognizer
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.database import Database
from arcset.recognition.gallery.milvus.address import Address, is_address
from arcset.recognition.gallery.milvus.beginning import find_settings as find_in_milvus
from arcset.recognition.gallery.settings import Settings

if TYPE_CHECKING:
    from arcset.recognition.faces import FaceRecognizer

__all__ = [
    "Chosen",
    "FacesOption",
    "GalleryFile",
    "ModelOption",
    "Place",
    "existing",
    "find_settings",
    "load_model",
    "open_gallery",
    "remember",
    "settings_of",
    "with_faces",
]

ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="RUN|FILE.onnx",
        help="Folder of a trained run, or an .onnx file. A gallery remembers it.",
    ),
]


def _place(text: str) -> "Place":
    """A file, or an address in Milvus, which shows no password when it is printed."""
    try:
        return Address.parse(text) if is_address(text) else Path(text)
    except OptionError as error:  # which typer would take for its own, and not print
        raise DataError(str(error)) from None


#: Where a gallery is. Typer knows no types that are one of two.
Place = Path | Address
GalleryFile = Annotated[
    Any,
    typer.Argument(
        metavar="GALLERY",
        parser=_place,
        help="The gallery's file; or milvus://host:port/collection.",
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


@dataclass(frozen=True)
class Chosen:
    """What a gallery remembers.

    model: path of the run or file. faces: None, "auto", "none", or the detector's path.
    """

    model: str
    faces: str | None

    @classmethod
    def read(cls, text: str | None) -> "Chosen | None":
        """What a gallery remembers; None for nothing, or what is none of it."""
        try:
            content = parse_json(text or "")
            model, faces = content["model"], content["faces"]
        except (ValueError, KeyError, TypeError):
            return None
        fits = isinstance(model, str) and isinstance(faces, str | None)
        return cls(model, faces) if fits else None

    def text(self) -> str:
        """What `read` reads."""
        return json.dumps({"model": self.model, "faces": self.faces}, ensure_ascii=False)


def load_model(
    model: Path, faces: str | None = None, *, device: str = "auto"
) -> "Recognizer | FaceRecognizer":
    """A recognizer; of the faces in photos, where `faces` says so."""
    return with_faces(Recognizer.load(model, device=device), faces)


def with_faces(recognizer: Recognizer, faces: str | None) -> "Recognizer | FaceRecognizer":
    """The recognizer, applied to the faces in photos where `faces` is "auto" or a detector.

    Raises `OptionError` where nothing is said, and the network takes aligned faces.
    """
    if faces is None and getattr(recognizer.model, "takes_faces", False):
        raise OptionError(
            f"the model {recognizer.name!r} takes aligned faces: add --faces auto to find them in "
            "photos, or --faces none if the images are aligned faces already"
        )
    if faces in (None, "none"):
        return recognizer
    # OpenCV is an extra, and slow to import.
    from arcset.recognition.faces import FaceRecognizer, Faces

    return FaceRecognizer(recognizer, Faces.load(None if faces == "auto" else faces))


def open_gallery(
    path: Place,
    model: Path | None = None,
    faces: str | None = None,
    *,
    device: str = "auto",
    **settings: Any,
) -> Gallery:
    """A gallery that is there, with the model named or remembered; settings as `Gallery.open` has.

    Raises `OptionError` where it remembers no model, or one that is gone, and for another model
    than the gallery's; `DataError` where there is no gallery.
    """
    chosen = Chosen.read(settings_of(path).model_path)
    if chosen is not None:
        faces = chosen.faces if faces is None else faces
    if model is None:
        if chosen is None:
            raise OptionError(f"{path} does not remember its model: name it with --model")
        model = Path(chosen.model)
        if not model.exists():
            raise OptionError(f"the model of {path} is gone from {model}: name it with --model")
    gallery = Gallery.open(path, load_model(model, faces, device=device), **settings)
    if not gallery.read_only:
        remember(gallery, model, faces)
    return gallery


def existing(path: Place, *, read_only: bool = False) -> Gallery:
    """A gallery that is there, without a model; raises `DataError` where there is none."""
    if not (isinstance(path, Path) and path.exists()):
        settings_of(path)
    return Gallery.open(path, read_only=read_only)


def settings_of(path: Place) -> Settings:
    """What a gallery says of itself, without reading its embeddings, which may be many.

    Raises `DataError` where there is none.
    """
    found = find_settings(path)
    if found is None:
        raise DataError(
            f"there is no gallery {path}; `arcset enroll {path} FOLDER --model RUN` makes one"
        )
    return found


def find_settings(path: Place) -> Settings | None:
    """As `settings_of`; None where there is no gallery."""
    if isinstance(path, Address):
        return find_in_milvus(path)
    if not path.exists():
        return None
    database = Database(path, read_only=True)
    try:
        with database.reading():
            return Settings.read(database)
    finally:
        database.close()


def remember(gallery: Gallery, model: Path, faces: str | None) -> None:
    """Keep where the model lies, so that it need not be named again."""
    place = faces if faces in (None, "auto", "none") else str(Path(str(faces)).resolve())
    text = Chosen(str(model.resolve()), place).text()
    if gallery.model_path != text:
        gallery.set_model_path(text)
