"""A gallery with its model: named once, remembered by the gallery, and opened again with it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from arcset.errors import DataError, OptionError
from arcset.files import parse_json
from arcset.recognition.gallery.database import Database
from arcset.recognition.gallery.gallery import Gallery
from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.settings import Settings

if TYPE_CHECKING:  # torch, which embeddings alone do not need
    from arcset.recognition import Recognizer
    from arcset.recognition.faces import FaceRecognizer

__all__ = [
    "GalleryPath",
    "RememberedModel",
    "find_settings",
    "load_model",
    "open_existing",
    "open_gallery",
    "read_settings",
    "remember_model",
    "with_faces",
]

#: Where a gallery is: its file, or its address in Milvus.
GalleryPath: TypeAlias = Path | Address


@dataclass(frozen=True)
class RememberedModel:
    """Which model makes a gallery's embeddings.

    model: path of the run or file. faces: None, "auto", "none", or the detector's path.
    """

    model: str
    faces: str | None

    @classmethod
    def read(cls, text: str | None) -> "RememberedModel | None":
        """From what a gallery keeps as `model_path`; None where that names no model."""
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
    from arcset.recognition import Recognizer

    return with_faces(Recognizer.load(model, device=device), faces)


def with_faces(recognizer: "Recognizer", faces: str | None) -> "Recognizer | FaceRecognizer":
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
    path: GalleryPath,
    model: Path | None = None,
    faces: str | None = None,
    *,
    device: str = "auto",
    **settings: Any,
) -> Gallery:
    """An existing gallery with its model: the one named, or the one that it remembers.

    settings: as in `Gallery.open`. Raises `OptionError` where it remembers no model, or one that is
    gone, and for another model than the gallery's; `DataError` where there is no gallery.
    """
    remembered = RememberedModel.read(read_settings(path).model_path)
    if remembered is not None:
        faces = remembered.faces if faces is None else faces
    if model is None:
        if remembered is None:
            raise OptionError(f"{path} does not remember its model: name it with --model")
        model = Path(remembered.model)
        if not model.exists():
            raise OptionError(f"{path}: its model is no longer at {model}: name it with --model")
    gallery = Gallery.open(path, load_model(model, faces, device=device), **settings)
    if not gallery.read_only:
        remember_model(gallery, model, faces)
    return gallery


def open_existing(path: GalleryPath, *, read_only: bool = False) -> Gallery:
    """An existing gallery without a model; raises `DataError` where there is none."""
    if not (isinstance(path, Path) and path.exists()):
        read_settings(path)
    return Gallery.open(path, read_only=read_only)


def read_settings(path: GalleryPath) -> Settings:
    """What a gallery says of itself, without reading its embeddings, which may be many.

    Raises `DataError` where there is none.
    """
    found = find_settings(path)
    if found is None:
        raise DataError(
            f"there is no gallery {path}; `arcset enroll {path} FOLDER --model RUN` makes one"
        )
    return found


def find_settings(path: GalleryPath) -> Settings | None:
    """As `read_settings`; None where there is no gallery."""
    if isinstance(path, Address):
        from arcset.recognition.gallery.milvus.beginning import find_settings as find_in_milvus

        return find_in_milvus(path)
    if not path.exists():
        return None
    database = Database(path, read_only=True)
    try:
        with database.reading():
            return Settings.read(database)
    finally:
        database.close()


def remember_model(gallery: Gallery, model: Path, faces: str | None) -> None:
    """Keep where the model lies, so that it need not be named again."""
    detector = faces if faces in (None, "auto", "none") else str(Path(str(faces)).resolve())
    text = RememberedModel(str(model.resolve()), detector).text()
    if gallery.model_path != text:
        gallery.set_model_path(text)
