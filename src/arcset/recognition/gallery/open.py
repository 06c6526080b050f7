"""A gallery with its model: named once, remembered by the gallery, and opened again with it."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from arcset.data.embeddings import holds_shards, read_embeddings, read_manifest
from arcset.errors import ArcsetError, DataError, OptionError
from arcset.files import parse_json
from arcset.recognition.gallery.database import Database
from arcset.recognition.gallery.gallery import Gallery
from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.parquet_files import GalleryFile, is_export
from arcset.recognition.gallery.settings import Settings

if TYPE_CHECKING:  # torch, which embeddings alone do not need
    from arcset.recognition import Recognizer
    from arcset.recognition.faces import FaceRecognizer

__all__ = [
    "GalleryPath",
    "RememberedModel",
    "describe_gallery",
    "find_settings",
    "import_embeddings",
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


def describe_gallery(path: GalleryPath) -> dict[str, Any]:
    """What a gallery holds, its model, its calibration, and the threshold as plain values.

    Most is known without its model: where that is gone, `note` says so.
    """
    settings = read_settings(path)
    remembered, note = RememberedModel.read(settings.model_path), ""
    try:
        gallery = open_gallery(path, device="cpu", read_only=True)
    except ArcsetError as error:
        gallery, note = open_existing(path, read_only=True), str(error)
    with gallery:
        thresholds, point = gallery.thresholds, None
        try:
            point = gallery.working_point()
            note = point.note
        except ArcsetError as error:
            note = note or str(error)
        is_own = bool(settings.calibrated)
        return {
            "file": str(path),
            "bytes": gallery.byte_count,
            "subjects": len(gallery),
            "samples": gallery.sample_count,
            "scoring": gallery.scoring,
            "keeps_images": gallery.keep_images,
            "model": gallery.model_name,
            "model_digest": gallery.model_digest,
            "dim": gallery.dim,
            "model_path": None if remembered is None else remembered.model,
            "faces": None if remembered is None else remembered.faces,
            "calibration": None if thresholds is None else {**thresholds.made_from, "own": is_own},
            "point": None if point is None else point.json(),
            "note": note,
        }


def import_embeddings(path: GalleryPath, source: Path) -> tuple[int, int]:
    """All embeddings of a file into a gallery, or none; a new one is made where there is none.

    source: what `Gallery.export` wrote; or embeddings of any tool, for a gallery without a model;
        or a folder of `arcset embed` by the gallery's model.
    Returns how many were imported, and how many subjects there are then. Raises `OptionError` for
    embeddings of another model.
    """
    is_new = find_settings(path) is None
    try:
        return _import(path, source, is_new)
    except BaseException:
        if is_new:
            _discard(path)
        raise


def _import(path: GalleryPath, source: Path, is_new: bool) -> tuple[int, int]:
    if is_export(source):
        exported = GalleryFile(source)
        options = {"dim": exported.dim, "scoring": exported.scoring} if is_new else {}
        with Gallery.open(path, **options) as gallery:  # type: ignore[arg-type]
            return len(gallery.import_file(source)), len(gallery)
    embedded = read_embeddings(source)
    with Gallery.open(path, dim=embedded.embeddings.shape[1] if is_new else None) as gallery:
        digest = read_manifest(source).digest if holds_shards(source) else None
        if gallery.model_digest and digest != gallery.model_digest:
            made_by = "does not say which model made its embeddings"
            made_by = made_by if digest is None else "was embedded by another model"
            raise OptionError(
                f"{source} {made_by}, and {path} belongs to {gallery.model_name}: enroll the "
                "images instead"
            )
        names, rows = embedded.names.tolist(), embedded.embeddings
        ids = gallery.enroll_many(names, embeddings=rows, sources=embedded.paths)
        return len(ids), len(gallery)


def _discard(path: GalleryPath) -> None:
    """Leave nothing of a gallery that was made for a file which cannot be imported."""
    if isinstance(path, Address):
        from arcset.recognition.gallery.milvus.beginning import discard_empty

        with suppress(ArcsetError):
            discard_empty(path)
        return
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def read_settings(path: GalleryPath) -> Settings:
    """What a gallery says of itself, without reading its embeddings, which may be many.

    Raises `DataError` where there is none.
    """
    settings = find_settings(path)
    if settings is None:
        raise DataError(
            f"there is no gallery {path}; `arcset enroll {path} FOLDER --model RUN` makes one"
        )
    return settings


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
