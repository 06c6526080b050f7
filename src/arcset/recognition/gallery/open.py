"""The model of a gallery: a run or an ONNX file, applied to the faces in photos or not."""

from pathlib import Path
from typing import TYPE_CHECKING

from arcset.errors import OptionError

if TYPE_CHECKING:  # torch, which embeddings alone do not need
    from arcset.recognition import Recognizer
    from arcset.recognition.faces import FaceRecognizer

__all__ = ["load_model", "with_faces"]


def load_model(
    model: Path | str, faces: str | None = None, *, device: str = "auto"
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
