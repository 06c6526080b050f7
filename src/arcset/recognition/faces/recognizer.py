"""Photos to embeddings of the faces in them: detect, align, embed."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from arcset.data.decode import decode_many, in_chunks, reason
from arcset.errors import ArcsetError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.decisions import NO_FACE, Verification, decide
from arcset.recognition.faces.alignment import ALIGNMENT, align
from arcset.recognition.faces.detect import (
    Face,
    Faces,
    Found,
    NoFaceError,
    Pixels,
    photo_name,
    read_photo,
)
from arcset.recognition.inputs import ImageFile, as_sources, files_of
from arcset.recognition.recognizer import (
    Embedded,
    EmbeddedImage,
    Embeddings,
    ImageEmbedder,
    Progress,
)

__all__ = ["FaceRecognizer"]

_CHUNK = 32  # photos that are read, and whose faces wait, at a time


class FaceRecognizer:
    """An embedder of photos: finds the faces, aligns them, and lets another embedder embed them.

    recognizer: whatever embeds aligned faces, uint8 RGB (N, 112, 112, 3): a network for faces from
        an ONNX file, or a run that was trained on aligned faces.
    faces: the detector.
    thresholds: of cosines between faces; those of the recognizer if left out.

    Where one row per photo is wanted it is that of the main face (see `Faces`); `embed_faces` and
    `embed_all` give all of them. The digest covers the recognizer, the detector's file, and the
    alignment.
    """

    def __init__(
        self, recognizer: ImageEmbedder, faces: Faces, *, thresholds: Thresholds | None = None
    ) -> None:
        self.recognizer, self.faces = recognizer, faces
        self.name = recognizer.name
        self.dim = recognizer.dim
        self.thresholds = recognizer.thresholds if thresholds is None else thresholds
        parts = ("arcset faces", recognizer.digest, faces.digest, ALIGNMENT)
        self.digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def embed(self, images: Any, *, progress: Progress | None = None) -> Embeddings:
        """The main face of each photo, (N, D) float32, unit rows.

        Raises `DataError` or `InputError` for the first photo that cannot be read, and
        `NoFaceError`, a `DataError`, for the first that shows no face large enough.
        """
        sources = as_sources(images)
        embedded = self.embed_each(sources, most=1, progress=progress)
        for source, image in zip(sources, embedded, strict=True):
            if image.why:
                raise NoFaceError(f"{photo_name(source)} {image.why}")
        return np.concatenate([image.embeddings for image in embedded])

    def embed_each(
        self, images: Any, *, most: int | None = None, progress: Progress | None = None
    ) -> list[EmbeddedImage]:
        """The faces of each photo: see `ImageEmbedder`."""
        sources = as_sources(images)
        embedded: list[EmbeddedImage] = []
        for photos in decode_many(in_chunks(sources, _CHUNK), self._look):
            found: list[_Photo] = []
            for _, photo in photos:
                if isinstance(photo, ArcsetError):
                    raise photo
                found.append(_Photo(photo.found, photo.crops[:most]))
            rows = self._embed_crops([crop for photo in found for crop in photo.crops])
            ends = np.cumsum([len(photo.crops) for photo in found])
            embedded += [
                EmbeddedImage(part, photo.found.faces[:most], len(photo.found), photo.found.why)
                for part, photo in zip(np.split(rows, ends[:-1]), found, strict=True)
            ]
            if progress is not None:
                progress(len(embedded), len(sources))
        return embedded

    def embed_files(
        self,
        paths: ImageFile | str | Iterable[ImageFile | str],
        *,
        progress: Progress | None = None,
    ) -> Embedded:
        """The main face of each photo, of files and of all below folders.

        What cannot be read, or shows no face large enough, is listed as skipped; where there were
        several faces, `notes` say which was taken.
        """
        found = self._embed_paths(paths, 1, progress)
        skipped = {**found.skipped, **found.faceless}
        return Embedded(found.paths, found.embeddings, skipped, found.notes)

    def embed_all(
        self,
        paths: ImageFile | str | Iterable[ImageFile | str],
        *,
        progress: Progress | None = None,
    ) -> Embedded:
        """Every face of each photo, of files and of all below folders; the main one first."""
        return self._embed_paths(paths, None, progress)

    def embed_faces(self, photo: Any, name: str = "") -> tuple[Found, Embeddings]:
        """The faces of one photo and their embeddings (K, D), the main one first; K may be 0."""
        looked = self._look(photo, name)
        return looked.found, self._embed_crops(looked.crops)

    def verify(
        self, a: Any, b: Any, *, far: float | None = None, threshold: float | None = None
    ) -> Verification:
        """Whether the main faces of two photos are of the same person; a photo without a face
        leaves that undecided."""
        looked = [self._look(photo) for photo in (a, b)]
        notes = []
        for source, photo in zip((a, b), looked, strict=True):
            if not photo.found:
                why = f"{photo_name(source)} {photo.found.why}"
                return Verification(None, None, None, None, None, NO_FACE, note=why)
            notes.append(photo.found.choice(photo_name(source)))
        first, second = self.recognizer.embed(np.stack([photo.crops[0] for photo in looked]))
        cosine = float(first @ second)
        found = decide(cosine, self.thresholds, far=far, threshold=threshold, model=self.name)
        return replace(found, note="; ".join(note for note in [*notes, found.note] if note))

    def _embed_paths(
        self,
        paths: ImageFile | str | Iterable[ImageFile | str],
        most: int | None,
        progress: Progress | None,
    ) -> Embedded:
        files = files_of(paths)
        done = 0
        kept: list[ImageFile] = []
        faces: list[Face] = []
        parts = [np.empty((0, self.dim), np.float32)]
        skipped: dict[ImageFile, str] = {}
        faceless: dict[ImageFile, str] = {}
        notes: dict[ImageFile, str] = {}
        for photos in decode_many(in_chunks(files, _CHUNK), self._look):
            crops: list[Pixels] = []
            for path, photo in photos:
                if isinstance(photo, ArcsetError):
                    skipped[path] = reason(photo, str(path))
                elif not photo.crops:
                    faceless[path] = photo.found.why
                else:
                    wanted = photo.found.faces[:most]
                    if len(wanted) < len(photo.found):
                        notes[path] = photo.found.choice(str(path))
                    kept += [path] * len(wanted)
                    faces += wanted
                    crops += photo.crops[:most]
            if crops:
                parts.append(self.recognizer.embed(np.stack(crops)))
            done += len(photos)
            if progress is not None:
                progress(done, len(files))
        rows = np.concatenate(parts)
        return Embedded(tuple(kept), rows, skipped, notes, tuple(faces), faceless)

    def _embed_crops(self, crops: Sequence[Pixels]) -> Embeddings:
        if not crops:
            return np.empty((0, self.dim), np.float32)
        return self.recognizer.embed(np.stack(crops))

    def _look(self, source: Any, name: str = "") -> "_Photo":
        photo = read_photo(source, name)
        found = self.faces.find_in(photo)
        return _Photo(found, [align(photo, face.points) for face in found.faces])


@dataclass(frozen=True)
class _Photo:
    """The faces of a photo, and each of them aligned; without the photo, which may be large."""

    found: Found
    crops: list[Pixels]
