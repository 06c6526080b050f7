"""A trained embedding put to work: the same or different, who is it, nobody I know."""

from arcset.recognition.embedder import Embedded, Embedder, Embeddings, Progress
from arcset.recognition.recognizer import Recognizer
from arcset.recognition.verification import Verification, decide

__all__ = [
    "Embedded",
    "Embedder",
    "Embeddings",
    "Progress",
    "Recognizer",
    "Verification",
    "decide",
]
