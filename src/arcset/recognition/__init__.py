"""A trained embedding put to work: are two the same, who is it, or is it someone unknown?

    recognizer = Recognizer.load("runs/demo/arcface")    # or an .onnx file
    recognizer.embed(images)                             # (N, D), unit rows
    recognizer.verify("a.png", "b.png")                  # same?, cosine, probability
    export("runs/demo/arcface", "model.onnx")            # one file that gives the same answers

`arcset.recognition.gallery` stores who is enrolled, and finds them again.
"""

from typing import TYPE_CHECKING

from arcset.lazy import import_later

if TYPE_CHECKING:
    from arcset.recognition.decisions import decide
    from arcset.recognition.inputs import PRESETS, preset_names
    from arcset.recognition.recognizer import ImageEmbedder, Recognizer

__all__ = ["PRESETS", "ImageEmbedder", "Recognizer", "decide", "preset_names"]

__getattr__ = import_later(
    __name__,
    {
        "arcset.recognition.decisions": ["decide"],
        "arcset.recognition.inputs": ["PRESETS", "preset_names"],
        "arcset.recognition.recognizer": ["ImageEmbedder", "Recognizer"],
    },
)
