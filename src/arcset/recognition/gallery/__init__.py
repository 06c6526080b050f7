"""A gallery: those a recognizer knows, in one file that survives whatever happens, or in Milvus."""

from arcset.recognition.gallery.gallery import Gallery
from arcset.recognition.gallery.records import Sample, Subject

__all__ = ["Gallery", "Sample", "Subject"]
