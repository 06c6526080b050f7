"""A gallery: those a recognizer knows, in one file that survives whatever happens, or in Milvus."""

from typing import TYPE_CHECKING

from arcset.lazy import import_later

if TYPE_CHECKING:
    from arcset.recognition.gallery.base import Gallery
    from arcset.recognition.gallery.samples import Sample, Subject

__all__ = ["Gallery", "Sample", "Subject"]

__getattr__ = import_later(
    __name__,
    {
        "arcset.recognition.gallery.base": ["Gallery"],
        "arcset.recognition.gallery.samples": ["Sample", "Subject"],
    },
)
