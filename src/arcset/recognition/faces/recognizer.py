"""Photos to embeddings of the faces in them: detect, align, embed."""

import hashlib
from typing import Any

import numpy.typing as npt

from arcset.evaluation.calibration import Thresholds
from arcset.recognition.faces.alignment import ALIGNMENT, align
from arcset.recognition.faces.detect import Faces, read_photo
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Prepared

__all__ = ["FaceRecognizer"]


class FaceRecognizer(ImageEmbedder):
    """An embedder of photos: finds the faces, aligns them, and lets another embedder embed them.

    recognizer: whatever embeds aligned faces, uint8 RGB (N, 112, 112, 3): a network for faces from
        an ONNX file, or a run that was trained on aligned faces.
    faces: the detector.
    thresholds: of cosines between faces; those of the recognizer if left out.

    Where one row per photo is wanted it is that of the main face (see `Faces`); `embed_each` and
    `embed_all` give all of them. The digest covers the recognizer, the detector's file, and the
    alignment.
    """

    _chunk = 32  # photos, which may be large

    def __init__(
        self, recognizer: ImageEmbedder, faces: Faces, *, thresholds: Thresholds | None = None
    ) -> None:
        parts = ("arcset faces", recognizer.digest, faces.digest, ALIGNMENT)
        super().__init__(
            recognizer.name,
            recognizer.dim,
            hashlib.sha256("\n".join(parts).encode()).hexdigest(),
            recognizer.thresholds if thresholds is None else thresholds,
        )
        self.recognizer, self.faces = recognizer, faces

    def _prepare(self, source: Any) -> Prepared:
        photo = read_photo(source)
        found = self.faces.find_in(photo)
        crops = [align(photo, face.points) for face in found.faces]
        return Prepared(crops, found.faces, found.why)

    def _embed(self, samples: npt.NDArray[Any]) -> Embeddings:
        return self.recognizer.embed(samples)
