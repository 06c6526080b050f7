"""Whether there is a gallery at an address, and making one."""

from arcset.errors import DataError
from arcset.recognition.gallery.milvus.about import About
from arcset.recognition.gallery.milvus.collections import Collections, stored_dim
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.gallery.settings import Settings

__all__ = ["make_gallery", "read_gallery"]


def read_gallery(connection: Connection, collections: Collections) -> Settings | None:
    """Open the collections of a gallery; its settings, or None where there is none.

    Raises `DataError` for collections that are no gallery's, or of one that is damaged.
    """
    if not collections.exist():
        return None
    dim = collections.open()
    settings = About(connection.strongly(), collections).read()
    if settings is not None and dim != stored_dim(settings.dim):
        raise DataError(
            f"{connection.address} is damaged: its vectors are not of {settings.dim} numbers"
        )
    return settings


def make_gallery(
    connection: Connection, collections: Collections, first: dict[str, str]
) -> Settings:
    """Make collections, and then write what says that they are a gallery."""
    dim = int(first["dim"])
    collections.make(dim)
    if collections.open() != stored_dim(dim):
        raise DataError(
            f"{connection.address} is no gallery: there is a collection of other vectors"
        )
    about = About(connection.strongly(), collections)
    about.write(**first)
    settings = about.read()
    if settings is None:
        raise DataError(f"{connection.address} cannot be made: what is written does not come back")
    return settings
