"""A trained embedding put to work: the same or different, who is it, nobody I know.

    recognizer = Recognizer.load("runs/demo/arcface")    # or an .onnx file
    recognizer.embed(images)                             # (N, D), unit rows
    recognizer.verify("a.png", "b.png")                  # same?, cosine, probability
    export("runs/demo/arcface", "model.onnx")            # one file that gives the same answers

`arcset.recognition.gallery` keeps whom it was told.
"""

from typing import TYPE_CHECKING

from arcset.lazy import import_later

if TYPE_CHECKING:
    from arcset.recognition.embedder import Embedded, Embedder, Embeddings, Progress
    from arcset.recognition.presets import PRESETS, Pixels, preset_names
    from arcset.recognition.recognizer import Recognizer
    from arcset.recognition.verification import Verification, decide

__all__ = [
    "PRESETS",
    "Embedded",
    "Embedder",
    "Embeddings",
    "Pixels",
    "Progress",
    "Recognizer",
    "Verification",
    "decide",
    "preset_names",
]

__getattr__ = import_later(
    __name__,
    {
        "arcset.recognition.embedder": ["Embedded", "Embedder", "Embeddings", "Progress"],
        "arcset.recognition.presets": ["PRESETS", "Pixels", "preset_names"],
        "arcset.recognition.recognizer": ["Recognizer"],
        "arcset.recognition.verification": ["Verification", "decide"],
    },
)
