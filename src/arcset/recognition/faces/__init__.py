"""Faces in photos: found, aligned, embedded. Needs OpenCV: `pip install 'arcset[faces]'`.

- `Faces`: where the faces of a photo are, with YuNet.
- `align`: a face as the 112×112 pixels that recognizers expect.
- `FaceRecognizer`: an embedder of photos, to be used like any other.
"""

from arcset.recognition.faces.alignment import POINTS, align, similarity
from arcset.recognition.faces.detect import (
    SFACE,
    YUNET,
    Face,
    Faces,
    Found,
    ModelFile,
    Pixels,
    read_photo,
)
from arcset.recognition.faces.recognizer import FaceRecognizer
from arcset.recognition.recognizer import NoFaceError

__all__ = [
    "POINTS",
    "SFACE",
    "YUNET",
    "Face",
    "FaceRecognizer",
    "Faces",
    "Found",
    "ModelFile",
    "NoFaceError",
    "Pixels",
    "align",
    "read_photo",
    "similarity",
]
